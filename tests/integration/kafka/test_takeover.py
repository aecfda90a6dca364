"""Who may write: takeovers, rebalances, frozen and dead workers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Timer
from typing import TYPE_CHECKING, Any

import pytest

from delayline.buffer.cursor import Cursor
from delayline.records.message import Key
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, Delivery, Lost, Revoked, ShardBatch
from mq.errors import Fenced, QueueUnavailable
from mq.kafka.data_path.sends import Aborted
from mq.kafka.worker.cursors import decode_metadata, encode_metadata
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, Place, Worker, body, soon

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from mq.kafka.queue import KafkaQueue


@pytest.fixture
def ready(place: Place) -> Place:
    """The topic and its buffer, with two partitions."""
    place.make_topic()
    return place


def at_work(ready: Place, **settings: Any) -> tuple["KafkaQueue", Worker]:
    """A queue, and a worker that both shards are assigned to."""
    queue = ready.queue(**settings)
    queue.ensure_buffer(ready.topic, DEFAULT_RULES)
    worker = ready.worker(queue)
    worker.assigned(2)
    return queue, worker


def test_the_next_owner_finds_the_last_cursor(ready: Place) -> None:
    queue, first = at_work(ready)
    claimed = first.claim(ready.shard)
    last = replace(claimed, next_offset=0, delivered_key=Key(7, 4))
    first.sink.commit([ShardBatch(ready.shard, last, [Delivery(body(b"d"))])])
    first.close()
    second = ready.worker(queue)
    second.assigned(2)
    assert queue.takeover(ready.shard).cursor == last


def test_a_deleted_group_is_made_up_for_by_the_mirror(ready: Place) -> None:
    queue, worker = at_work(ready)
    claimed = worker.claim(ready.shard)
    worker.close()
    group = f"{ready.namespace}-worker"
    soon(lambda: ready.admin.delete_consumer_groups([group])[group].exception() is None)
    assert queue.takeover(ready.shard).cursor == claimed


def cover_the_mirror(ready: Place, producer: "Producer") -> None:
    """An open transaction of the producer hides what comes behind."""
    for row in range(4):
        producer.produce(f"{ready.namespace}.cursor", b"", b"", partition=row)
    producer.flush(PATIENCE_S)


def test_the_mirror_is_not_believed_while_a_transaction_of_somebody_else_hides_its_end(ready: Place) -> None:
    """Rows of the cursor topic are shared: what stood before that transaction would be an outdated cursor."""
    from confluent_kafka import Producer

    queue, worker = at_work(ready)
    worker.claim(ready.shard)
    other = Producer(queue.settings.transactional(f"{ready.namespace}-other"))
    other.init_transactions(PATIENCE_S)
    other.begin_transaction()
    cover_the_mirror(ready, other)
    last = replace(worker.cursors[ready.shard], delivered_key=Key(7, 4))
    worker.sink.commit([ShardBatch(ready.shard, last, [Delivery(body(b"d"))])])
    worker.close()
    group = f"{ready.namespace}-worker"
    soon(lambda: ready.admin.delete_consumer_groups([group])[group].exception() is None)
    ender = Timer(1.0, other.abort_transaction)
    ender.daemon = True
    ender.start()
    assert queue.takeover(ready.shard).cursor == last
    ender.join()


def go_back(ready: Place, cursor: Cursor) -> None:
    """As a coordinator that comes back without the last minutes of what it had."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    group, metadata = f"{ready.namespace}-worker", encode_metadata(cursor)
    at = TopicPartition(ready.buffer, int(ready.shard.partition), cursor.next_offset, metadata=metadata)
    asked = ConsumerGroupTopicPartitions(group, [at])
    soon(lambda: ready.admin.alter_consumer_group_offsets([asked])[group].exception() is None)


def test_a_group_that_has_lost_commits_is_made_up_for_by_the_mirror(ready: Place) -> None:
    """By queues that have not read the mirror a moment ago."""
    _, worker = at_work(ready)
    claimed = worker.claim(ready.shard)
    worker.commit(ready.shard, deliveries=[Delivery(body(b"d"))])
    last = replace(worker.cursors[ready.shard], delivered_key=Key(7, 4))
    worker.sink.commit([ShardBatch(ready.shard, last, [Delivery(body(b"d"))])])
    worker.close()
    go_back(ready, claimed)
    assert ready.queue().takeover(ready.shard).cursor == last
    assert ready.queue().read_cursor_unfenced(ready.shard) == last
    heir = ready.worker(ready.queue())
    heir.assigned(2)
    assert heir.claim(ready.shard).owner_epoch == last.owner_epoch + 1


