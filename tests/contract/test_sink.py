"""mq.contract.Sink, over every queue."""

from dataclasses import replace
from threading import Thread

import pytest

from delayline.buffer.cursor import Cursor
from delayline.clock import ManualClock
from delayline.errors import Bug
from delayline.records.message import Key, Shard
from mq.contract import HEADER_ROOM_BYTES, Append, Delivery, LogRecord, ShardBatch
from mq.errors import CommitAborted, DeliveryRefused, Fenced, TopicUnknown
from mq.local.queue import LocalQueue
from tests.contract.conftest import NAMESPACE, MakeQueue, local_only
from tests.contract.drive import Worker, append, bodies, buffer, next_claim, start_worker

SHARD = Shard("orders", "0")
OTHER = Shard("orders", "1")
RETRY = f"{NAMESPACE}.retry.billing"
PARTS = ("deliveries", "appends", "audit", "dead", "cross_partition")


def everything(shard: Shard, cursor: Cursor) -> ShardBatch:
    """A shard's part of a commit, with one record of each of PARTS."""
    return ShardBatch(shard, cursor, [Delivery(b"d")], [b"r"], [b"u"], [b"x"], [Append(RETRY, "0", b"y")])


@pytest.fixture
def worker(queue: LocalQueue) -> Worker:
    return start_worker(queue, "first")


def everywhere(queue: LocalQueue, topic: str) -> list[bytes]:
    """The bodies of all partitions."""
    return [body for partition in queue.topic(topic).partitions for body in bodies(queue, topic, partition)]


def written(queue: LocalQueue) -> list[bytes]:
    topics = ["orders", f"{NAMESPACE}.buffer.orders", f"{NAMESPACE}.audit", f"{NAMESPACE}.dead"]
    return [body for topic in topics for body in everywhere(queue, topic)] + in_group_topic(queue)


def local(queue: LocalQueue) -> bool:
    return isinstance(queue, LocalQueue)


def in_group_topic(queue: LocalQueue, topic: str = RETRY) -> list[bytes]:
    """Nothing where it has not been made."""
    try:
        return everywhere(queue, topic)
    except TopicUnknown:
        return []


# --- what a commit makes true


def test_a_commit_makes_everything_true_at_once(queue: LocalQueue, worker: Worker) -> None:
    cursor = replace(worker.cursors[SHARD], next_offset=5, delivered_key=Key(7, 4), low_offset=3)
    worker.cursors[SHARD] = cursor
    worker.sink.commit([everything(SHARD, worker.cursors[SHARD])])
    assert written(queue) == [b"d", b"r", b"u", b"x", b"y"]
    assert queue.takeover(SHARD).cursor == cursor


def test_deliveries_go_into_the_partition_of_the_shards_name(queue: LocalQueue, worker: Worker) -> None:
    worker.commit(OTHER, deliveries=[Delivery(b"a"), Delivery(b"b")])
    assert bodies(queue, "orders", "1") == [b"a", b"b"]


@local_only("brokers have clocks of their own")
def test_deliveries_carry_their_time_or_that_of_the_commit(
    queue: LocalQueue, worker: Worker, clock: ManualClock
) -> None:
    worker.commit(SHARD, deliveries=[Delivery(b"a"), Delivery(b"b", 17), Delivery(b"c")])
    now_ms = clock.now_ms()
    expected = [LogRecord(0, now_ms, b"a"), LogRecord(1, 17, b"b"), LogRecord(2, now_ms, b"c")]
    assert queue.read("orders", "0", 0, 10) == expected


@local_only("brokers have clocks of their own")
def test_a_records_own_time_does_not_move_the_append_time(
    queue: LocalQueue, worker: Worker, clock: ManualClock
) -> None:
    worker.commit(SHARD, deliveries=[Delivery(b"a", clock.now_ms() + 1_000_000)])
    assert append(queue, "orders", "0", b"b")[0].appended_at_ms == clock.now_ms()


def test_appends_go_into_the_shards_own_log_and_are_fetched(queue: LocalQueue, worker: Worker) -> None:
    worker.seek_all()
    worker.commit(OTHER, appends=[b"a", b"b"])
    assert {shard: [record.body for record in records] for shard, records in worker.poll().items()} == {
        OTHER: [b"a", b"b"]
    }


