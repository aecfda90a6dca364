"""mq.contract.Source, over every queue."""

from collections.abc import Callable, Sequence

import pytest

from delayline.clock import ManualClock
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Assigned, Event, Fetched, LogRecord, Lost, OutOfRange
from mq.errors import QueueUnavailable
from mq.local.queue import LocalQueue
from tests.contract.conftest import MakeQueue, local_only
from tests.contract.drive import JOIN_S, append, buffer, fetched, in_thread, nothing, start_worker

SHARDS = [Shard("orders", name) for name in "0123"]
SHARD = SHARDS[0]


# --- assignment


def test_a_worker_gets_every_shard_there_is(queue: LocalQueue) -> None:
    buffer(queue)
    source, _ = queue.open_worker("first")
    assert source.poll(10, 0) == [Assigned(tuple(SHARDS))]


def test_where_there_is_no_shard_nothing_happens(queue: LocalQueue) -> None:
    queue.ensure_topic("orders")
    source, _ = queue.open_worker("first")
    assert nothing(source) == []


def test_a_running_worker_gets_the_shards_of_a_new_buffer(queue: LocalQueue) -> None:
    source, _ = queue.open_worker("first")
    buffer(queue)
    assert source.poll(10, 0) == [Assigned(tuple(SHARDS))]


@local_only("the workers of a group share its shards")
def test_a_second_worker_takes_every_shard_from_the_first(queue: LocalQueue) -> None:
    first = start_worker(queue, "first")
    second, _ = queue.open_worker("second")
    assert first.source.poll(10, 0) == [Lost(tuple(SHARDS))]
    assert second.poll(10, 0) == [Assigned(tuple(SHARDS))]


@local_only("the workers of a group share its shards")
def test_a_worker_that_lost_its_shards_reads_no_more_of_them(queue: LocalQueue) -> None:
    first = start_worker(queue, "first")
    first.seek_all()
    queue.open_worker("second")
    append(queue, buffer(queue), "0", b"a")
    first.source.poll(10, 0)
    first.source.seek(SHARD, 0)
    assert nothing(first.source) == []


@local_only("the workers of a group share its shards")
def test_a_new_buffer_goes_to_the_newest_worker_only(queue: LocalQueue) -> None:
    first, _ = queue.open_worker("first")
    second, _ = queue.open_worker("second")
    buffer(queue)
    assert (first.poll(10, 0), second.poll(10, 0)) == ([], [Assigned(tuple(SHARDS))])


# --- reading


