"""What goes through: bodies, refusals, what readers see."""

from concurrent.futures import Future
from threading import Thread
from typing import Any

import pytest

from delayline.buffer.cursor import Cursor
from delayline.errors import MalformedRecord
from delayline.records.message import Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, Delivery, Fetched, ShardBatch
from mq.errors import CommitAborted, DeliveryRefused, QueueUnavailable, TopicUnknown
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, Place, Worker, body, soon


@pytest.fixture
def worker(place: Place) -> Worker:
    """The owner of both shards of the topic."""
    place.make_topic()
    return owner(place)


def owner(place: Place, **settings: Any) -> Worker:
    queue = place.queue(**settings)
    queue.ensure_buffer(place.topic, DEFAULT_RULES)
    worker = place.worker(queue)
    for shard in worker.assigned(2):
        worker.claim(shard)
    return worker


@pytest.mark.parametrize(
    "sent",
    [
        encode_body(None, None),
        encode_body(b"", b""),
        encode_body(b"k", b"v", [(b"h", None), (b"h", b""), (b"h", b"\0\xff"), (b"", b"x")]),
        encode_body(None, bytes(range(256)), [("Grüße".encode(), b"1")] * 70),
    ],
)
def test_key_value_and_headers_come_and_go_as_they_are(place: Place, worker: Worker, sent: bytes) -> None:
    worker.source.seek(place.shard, 0)
    worker.queue.append([Append(place.buffer, "0", sent)]).result(PATIENCE_S)
    (record,) = worker.read(place.shard, 1)
    worker.commit(place.shard, deliveries=[Delivery(record.body)])
    (delivered,) = soon(lambda: worker.queue.read(place.topic, "0", 0, 10))
    assert record.body == delivered.body == sent


@pytest.mark.parametrize(
    "sent", [b"", b"\x02", encode_body(None, b"v", [(b"\xff", b"x")]), encode_body(None, b"", [(b"a\0b", b"")])]
)
def test_a_body_that_the_library_would_change_is_refused(place: Place, worker: Worker, sent: bytes) -> None:
    with pytest.raises(MalformedRecord):
        worker.queue.append([Append(place.topic, "0", sent)]).result(PATIENCE_S)


def test_several_records_are_one_transaction(place: Place, worker: Worker) -> None:
    records = [
        Append(place.topic, "0", body(b"a")),
        Append(place.buffer, "1", body(b"b")),
        Append(place.topic, "0", body(b"c")),
    ]
    positions = worker.queue.append(records).result(PATIENCE_S)
    assert [at[:3] for at in positions] == [(place.topic, "0", 0), (place.buffer, "1", 0), (place.topic, "0", 1)]
    assert len(soon(lambda: worker.queue.read(place.topic, "0", 0, 9))) == 2


def test_the_readers_position_passes_what_is_behind_the_last_record(place: Place, worker: Worker) -> None:
    """Markers and aborted records: else a log that ends in them could never be read to its end."""
    from confluent_kafka import Producer

    producer = Producer(worker.queue.settings.transactional(f"{place.namespace}-client"))
    producer.init_transactions(PATIENCE_S)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(place.buffer, b"x", partition=0)
        producer.flush(PATIENCE_S)
        end()
    # The coordinator answers before its markers stand in the log, and a reader may pass the last two offsets at once.
    log_end = soon(lambda: end if (end := worker.queue.log_range(place.shard)[1]) == 4 else None)
    worker.source.seek(place.shard, 0)
    soon(lambda: [e for e in worker.poll() if isinstance(e, Fetched) and e.next_offset == log_end])
    records = [record for event in worker.events if isinstance(event, Fetched) for record in event.records]
    assert len(records) == 1


def test_an_open_transaction_of_a_client_hides_what_is_behind_it_until_it_ends(place: Place, worker: Worker) -> None:
    from confluent_kafka import Producer

    producer = Producer(worker.queue.settings.transactional(f"{place.namespace}-client"))
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(place.buffer, b"x", partition=0)
    producer.flush(PATIENCE_S)
    worker.queue.append([Append(place.buffer, "0", body(b"y"))]).result(PATIENCE_S)
    worker.source.seek(place.shard, 0)
    hidden = [event for _ in range(5) for event in worker.poll() if isinstance(event, Fetched)]
    producer.commit_transaction(PATIENCE_S)
    assert (hidden, len(worker.read(place.shard, 2))) == ([], 2)


