"""mq.contract.Client, over every queue."""

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from random import Random

import pytest

from delayline.clock import ManualClock
from delayline.records.record import encode_body
from mq.contract import HEADER_ROOM_BYTES, Append, AppendRequest, Position
from mq.errors import (
    ClaimLost,
    OffsetOutOfRange,
    PartitionUnknown,
    QueueUnavailable,
    RecordTooLarge,
    TopicUnknown,
)
from mq.local.queue import LocalQueue
from tests.contract.conftest import MakeQueue, local_only, not_on_rocketmq
from tests.contract.drive import JOIN_S, append, bodies, in_thread
from tests.tiers import sample

NO_FENCE = "it refuses a name that is held"
UNKNOWN_PARTITIONS = ["4", "-1", "00", "", "x"]


@pytest.fixture
def orders(queue: LocalQueue) -> LocalQueue:
    queue.ensure_topic("orders")
    return queue


# --- append


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        bytes(range(256)),
        "Grüße, 世界".encode(),
        encode_body(None, None),
        encode_body(b"", b"", [(b"h", None)]),
    ],
)
def test_any_bytes_come_back_as_they_were_appended(orders: LocalQueue, body: bytes) -> None:
    append(orders, "orders", "0", b"before", body, b"after")
    assert bodies(orders, "orders") == [b"before", body, b"after"]


@local_only("brokers have clocks of their own")
def test_records_get_consecutive_offsets_and_the_clocks_time(orders: LocalQueue, clock: ManualClock) -> None:
    first = append(orders, "orders", "1", b"a", b"b")
    clock.advance(5)
    second = append(orders, "orders", "1", b"c")
    now_ms = clock.now_ms()
    assert first == [("orders", "1", 0, now_ms - 5), ("orders", "1", 1, now_ms - 5)]
    assert second == [("orders", "1", 2, now_ms)]


def test_positions_come_in_the_order_of_the_records_whatever_their_partitions(orders: LocalQueue) -> None:
    orders.ensure_topic("mail")
    records = [Append("orders", "0", b"a"), Append("mail", "3", b"b"), Append("orders", "0", b"c")]
    positions = orders.append(records).result(JOIN_S)
    assert [position[:3] for position in positions] == [("orders", "0", 0), ("mail", "3", 0), ("orders", "0", 1)]
    assert (bodies(orders, "orders"), bodies(orders, "mail", "3")) == ([b"a", b"c"], [b"b"])


def test_appending_nothing_gives_no_positions(orders: LocalQueue) -> None:
    assert orders.append([]).result(JOIN_S) == []


@local_only("brokers have clocks of their own")
def test_a_clock_that_was_ahead_and_is_set_right_stamps_rightly_from_then_on(
    orders: LocalQueue, clock: ManualClock
) -> None:
    append(orders, "orders", "0", b"a")
    clock.advance(-60_000)
    assert append(orders, "orders", "0", b"b")[0].appended_at_ms == clock.now_ms()


def test_append_to_an_unknown_topic_stores_none_of_the_records(orders: LocalQueue) -> None:
    future = orders.append([Append("orders", "0", b"a"), Append("nowhere", "0", b"b")])
    with pytest.raises(TopicUnknown):
        future.result(JOIN_S)
    assert bodies(orders, "orders") == []


def test_each_of_several_requests_is_stored_or_refused_by_itself(orders: LocalQueue) -> None:
    ends: list[SimpleQueue[list[Position] | BaseException]] = [SimpleQueue(), SimpleQueue(), SimpleQueue()]
    requests = [[Append("orders", "0", b"a")], [Append("nowhere", "0", b"b")], [Append("orders", "0", b"c")] * 2]
    orders.append_each([AppendRequest(records, end.put) for records, end in zip(requests, ends, strict=True)])
    first, refused, last = (end.get(timeout=JOIN_S) for end in ends)
    assert isinstance(refused, TopicUnknown)
    assert not isinstance(first, BaseException)
    assert not isinstance(last, BaseException)
    assert [position.offset for position in (*first, *last)] == [0, 1, 2]
    assert bodies(orders, "orders") == [b"a", b"c", b"c"]


@pytest.mark.parametrize("partition", UNKNOWN_PARTITIONS)
def test_append_to_an_unknown_partition_is_refused(orders: LocalQueue, partition: str) -> None:
    with pytest.raises(PartitionUnknown):
        append(orders, "orders", partition, b"a")


def test_a_record_of_the_limit_is_taken(make_queue: MakeQueue) -> None:
    queue = make_queue(record_bytes_max=100)
    queue.ensure_topic("orders")
    append(queue, "orders", "0", b"x" * 100)
    assert bodies(queue, "orders") == [b"x" * 100]