def test_who_claims_after_what_a_group_has_lost_is_refused(ready: Place) -> None:
    queue, worker = at_work(ready)
    claimed = worker.claim(ready.shard)
    worker.close()
    heir = ready.worker(queue)
    heir.assigned(2)
    heir.claim(ready.shard)
    heir.close()
    go_back(ready, claimed)
    late = ready.worker(ready.queue())
    late.assigned(2)
    believing = replace(claimed, owner_epoch=claimed.owner_epoch + 1, writer=late.writer)
    with pytest.raises(Fenced):
        late.sink.commit([ShardBatch(ready.shard, believing)])
    assert late.claim(ready.shard).owner_epoch == 3


def test_every_writer_that_a_group_has_forgotten_is_fenced(ready: Place) -> None:
    """The group names the first, the mirror the second, and its end, which is hidden at first, the third."""
    from confluent_kafka import KafkaException, Producer

    queue = ready.queue()
    queue.ensure_buffer(ready.topic, DEFAULT_RULES)
    other = Producer(queue.settings.transactional(f"{ready.namespace}-other"))
    other.init_transactions(PATIENCE_S)
    claims, left = [], []
    for number in range(3):
        if number == 2:
            other.begin_transaction()
            cover_the_mirror(ready, other)
        dead = ready.worker(queue)
        dead.assigned(2)
        claims.append(dead.claim(ready.shard))
        producer = Producer(queue.settings.transactional(dead.writer))
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(ready.topic, b"never", partition=0)
        producer.flush(PATIENCE_S)
        left.append(producer)
        dead.source.close()
    go_back(ready, claims[0])
    ender = Timer(1.0, other.abort_transaction)
    ender.daemon = True
    ender.start()
    assert ready.queue().takeover(ready.shard).cursor == claims[2]
    for producer in left[1:]:
        with pytest.raises(KafkaException):
            producer.commit_transaction(PATIENCE_S)
    ender.join()


def test_what_a_group_has_lost_is_read_to_the_mirrors_end(ready: Place) -> None:
    """Somebody's transaction hides the last of it."""
    from confluent_kafka import Producer

    queue, worker = at_work(ready)
    claimed = worker.claim(ready.shard)
    seen = replace(claimed, delivered_key=Key(7, 4))
    worker.sink.commit([ShardBatch(ready.shard, seen, [Delivery(body(b"d"))])])
    other = Producer(queue.settings.transactional(f"{ready.namespace}-other"))
    other.init_transactions(PATIENCE_S)
    other.begin_transaction()
    cover_the_mirror(ready, other)
    last = replace(seen, delivered_key=Key(8, 5))
    worker.sink.commit([ShardBatch(ready.shard, last, [Delivery(body(b"d"))])])
    worker.close()
    go_back(ready, claimed)
    ender = Timer(1.0, other.abort_transaction)
    ender.daemon = True
    ender.start()
    assert ready.queue().takeover(ready.shard).cursor == last
    ender.join()


def test_a_cursor_that_the_mirror_lacks_is_the_groups(ready: Place) -> None:
    queue, worker = at_work(ready)
    worker.close()
    cursor = Cursor(topic_id=queue.buffer(ready.shard).topic_id, owner_epoch=3, writer="somebody before")
    go_back(ready, cursor)
    assert ready.queue().takeover(ready.shard).cursor == cursor


def test_while_the_group_has_all_commits_nobody_waits_for_what_hides_the_mirrors_end(ready: Place) -> None:
    from confluent_kafka import Producer

    queue, worker = at_work(ready, request_timeout_s=2.0)
    worker.claim(ready.shard)
    other = Producer(queue.settings.transactional(f"{ready.namespace}-other"))
    other.init_transactions(PATIENCE_S)
    other.begin_transaction()
    cover_the_mirror(ready, other)
    worker.commit(ready.shard, deliveries=[Delivery(body(b"d"))])
    worker.close()
    assert queue.takeover(ready.shard).cursor == worker.cursors[ready.shard]
    other.abort_transaction(PATIENCE_S)


def test_offsets_reset_by_hand_are_made_up_for_by_the_mirror(ready: Place) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    queue, worker = at_work(ready)
    claimed = worker.claim(ready.shard)
    worker.close()
    group = f"{ready.namespace}-worker"
    reset = ConsumerGroupTopicPartitions(group, [TopicPartition(ready.buffer, 0, 0)])
    soon(lambda: ready.admin.alter_consumer_group_offsets([reset])[group].exception() is None)
    assert queue.takeover(ready.shard).cursor == claimed