def test_audit_and_dead_letters_of_a_shard_stay_in_one_partition(queue: LocalQueue, worker: Worker) -> None:
    for number in range(5):
        worker.commit(SHARD, audit=[b"u%d" % number], dead=[b"x%d" % number])
    for topic, letter in ((f"{NAMESPACE}.audit", b"u"), (f"{NAMESPACE}.dead", b"x")):
        filled = [found for part in "0123" if (found := bodies(queue, topic, part))]
        assert filled == [[letter + b"%d" % number for number in range(5)]]


def test_one_commit_speaks_of_many_shards(queue: LocalQueue, worker: Worker) -> None:
    batch = [
        ShardBatch(shard, cursor, [Delivery(shard.partition.encode())]) for shard, cursor in worker.cursors.items()
    ]
    worker.sink.commit(batch)
    assert [bodies(queue, "orders", partition) for partition in "0123"] == [[b"0"], [b"1"], [b"2"], [b"3"]]


def test_thousands_of_deliveries_keep_their_order(queue: LocalQueue, worker: Worker) -> None:
    sent = [b"%d" % number for number in range(5000)]
    worker.commit(SHARD, deliveries=[Delivery(body) for body in sent])
    assert bodies(queue, "orders") == sent


def test_an_empty_commit_is_done(worker: Worker) -> None:
    worker.sink.commit([])


# --- cross-partition appends


def test_a_groups_topic_is_made_like_the_target_when_the_first_record_goes_there(make_queue: MakeQueue) -> None:
    queue = make_queue(partitions=3)
    worker = start_worker(queue)
    worker.commit(OTHER, cross_partition=[Append(RETRY, "1", b"a"), Append(RETRY, "1", b"b")])
    worker.commit(SHARD, cross_partition=[Append(f"{NAMESPACE}.dlq.billing", "0", b"c")])
    assert queue.topic(RETRY).partitions == ("0", "1", "2")
    assert bodies(queue, RETRY, "1") == [b"a", b"b"]
    assert in_group_topic(queue, f"{NAMESPACE}.dlq.billing") == [b"c"]


def test_a_groups_topic_with_fewer_partitions_is_written_modulo_their_count(make_queue: MakeQueue) -> None:
    queue = make_queue(partitions=2)
    worker = start_worker(queue)
    worker.commit(SHARD, cross_partition=[Append(RETRY, number, number.encode()) for number in ("0", "1", "2", "5")])
    assert [bodies(queue, RETRY, partition) for partition in "01"] == [[b"0", b"2"], [b"1", b"5"]]


def test_another_partition_of_the_buffer_is_appended_to_and_fetched(queue: LocalQueue, worker: Worker) -> None:
    worker.seek_all()
    worker.commit(SHARD, cross_partition=[Append(buffer(queue), "3", b"a")], appends=[b"b"])
    assert {shard.partition: [record.body for record in records] for shard, records in worker.poll().items()} == {
        "0": [b"b"],
        "3": [b"a"],
    }


@pytest.mark.parametrize("topic", ["nowhere", f"{NAMESPACE}.nowhere", f"{NAMESPACE}.retry.{'g' * 240}"])
def test_a_topic_that_is_no_groups_is_refused_and_the_shard_named(
    queue: LocalQueue, worker: Worker, topic: str
) -> None:
    batch = [
        everything(OTHER, worker.cursors[OTHER]),
        ShardBatch(SHARD, worker.cursors[SHARD], cross_partition=[Append(topic, "0", b"e")]),
    ]
    with pytest.raises(DeliveryRefused) as refused:
        worker.sink.commit(batch)
    assert (refused.value.shard, refused.value.of_record) == (SHARD, True)
    assert written(queue) == []


def test_a_partition_that_the_buffer_does_not_have_is_refused_whatever_the_record(
    queue: LocalQueue, worker: Worker
) -> None:
    with pytest.raises(DeliveryRefused) as refused:
        worker.commit(SHARD, cross_partition=[Append(buffer(queue), "4", b"e")], appends=[b"r"])
    assert (refused.value.shard, refused.value.of_record) == (SHARD, False)
    assert written(queue) == []