@pytest.mark.parametrize("committed", [True, False])
def test_what_is_hidden_is_not_stable_before_its_transaction_has_ended(
    place: Place, worker: Worker, committed: bool
) -> None:
    from confluent_kafka import Producer

    producer = Producer(worker.queue.settings.transactional(f"{place.namespace}-client"))
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(place.buffer, body(b"x"), partition=0)
    producer.flush(PATIENCE_S)
    assert [worker.queue.is_stable(place.buffer, name, 0.2) for name in "01"] == [False, True]
    if committed:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)
    assert worker.queue.is_stable(place.buffer, "0", PATIENCE_S)
    assert len(worker.queue.read(place.buffer, "0", 0, 9)) == committed


# --- refusals


def test_a_record_too_large_for_the_target_is_named_and_nothing_is_written(place: Place) -> None:
    place.make_topic(max_message_bytes="1000")
    worker = owner(place)
    other = Shard(place.topic, "1")
    batch = [
        ShardBatch(other, worker.cursors[other], [Delivery(body(b"small"))]),
        ShardBatch(place.shard, worker.cursors[place.shard], [Delivery(body(b"x" * 2000))]),
    ]
    with pytest.raises(DeliveryRefused) as refused:
        worker.sink.commit(batch)
    assert (refused.value.shard, refused.value.of_record) == (place.shard, True)
    worker.commit(other, deliveries=[Delivery(body(b"next"))])
    assert [record.body for record in soon(lambda: worker.queue.read(place.topic, "1", 0, 9))] == [body(b"next")]


def test_a_record_for_a_compacted_topic_without_a_key_is_of_record(place: Place) -> None:
    place.make_topic(cleanup_policy="compact")
    worker = owner(place)
    with pytest.raises(DeliveryRefused) as refused:
        worker.commit(place.shard, deliveries=[Delivery(body(b"no key"))])
    assert refused.value.of_record


def test_a_deleted_target_is_of_the_target_and_the_worker_goes_on_elsewhere(place: Place, worker: Worker) -> None:
    place.admin.delete_topics([place.topic])[place.topic].result()
    with pytest.raises(DeliveryRefused) as refused:
        worker.commit(place.shard, deliveries=[Delivery(body(b"d"))])
    assert (refused.value.shard, refused.value.of_record) == (place.shard, False)
    worker.commit(place.shard)
    with pytest.raises(TopicUnknown):
        worker.queue.topic(place.topic)


def test_an_append_to_a_deleted_topic_is_an_error(place: Place, worker: Worker) -> None:
    place.admin.delete_topics([place.topic])[place.topic].result()
    with pytest.raises((TopicUnknown, QueueUnavailable)):
        worker.queue.append([Append(place.topic, "0", body(b"d"))]).result(PATIENCE_S)


# --- time


def test_now_is_never_ahead_of_the_brokers_clock(place: Place, worker: Worker) -> None:
    """The claims have given us the broker's time; a machine whose own clock is ahead does not run ahead of it."""
    before_ms = worker.source.now_ms(place.shard)
    (position,) = worker.queue.append([Append(place.buffer, "0", body(b"a"))]).result(PATIENCE_S)
    assert before_ms <= position.appended_at_ms
    assert CLOCK.now_ms() - worker.source.now_ms(place.shard) < 1000


def test_a_commit_after_the_end_is_refused(place: Place, worker: Worker) -> None:
    worker.sink.close()
    with pytest.raises(CommitAborted):
        worker.commit(place.shard)


def test_many_appends_at_once_are_each_stored_once(place: Place, worker: Worker) -> None:
    futures: list[Future[Any]] = []

    def send(number: int) -> None:
        pair = [Append(place.topic, "0", body(b"%d-%d" % (number, n))) for n in range(2)]
        futures.append(worker.queue.append(pair))

    threads = [Thread(target=send, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    offsets = [position.offset for future in futures for position in future.result(PATIENCE_S)]
    found = soon(lambda: seen if len(seen := worker.queue.read(place.topic, "0", 0, 100)) == 40 else None)
    assert sorted(offsets) == [record.offset for record in found]
    assert len({record.body for record in found}) == 40


def test_a_cursor_never_seen_is_none(place: Place) -> None:
    place.make_topic()
    queue = place.queue()
    info = queue.ensure_buffer(place.topic, DEFAULT_RULES)
    place.worker(queue).assigned(2)
    handover = queue.takeover(place.shard)
    assert (handover.cursor, handover.topic_id) == (None, info.topic_id)
    assert Cursor(topic_id=handover.topic_id).owner_epoch == 0