def test_a_new_worker_gets_a_share_once_the_old_one_has_let_go(ready: Place) -> None:
    queue = ready.queue()
    queue.ensure_buffer(ready.topic, DEFAULT_RULES)
    first = ready.worker(queue)
    for shard in first.assigned(2):
        first.claim(shard)
    second = ready.worker(queue)
    revoked = soon(lambda: [e for e in first.poll() if isinstance(e, Revoked)])[0].shards
    before = list(second.poll(1.0))
    first.commit(revoked[0], deliveries=[Delivery(body(b"last words"))])
    first.source.release(revoked)
    gained = second.assigned(1)
    assert (before, tuple(gained)) == ([], revoked)
    assert second.claim(revoked[0]).owner_epoch == 2


def test_after_letting_go_of_a_shard_its_commits_are_refused_and_the_others_go_on(ready: Place) -> None:
    queue = ready.queue()
    queue.ensure_buffer(ready.topic, DEFAULT_RULES)
    first = ready.worker(queue)
    for shard in first.assigned(2):
        first.claim(shard)
    ready.worker(queue)
    (gone,) = soon(lambda: [e for e in first.poll() if isinstance(e, Revoked)])[0].shards
    first.source.release([gone])
    (kept,) = first.cursors.keys() - {gone}
    soon(lambda: gone not in first.source.membership.standing().tenures)
    with pytest.raises(Fenced):
        first.commit(gone, deliveries=[Delivery(body(b"too late"))])
    first.commit(kept, deliveries=[Delivery(body(b"mine"))])
    assert queue.offsets(ready.topic, gone.partition)[1] == 0


def test_an_open_transaction_of_a_dead_worker_is_ended_by_the_takeover(ready: Place) -> None:
    """Its cursor is not in the log yet: an outdated one must not be read, and it must not be committed later."""
    from confluent_kafka import KafkaException, Producer, TopicPartition

    queue, dead = at_work(ready, transaction_timeout_s=60.0)
    claimed = dead.claim(ready.shard)
    producer = Producer(queue.settings.transactional(dead.writer))
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(ready.topic, b"never", partition=0)
    offset = TopicPartition(ready.buffer, 0, 5, metadata="junk.")
    producer.send_offsets_to_transaction([offset], dead.source.membership.standing().metadata, PATIENCE_S)
    dead.source.close()
    heir = ready.worker(queue)
    heir.assigned(2)
    assert queue.takeover(ready.shard).cursor == claimed
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)