def test_what_a_groups_topic_cannot_take_is_named_and_nothing_is_written(make_queue: MakeQueue) -> None:
    queue = make_queue(record_bytes_max=100)
    worker = start_worker(queue)
    room = b"x" * (101 if local(queue) else 101 + HEADER_ROOM_BYTES)
    batch = [
        everything(OTHER, worker.cursors[OTHER]),
        ShardBatch(SHARD, worker.cursors[SHARD], cross_partition=[Append(RETRY, "0", room)]),
    ]
    with pytest.raises(DeliveryRefused) as refused:
        worker.sink.commit(batch)
    assert (refused.value.shard, refused.value.of_record) == (SHARD, True)
    assert written(queue) == []


def test_the_topics_of_groups_are_not_topics_of_users(queue: LocalQueue, worker: Worker) -> None:
    worker.commit(SHARD, cross_partition=[Append(RETRY, "0", b"a")])
    assert queue.topics() == ["orders"]


@local_only("brokers have no limit of their own")
def test_a_groups_topic_beyond_the_limit_of_topics_is_refused(make_queue: MakeQueue) -> None:
    queue = make_queue(topics_max=5)
    worker = start_worker(queue)  # its own ones, the topic, its buffer
    with pytest.raises(DeliveryRefused) as refused:
        worker.commit(SHARD, cross_partition=[Append(RETRY, "0", b"a")])
    assert refused.value.of_record


# --- who may commit


@pytest.mark.parametrize(("epoch", "writer"), [(0, "first"), (0, ""), (2, "first"), (3, "first")])
def test_the_first_claim_of_a_shard_is_epoch_one(queue: LocalQueue, epoch: int, writer: str) -> None:
    topic_id = queue.topic(buffer(queue)).topic_id
    source, sink = queue.open_worker("first")
    source.poll(1, 0)
    with pytest.raises(Fenced):
        sink.commit([ShardBatch(SHARD, Cursor(topic_id=topic_id, owner_epoch=epoch, writer=writer))])
    sink.commit([ShardBatch(SHARD, Cursor(topic_id=topic_id, owner_epoch=1, writer="first"))])
    assert queue.takeover(SHARD).cursor is not None


def test_an_unclaimed_shard_cannot_be_written(queue: LocalQueue) -> None:
    topic_id = queue.topic(buffer(queue)).topic_id
    source, sink = queue.open_worker("first")
    source.poll(1, 0)
    cursor = Cursor(topic_id=topic_id, owner_epoch=1, writer="first")
    with pytest.raises(Fenced):
        sink.commit([ShardBatch(SHARD, cursor, [Delivery(b"d")])])


@pytest.mark.parametrize("change", [-1, 2])
def test_a_cursor_of_another_epoch_is_refused(queue: LocalQueue, worker: Worker, change: int) -> None:
    mine = worker.cursors[SHARD]
    worker.sink.commit([ShardBatch(SHARD, replace(mine, owner_epoch=2))])
    with pytest.raises(Fenced):
        worker.sink.commit([ShardBatch(SHARD, replace(mine, owner_epoch=2 + change))])


@pytest.mark.parametrize("part", PARTS)
def test_a_claim_that_brings_anything_along_is_refused(queue: LocalQueue, worker: Worker, part: str) -> None:
    claim = next_claim(queue, SHARD, "first")
    with pytest.raises(Fenced):
        worker.sink.commit([replace(ShardBatch(SHARD, claim), **{part: getattr(everything(SHARD, claim), part)})])
    assert written(queue) == []


def test_a_cursor_of_the_right_epoch_by_another_writer_is_refused(queue: LocalQueue, worker: Worker) -> None:
    with pytest.raises(Fenced):
        worker.sink.commit([ShardBatch(SHARD, replace(worker.cursors[SHARD], writer="second"))])


def test_where_one_shard_is_fenced_nothing_of_the_batch_is_written(queue: LocalQueue, worker: Worker) -> None:
    stale = replace(worker.cursors[SHARD], owner_epoch=9)
    batch = [everything(OTHER, worker.cursors[OTHER]), everything(SHARD, stale)]
    with pytest.raises(Fenced) as refused:
        worker.sink.commit(batch)
    assert refused.value.shards == [SHARD]
    assert written(queue) == []
    assert queue.takeover(OTHER).cursor == worker.cursors[OTHER]