def test_a_record_above_the_limit_is_refused_with_everything_beside_it(make_queue: MakeQueue) -> None:
    queue = make_queue(record_bytes_max=100)
    queue.ensure_topic("orders")
    with pytest.raises(RecordTooLarge):
        queue.append([Append("orders", "0", body) for body in (b"small", b"x" * 101)]).result(JOIN_S)
    assert bodies(queue, "orders") == []


@local_only("the limit is a setting of the topic")
def test_the_default_limit_leaves_a_client_one_mebibyte(orders: LocalQueue) -> None:
    limit = orders.record_bytes_max("orders")
    append(orders, "orders", "0", b"x" * limit)
    assert limit - HEADER_ROOM_BYTES == 1 << 20
    assert bodies(orders, "orders") == [b"x" * limit]


def test_the_limit_of_an_unknown_topic_is_unknown(queue: LocalQueue) -> None:
    with pytest.raises(TopicUnknown):
        queue.record_bytes_max("nowhere")


def test_records_of_many_threads_are_each_stored_once_at_their_position(orders: LocalQueue) -> None:
    def produce(number: int) -> dict[tuple[str, int], bytes]:
        records = [Append("orders", str(n % 4), b"%d-%d" % (number, n)) for n in range(50)]
        positions = [orders.append([record]).result(JOIN_S)[0] for record in records]
        return {(at.partition, at.offset): record.body for at, record in zip(positions, records, strict=True)}

    with ThreadPoolExecutor(8) as threads:
        expected = {place: body for made in threads.map(produce, range(8)) for place, body in made.items()}
    stored = {(str(p), o): body for p in range(4) for o, body in enumerate(bodies(orders, "orders", str(p)))}
    assert len(stored) == 400
    assert stored == expected


# --- read


def test_what_was_appended_can_be_read_once_it_is_stable(orders: LocalQueue) -> None:
    orders.append([Append("orders", name, b"a") for name in "01"]).result(JOIN_S)
    assert [orders.is_stable("orders", name, JOIN_S) for name in "01"] == [True, True]
    assert [len(orders.read("orders", name, 0, 10)) for name in "01"] == [1, 1]


@pytest.mark.parametrize("partition", UNKNOWN_PARTITIONS)
def test_an_unknown_partition_is_never_stable(orders: LocalQueue, partition: str) -> None:
    with pytest.raises(PartitionUnknown):
        orders.is_stable("orders", partition, 0.0)


def test_read_at_the_end_is_empty(orders: LocalQueue) -> None:
    append(orders, "orders", "0", b"a")
    assert orders.read("orders", "0", 1, 10) == []


@pytest.mark.parametrize("offset", [-1, 2])
def test_read_outside_the_log_is_refused(orders: LocalQueue, offset: int) -> None:
    append(orders, "orders", "0", b"a")
    with pytest.raises(OffsetOutOfRange):
        orders.read("orders", "0", offset, 10)


def test_read_gives_at_most_the_records_asked_for(orders: LocalQueue) -> None:
    append(orders, "orders", "0", b"a", b"b", b"c")
    assert [record.offset for record in orders.read("orders", "0", 1, 1)] == [1]


def test_read_of_no_records_is_empty(orders: LocalQueue) -> None:
    append(orders, "orders", "0", b"a")
    assert orders.read("orders", "0", 0, 0) == []


def test_read_stops_before_the_bytes_asked_for_are_exceeded(orders: LocalQueue) -> None:
    append(orders, "orders", "0", b"x" * 10, b"x" * 10, b"x" * 10)
    assert len(orders.read("orders", "0", 0, 10, bytes_max=29)) == 2


def test_read_gives_one_record_however_large(orders: LocalQueue) -> None:
    append(orders, "orders", "0", b"x" * 1000, b"y")
    assert [record.offset for record in orders.read("orders", "0", 0, 10, bytes_max=1)] == [0]


@pytest.mark.parametrize("seed", sample(range(5), every=5))
def test_any_read_of_any_log_gives_the_records_that_a_list_would(orders: LocalQueue, seed: int) -> None:
    random = Random(seed)
    log: list[bytes] = []
    for _ in range(30):
        size = random.choice([0, 10, 300, 30_000])
        batch = [random.randbytes(random.randint(0, size)) for _ in range(random.choice([1, 3, 40]))]
        append(orders, "orders", "0", *batch)
        log += batch
    for _ in range(100):
        offset, records_max = random.randrange(len(log)), random.randint(1, 200)
        found = orders.read("orders", "0", offset, records_max, 1 << 30)
        assert [record.body for record in found] == log[offset : offset + records_max]
        assert [record.offset for record in found] == list(range(offset, offset + len(found)))