def test_a_transaction_that_cannot_be_ended_is_left_behind_and_the_next_owner_fences_the_id_after_it(
    ready: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its markers would be written with acks=all, to a partition with too few replicas."""
    from confluent_kafka import KafkaError, KafkaException, Producer

    queue, worker = at_work(ready)
    worker.claim(ready.shard)

    def unfinished() -> None:
        raise Aborted(KafkaError(KafkaError.CONCURRENT_TRANSACTIONS))

    monkeypatch.setattr(worker.sink.transactions, "open", unfinished)
    with pytest.raises(Fenced):
        worker.commit(ready.shard)
    assert worker.claim(ready.shard).owner_epoch == 2
    worker.commit(ready.shard, deliveries=[Delivery(body(b"after"))])
    left = Producer(queue.settings.transactional(worker.sink.transactional_id))
    worker.close()
    left.init_transactions(PATIENCE_S)
    left.begin_transaction()
    left.produce(ready.topic, b"never", partition=0)
    heir = ready.worker(queue)
    heir.assigned(2)
    handover = queue.takeover(ready.shard)
    assert handover.cursor is not None
    assert handover.cursor.writer == worker.sink.transactional_id != worker.writer
    with pytest.raises(KafkaException):
        left.commit_transaction(PATIENCE_S)


def test_while_a_member_has_a_transaction_open_the_takeover_waits(ready: Place) -> None:
    from confluent_kafka import Producer, TopicPartition

    queue, worker = at_work(ready)
    claimed = worker.claim(ready.shard)
    member = Producer(queue.settings.transactional(f"{ready.namespace}-other"))
    member.init_transactions(PATIENCE_S)
    offset = TopicPartition(ready.buffer, 0, 5, metadata=encode_metadata(replace(claimed, owner_epoch=9)))
    member.begin_transaction()
    cover_the_mirror(ready, member)
    member.send_offsets_to_transaction([offset], worker.source.membership.standing().metadata, PATIENCE_S)
    with pytest.raises(QueueUnavailable):
        queue.takeover(ready.shard)
    member.abort_transaction(PATIENCE_S)
    assert soon(lambda: queue.takeover(ready.shard)).cursor == claimed


def test_an_offset_that_stays_pending_for_ever_is_made_up_for_by_the_mirror(ready: Place) -> None:
    """A coordinator has lost the end of a transaction: the mirror shows that there is none."""
    from confluent_kafka import Producer, TopicPartition

    queue, worker = at_work(ready)
    claimed = worker.claim(ready.shard)
    hanging = Producer(queue.settings.transactional(f"{ready.namespace}-other"))
    hanging.init_transactions(PATIENCE_S)
    hanging.begin_transaction()
    offset = TopicPartition(ready.buffer, 0, 5, metadata="junk.")
    hanging.send_offsets_to_transaction([offset], worker.source.membership.standing().metadata, PATIENCE_S)
    assert queue.takeover(ready.shard).cursor == claimed
    hanging.abort_transaction(PATIENCE_S)


def test_two_that_claim_after_the_same_handover_are_not_both_believed(ready: Place) -> None:
    _, worker = at_work(ready)
    claimed = worker.claim(ready.shard)
    with pytest.raises(Fenced):
        worker.sink.commit([ShardBatch(ready.shard, replace(claimed, writer="somebody else"))])


@contextmanager
def child(place: Place) -> Iterator[subprocess.Popen[str]]:
    """A worker in a process of its own that owns both shards and delivers numbers into the first, for ever."""
    command = [sys.executable, "-m", "tests.integration.kafka.child"]
    arguments = [place.kafka.bootstrap_servers, place.namespace, place.topic]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "delivering\n"
            yield process
        finally:
            process.kill()


def delivered(place: Place, queue: object) -> list[int]:
    from tests.integration.kafka.child import numbers

    return numbers(queue, place.topic)


def test_a_killed_worker_has_its_heir_within_seconds_and_nothing_twice(ready: Place) -> None:
    queue = ready.queue()
    queue.ensure_buffer(ready.topic, DEFAULT_RULES)
    with child(ready) as process:
        process.kill()
        killed_s = CLOCK.monotonic_s()
        heir = ready.worker(queue)
        heir.assigned(2)
        cursor = heir.claim(ready.shard)
        heir.commit(ready.shard, deliveries=[Delivery(body(b"%d" % cursor.next_offset))])
        assert CLOCK.monotonic_s() - killed_s < 6
    found = soon(lambda: seen if (seen := delivered(ready, queue))[-1:] == [cursor.next_offset] else None)
    assert found == list(range(len(found)))


def test_a_frozen_worker_that_wakes_up_writes_nothing_any_more(ready: Place) -> None:
    queue = ready.queue()
    queue.ensure_buffer(ready.topic, DEFAULT_RULES)
    with child(ready) as process:
        os.kill(process.pid, signal.SIGSTOP)
        heir = ready.worker(queue)
        heir.assigned(2)
        cursor = heir.claim(ready.shard)
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout
        assert process.stdout.readline().startswith("refused")
        heir.commit(ready.shard, deliveries=[Delivery(body(b"%d" % cursor.next_offset))])
    found = soon(lambda: seen if (seen := delivered(ready, queue))[-1:] == [cursor.next_offset] else None)
    assert found == list(range(len(found)))


def test_an_unpolled_worker_gives_its_shards_up(ready: Place) -> None:
    queue, stuck = at_work(ready, poll_interval_max_s=2.0)
    heir = ready.worker(queue)
    assert len(heir.assigned(2)) == 2
    assert soon(lambda: [event for event in stuck.poll() if isinstance(event, (Lost, Revoked))])


def test_a_cursor_of_unknown_format_is_never_guessed(ready: Place) -> None:
    cursor = Cursor(topic_id=b"t" * 16, writer="w" * 110, next_offset=9)
    assert decode_metadata(encode_metadata(cursor) + "\0junk") == cursor
    assert len(encode_metadata(cursor)) < 1024


def test_appends_after_a_takeover_are_read(ready: Place) -> None:
    queue = ready.queue()
    name = queue.ensure_buffer(ready.topic, DEFAULT_RULES).name
    worker = ready.worker(queue)
    worker.assigned(2)
    worker.claim(ready.shard)
    worker.source.seek(ready.shard, 0)
    queue.append([Append(name, "0", body(b"a"))]).result(PATIENCE_S)
    assert [record.body for record in worker.read(ready.shard, 1)] == [body(b"a")]