def test_nothing_is_fetched_before_the_first_seek(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", b"a")
    assert worker.quiet()


@local_only("brokers have clocks of their own")
def test_records_are_fetched_once_from_where_was_sought(queue: LocalQueue, clock: ManualClock) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", b"a", b"b", b"c")
    worker.source.seek(SHARD, 1)
    now_ms = clock.now_ms()
    records = [LogRecord(1, now_ms, b"b"), LogRecord(2, now_ms, b"c")]
    assert worker.source.poll(10, 0) == [Fetched(SHARD, records, 3)]
    assert nothing(worker.source) == []


def test_records_appended_later_are_fetched_later(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    worker.seek_all()
    append(queue, buffer(queue), "0", b"a")
    worker.poll()
    append(queue, buffer(queue), "0", b"b")
    assert [record.body for record in worker.poll()[SHARD]] == [b"b"]


def test_seeking_back_reads_again(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", b"a", b"b")
    worker.seek_all()
    worker.poll()
    worker.source.seek(SHARD, 1)
    assert [record.body for record in worker.poll()[SHARD]] == [b"b"]


def test_a_poll_gives_at_most_the_records_asked_for_over_all_shards(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    for name in "0123":
        append(queue, buffer(queue), name, *[b"x"] * 10)
    worker.seek_all()
    polls = [sum(map(len, worker.poll(7).values())) for _ in range(6)]
    assert polls == [7, 7, 7, 7, 7, 5]
    assert worker.quiet()


@local_only("the reader hands out what it has fetched in the order in which it came")
def test_a_busy_shard_does_not_keep_the_others_waiting(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", *[b"x"] * 1000)
    append(queue, buffer(queue), "3", b"y")
    worker.seek_all()
    assert [record.body for record in worker.poll(10)[SHARDS[3]]] == [b"y"]


@local_only("the reader hands out what it has fetched in the order in which it came")
def test_shards_take_turns_where_a_poll_has_not_room_for_all(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    for name in "0123":
        append(queue, buffer(queue), name, *[b"x"] * 3)
    worker.seek_all()
    turns = [shard for _ in range(8) for shard in worker.poll(1)]
    assert sorted(turns[:4]) == sorted(turns[4:]) == SHARDS


@local_only("the reader has a bound of its own, and keeps it to the end of a batch")
def test_what_one_poll_fetches_is_bounded_in_bytes(make_queue: MakeQueue) -> None:
    queue = make_queue()
    worker = start_worker(queue)
    for _ in range(20):
        append(queue, buffer(queue), "0", b"x" * (1 << 20))
    worker.seek_all()
    assert [len(worker.poll()[SHARD]) for _ in range(2)] == [16, 4]


def test_a_paused_shard_waits_while_the_others_go_on(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    worker.seek_all()
    worker.source.pause_fetch(SHARD)
    for name in "01":
        append(queue, buffer(queue), name, b"a")
    assert list(worker.poll()) == [SHARDS[1]]
    worker.source.resume_fetch(SHARD)
    assert list(worker.poll()) == [SHARD]


def test_a_shard_stays_paused_over_a_seek(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", b"a")
    worker.source.pause_fetch(SHARD)
    worker.source.seek(SHARD, 0)
    assert worker.quiet()


def test_a_released_shard_is_read_no_more(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    worker.seek_all()
    worker.source.release([SHARD])
    append(queue, buffer(queue), "0", b"a")
    assert worker.quiet()


def out_of_range(events: Sequence[Event]) -> list[Shard]:
    return [event.shard for event in events if isinstance(event, OutOfRange)]


def test_reading_below_the_logs_start_is_reported_and_never_skipped(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", b"a", b"b")
    queue.trim(SHARD, 1)
    worker.source.seek(SHARD, 0)
    events = worker.source.poll(10, 0)
    assert (out_of_range(events), len(events)) == ([SHARD], 1)


def test_reading_behind_the_logs_end_is_reported(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    worker.source.seek(SHARD, 1)
    assert out_of_range(worker.source.poll(10, 0)) == [SHARD]


def test_a_shard_out_of_range_is_reported_once_and_reads_on_after_another_seek(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    worker.source.seek(SHARD, 1)
    worker.source.poll(10, 0)
    again = nothing(worker.source)
    append(queue, buffer(queue), "0", b"a")
    worker.source.seek(SHARD, 0)
    assert (list(again), list(worker.poll())) == ([], [SHARD])


def test_a_shard_out_of_range_costs_the_others_nothing(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "1", b"a")
    worker.source.seek(SHARD, 99)
    worker.source.seek(SHARDS[1], 0)
    events = worker.source.poll(10, 0)
    assert ([event.shard for event in events if isinstance(event, Fetched)], out_of_range(events)) == (
        [SHARDS[1]],
        [SHARD],
    )
    append(queue, buffer(queue), "1", b"b")
    assert list(worker.poll()) == [SHARDS[1]]


def test_reading_shows_where_the_log_ends(queue: LocalQueue) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", b"a", b"b")
    worker.seek_all()
    worker.poll()
    assert worker.source.log_end(SHARD) == queue.log_range(SHARD)[1] == 2


def test_the_log_of_a_shard_that_is_not_ours_has_no_end_we_know_of(queue: LocalQueue) -> None:
    source, _ = queue.open_worker("first")
    assert source.log_end(SHARD) == 0


# --- waiting


def polled(queue: LocalQueue, cause: Callable[[], object], *, owner: bool = True) -> list[Event]:
    """What a poll that waits returns when `cause` happens; it must not wait until its time is out. `owner`: of shards
    that exist already."""
    source, _ = queue.open_worker("waiting")
    source.poll(10, 0) if owner else nothing(source)
    for shard in SHARDS:
        source.seek(shard, 0)
    events: list[Event] = []
    waiting = in_thread(lambda: events.extend(source.poll(10, 10 * JOIN_S)))
    cause()
    waiting.join(JOIN_S)
    assert not waiting.is_alive()
    return events


def test_a_waiting_poll_returns_when_something_is_appended(queue: LocalQueue) -> None:
    name = buffer(queue)
    events = polled(queue, lambda: append(queue, name, "2", b"a"))
    assert list(fetched(events)) == [SHARDS[2]]


@local_only("the workers of a group share its shards")
def test_a_waiting_poll_returns_when_the_shards_go_to_another(queue: LocalQueue) -> None:
    buffer(queue)
    assert polled(queue, lambda: queue.open_worker("second")) == [Lost(tuple(SHARDS))]


def test_a_waiting_poll_returns_when_there_is_a_new_buffer(queue: LocalQueue) -> None:
    events = polled(queue, lambda: queue.ensure_buffer("orders", DEFAULT_RULES), owner=False)
    assert events == [Assigned(tuple(SHARDS))]


def test_wake_before_the_poll_is_not_lost(queue: LocalQueue) -> None:
    source, _ = queue.open_worker("first")
    source.wake()
    polling = in_thread(source.poll, 10, 10 * JOIN_S)
    polling.join(JOIN_S)
    assert not polling.is_alive()


def test_wake_ends_a_waiting_poll(queue: LocalQueue) -> None:
    source, _ = queue.open_worker("first")
    polling = in_thread(source.poll, 10, 10 * JOIN_S)
    source.wake()
    polling.join(JOIN_S)
    assert not polling.is_alive()


def test_one_wake_ends_one_poll(queue: LocalQueue) -> None:
    source, _ = queue.open_worker("first")
    source.wake()
    source.poll(10, 10 * JOIN_S)
    polling = in_thread(source.poll, 10, 10 * JOIN_S)
    polling.join(0.05)
    assert polling.is_alive()
    source.wake()
    polling.join(JOIN_S)


# --- time and end


@pytest.mark.parametrize("jump_ms", [0, 60_000, -60_000])
def test_now_is_never_ahead_of_the_next_record(queue: LocalQueue, clock: ManualClock, jump_ms: int) -> None:
    worker = start_worker(queue)
    append(queue, buffer(queue), "0", b"a")
    clock.advance(jump_ms)
    now_ms = worker.source.now_ms(SHARD)
    assert now_ms <= append(queue, buffer(queue), "0", b"b")[0].appended_at_ms


def test_a_closed_source_cannot_be_polled(queue: LocalQueue) -> None:
    source, _ = queue.open_worker("first")
    source.close()
    with pytest.raises(QueueUnavailable):
        source.poll(10, 0)


def test_after_one_worker_has_left_another_gets_its_shards(queue: LocalQueue) -> None:
    start_worker(queue, "first").source.close()
    second, _ = queue.open_worker("second")
    assert second.poll(10, 0) == [Assigned(tuple(SHARDS))]


def test_a_closed_queue_opens_no_worker(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.close()
    with pytest.raises(QueueUnavailable):
        queue.open_worker("first")