@local_only("an aborted transaction leaves a hole")
def test_after_a_refused_commit_offsets_go_on_without_a_gap(queue: LocalQueue, worker: Worker) -> None:
    with pytest.raises(Fenced):
        worker.sink.commit([ShardBatch(SHARD, replace(worker.cursors[SHARD], owner_epoch=9), [Delivery(b"d")])])
    worker.commit(SHARD, deliveries=[Delivery(b"e")])
    assert queue.read("orders", "0", 0, 10)[0].offset == 0


@local_only("the workers of a group share its shards")
def test_an_earlier_worker_is_fenced_before_the_next_one_has_claimed(queue: LocalQueue, worker: Worker) -> None:
    queue.open_worker("second")
    with pytest.raises(Fenced):
        worker.sink.commit([everything(SHARD, worker.cursors[SHARD])])
    assert written(queue) == []


@local_only("the workers of a group share its shards")
def test_after_a_takeover_the_next_owner_commits_under_its_own_epoch(queue: LocalQueue, worker: Worker) -> None:
    second = start_worker(queue, "second")
    second.commit(SHARD, deliveries=[Delivery(b"d")])
    handover = queue.takeover(SHARD).cursor
    assert handover is not None
    assert (handover.owner_epoch, handover.writer) == (2, "second")
    with pytest.raises(Fenced):
        worker.commit(SHARD, deliveries=[Delivery(b"e")])
    assert bodies(queue, "orders") == [b"d"]


@local_only("the workers of a group share its shards")
@pytest.mark.parametrize("attempt", range(3))
def test_commits_under_way_at_a_takeover_are_in_the_cursor_or_refused(queue: LocalQueue, attempt: int) -> None:
    worker = start_worker(queue, "first")
    delivered: list[int] = []

    def deliver() -> None:
        for number in range(1, 10_000):
            cursor = replace(worker.cursors[SHARD], next_offset=number)
            try:
                worker.sink.commit([ShardBatch(SHARD, cursor, [Delivery(b"%d" % number)])])
            except Fenced:
                return
            delivered.append(number)

    delivering = Thread(target=deliver)
    delivering.start()
    queue.open_worker("second")
    handover = queue.takeover(SHARD).cursor
    delivering.join()
    assert handover is not None
    assert handover.next_offset == len(delivered) == len(bodies(queue, "orders"))


# --- what is refused


def test_a_delivery_that_the_target_cannot_take_is_named_and_nothing_is_written(make_queue: MakeQueue) -> None:
    queue = make_queue(record_bytes_max=100)
    worker = start_worker(queue)
    with pytest.raises(DeliveryRefused) as refused:
        worker.sink.commit(
            [
                ShardBatch(OTHER, worker.cursors[OTHER], [Delivery(b"d")]),
                ShardBatch(SHARD, worker.cursors[SHARD], [Delivery(b"x" * 101)]),
            ]
        )
    assert (refused.value.shard, refused.value.of_record) == (SHARD, True)
    assert written(queue) == []


def test_what_a_worker_writes_about_a_record_may_be_larger_than_a_record(make_queue: MakeQueue) -> None:
    queue = make_queue(record_bytes_max=100)
    worker = start_worker(queue)
    worker.commit(SHARD, appends=[b"r" * 101], audit=[b"u" * 101], dead=[b"x" * 101])
    assert [len(body) for body in written(queue)] == [101, 101, 101]


def test_a_shard_twice_in_one_batch_is_a_bug(worker: Worker) -> None:
    part = ShardBatch(SHARD, worker.cursors[SHARD])
    with pytest.raises(Bug):
        worker.sink.commit([part, part])


def test_a_closed_sink_commits_nothing(queue: LocalQueue, worker: Worker) -> None:
    worker.sink.close()
    with pytest.raises(CommitAborted):
        worker.sink.commit([everything(SHARD, worker.cursors[SHARD])])
    assert written(queue) == []