def test_read_of_the_unknown_is_refused(orders: LocalQueue) -> None:
    with pytest.raises(TopicUnknown):
        orders.read("nowhere", "0", 0, 1)
    with pytest.raises(PartitionUnknown):
        orders.read("orders", "4", 0, 1)


def test_offsets_are_the_first_held_and_the_one_behind_the_last(orders: LocalQueue) -> None:
    assert orders.offsets("orders", "2") == (0, 0)
    append(orders, "orders", "2", b"a", b"b")
    assert orders.offsets("orders", "2") == (0, 2)


# --- wait


def test_wait_does_not_wait_for_what_is_there_already(orders: LocalQueue) -> None:
    append(orders, "orders", "1", b"a")
    assert orders.wait("orders", {"0": 0, "1": 0}, JOIN_S)


def test_wait_is_in_vain_where_nothing_is_appended(orders: LocalQueue) -> None:
    append(orders, "orders", "1", b"a")
    assert not orders.wait("orders", {"0": 0, "1": 1}, 0)


def test_wait_ends_when_something_is_appended(orders: LocalQueue) -> None:
    ended: list[bool] = []
    waiting = in_thread(lambda: ended.append(orders.wait("orders", {"0": 0}, JOIN_S)))
    append(orders, "orders", "0", b"a")
    waiting.join(JOIN_S)
    assert ended == [True]


def test_wait_ends_with_an_error_when_the_queue_is_closed(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.ensure_topic("orders")
    failures: list[Exception] = []

    def wait() -> None:
        try:
            queue.wait("orders", {"0": 0}, JOIN_S)
        except QueueUnavailable as error:
            failures.append(error)

    waiting = in_thread(wait)
    queue.close()
    waiting.join(JOIN_S)
    assert len(failures) == 1


def test_wait_for_the_unknown_is_refused(orders: LocalQueue) -> None:
    with pytest.raises(TopicUnknown):
        orders.wait("nowhere", {"0": 0}, 0)
    with pytest.raises(PartitionUnknown):
        orders.wait("orders", {"4": 0}, 0)


# --- the end


def test_a_closed_queue_takes_and_gives_nothing(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.ensure_topic("orders")
    queue.close()
    with pytest.raises(QueueUnavailable):
        append(queue, "orders", "0", b"a")
    with pytest.raises(QueueUnavailable):
        queue.read("orders", "0", 0, 1)
    with pytest.raises(QueueUnavailable):
        queue.ensure_topic("mail")


def test_closing_twice_is_closing(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.close()
    queue.close()


# --- claims


@not_on_rocketmq(NO_FENCE)
def test_an_earlier_claim_stores_nothing_any_more(orders: LocalQueue) -> None:
    first = orders.claim("repair")
    first.append([Append("orders", "0", b"a"), Append("orders", "1", b"b")])
    second = orders.claim("repair")
    second.append([Append("orders", "0", b"c")])
    with pytest.raises(ClaimLost):
        first.append([Append("orders", "0", b"late"), Append("orders", "1", b"late")])
    with pytest.raises((ClaimLost, QueueUnavailable)):
        first.append([Append("orders", "0", b"later")])
    second.append([Append("orders", "1", b"d")])
    assert (bodies(orders, "orders"), bodies(orders, "orders", "1")) == ([b"a", b"c"], [b"b", b"d"])


def test_claims_of_other_names_are_left_alone(orders: LocalQueue) -> None:
    first, other = orders.claim("repair"), orders.claim("other")
    for claim, body in ((first, b"a"), (other, b"b"), (first, b"c")):
        claim.append([Append("orders", "0", body)])
    assert bodies(orders, "orders") == [b"a", b"b", b"c"]


def test_a_claim_stores_all_the_records_or_none(orders: LocalQueue) -> None:
    claim = orders.claim("repair")
    with pytest.raises(PartitionUnknown):
        claim.append([Append("orders", "0", b"a"), Append("orders", "9", b"b")])
    assert bodies(orders, "orders") == []


def test_a_name_is_its_last_claims_or_refused_while_its_holder_is_there(orders: LocalQueue) -> None:
    first = orders.claim("repair")
    try:
        orders.claim("repair").close()
    except QueueUnavailable:
        first.append([Append("orders", "0", b"a")])
    first.close()
    second = orders.claim("repair")
    second.append([Append("orders", "0", b"b")])
    second.close()
    assert bodies(orders, "orders")[-1] == b"b"
