"""The worker over in-memory twins."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec
from unittest.mock import patch

import pytest

from delay_service.core.shard import Shard as Core
from delay_service.core.shard_settings import ShardSettings
from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import AuditRow, Outcome, decode_audit
from delayline.buffer.record import encode_rules
from delayline.records.message import Key, MessageId, Shard
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import Rules
from mq.contract import Append, DispatchBatch, Event, OutOfRange, ShardBatch, Source, Unreadable
from mq.errors import CommitAborted, CommitUnknown, DeliveryRefused, Fenced, QueueUnavailable
from store.errors import StoreFull
from store.memory import MemoryIndex
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def outcomes(bench: Bench) -> list[AuditRow]:
    values = [decode_body(r.body).value for p in ("0",) for r in bench.queue.read(NAMES.audit, p, 0, 1000)]
    return [row for value in values if value for row in decode_audit(value)[1]]


def core(bench: Bench) -> Core:
    running = bench.worker.core(ORDERS)
    assert running is not None
    return running


def test_a_message_is_delivered_when_due_and_not_before(bench: Bench) -> None:
    bench.send(b"a", (b"delay-ms", b"500"))
    bench.turn()
    bench.clock.advance(499)
    bench.turn()
    before = bench.delivered()
    bench.clock.advance(1)
    bench.turn()
    assert (before, bench.delivered()) == ([], [b"a"])


@pytest.mark.parametrize(("bytes_max", "shards"), [(1, 1), (1 << 20, 2)])
def test_a_batch_takes_another_shard_while_there_is_room_in_bytes(bytes_max: int, shards: int) -> None:
    bench = Bench(partitions=2)
    bench.settings = replace(bench.settings, batch_bytes_max=bytes_max)
    bench.start("w2")
    for partition in ("0", "1"):
        bench.send(b"a", (b"delay-ms", b"5"), to=Shard("orders", partition))
    bench.turn()
    bench.clock.advance(5)
    bench.turn()
    delivering = [sum(bool(part.deliveries) for part in batch) for batch in bench.sink.batches]
    assert max(delivering) == shards
    assert bench.delivered("orders", "0") == bench.delivered("orders", "1") == [b"a"]


def test_everything_that_a_batch_writes_takes_room() -> None:
    cursor = Cursor(topic_id=bytes(16))
    batch = ShardBatch(ORDERS, cursor, [(b"ab", None)], [b"x"], cross_partition=[Append("t", "0", b"cde")])
    assert (batch.written_bytes, ShardBatch(ORDERS, cursor).written_bytes) == (6, 0)


def test_a_delivered_record_keeps_its_headers_but_its_directives_and_gains_three(bench: Bench) -> None:
    bench.send(b"a", (b"trace", b"t"), (b"delay-ms", b"500"), (b"none", None))
    bench.turn()
    bench.clock.advance(500)
    bench.turn()
    now_ms = bench.clock.now_ms()
    assert decode_body(bench.log("orders")[0].body).headers == [
        (b"trace", b"t"),
        (b"none", None),
        (b"delayline-accepted", b"%d" % (now_ms - 500)),
        (b"delayline-id", b"orders.0.0.%d" % now_ms),
        (b"delayline-due", b"%d" % now_ms),
    ]


def test_messages_are_delivered_in_the_order_of_their_due_times(bench: Bench) -> None:
    for value, delay in ((b"c", b"30"), (b"a", b"10"), (b"b", b"20"), (b"b2", b"20")):
        bench.send(value, (b"delay-ms", delay))
    bench.turn()
    bench.clock.advance(50)
    bench.turn()
    assert bench.delivered() == [b"a", b"b", b"b2", b"c"]


def test_every_buffer_record_gets_one_outcome_row(bench: Bench) -> None:
    for n in range(5):
        bench.send(b"%d" % n, (b"delay-ms", b"10"))
    bench.send(b"x", (b"delay-ms", b"never"))
    bench.send_raw(b"\xff\xff")
    bench.turn()
    bench.clock.advance(2000)
    bench.turn(10)
    assert sorted((row.offset, row.outcome) for row in outcomes(bench)) == [
        *((n, Outcome.DELIVERED) for n in range(5)),
        (5, Outcome.DEAD),
        (6, Outcome.DEAD),
    ]


def test_an_invalid_directive_in_the_buffer_goes_to_the_dead_letters_with_its_reason(bench: Bench) -> None:
    bench.send(b"x", (b"delay-ms", b"never"), (b"trace", b"t"))
    bench.turn()
    dead = decode_body(bench.log(NAMES.dead)[0].body)
    headers = dict(dead.headers)
    assert dead.value == b"x"
    assert headers[b"trace"] == b"t"
    assert headers[b"delay-ms"] == b"never"
    assert headers[b"delayline-error-code"] == b"invalid-schedule"
    assert headers[b"delayline-offset"] == b"0"


def test_bytes_that_are_no_record_go_to_the_dead_letters_as_they_came_and_the_shard_goes_on(bench: Bench) -> None:
    bench.send_raw(b"\xff\xfe")
    bench.send(b"a", (b"delay-ms", b"1"))
    bench.turn()
    bench.clock.advance(1)
    bench.turn()
    assert decode_body(bench.log(NAMES.dead)[0].body).value == b"\xff\xfe"
    assert bench.delivered() == [b"a"]


def test_a_commit_that_was_not_written_is_taken_again(bench: Bench) -> None:
    bench.turn()
    bench.send(b"a", (b"delay-ms", b"0"))
    failures = iter([CommitAborted("the broker refused")])
    bench.sink.fault = lambda _: next(failures, None)
    bench.turn()
    stalled = bench.worker.statuses[0].stalled
    bench.clock.advance(1000)
    bench.turn()
    assert (stalled, bench.delivered()) == ("commit", [b"a"])


def test_a_commit_whose_answer_was_lost_is_read_back_and_not_repeated(bench: Bench) -> None:
    bench.turn()
    bench.send(b"a", (b"delay-ms", b"0"))
    losses = iter([CommitUnknown("no answer")])
    bench.sink.after = lambda batch: next(losses, None) if batch[0].deliveries else None
    bench.turn(10)
    bench.clock.advance(2000)
    bench.turn(10)
    assert bench.delivered() == [b"a"]
    assert core(bench).cursor.owner_epoch == 2


def test_a_record_that_the_target_refuses_is_found_and_buried_and_the_others_arrive(bench: Bench) -> None:
    def refuse(batch: DispatchBatch) -> Exception | None:
        bad = any(b"bad" in body for part in batch for body, _ in part.deliveries)
        return DeliveryRefused(ORDERS, "too large", of_record=True) if bad else None

    bench.sink.fault = refuse
    for n in range(20):
        bench.send(b"bad" if n == 13 else b"%d" % n, (b"delay-ms", b"0"))
    bench.turn(40)
    assert bench.delivered() == [b"%d" % n for n in range(20) if n != 13]
    headers = dict(decode_body(bench.log(NAMES.dead)[0].body).headers)
    assert headers[b"delayline-reason"] == b"too large"


def test_a_target_that_refuses_altogether_stalls_only_its_own_shard(bench: Bench) -> None:
    bench.queue.ensure_buffer("mails", Rules())
    bench.sink.fault = lambda batch: (
        DeliveryRefused(ORDERS, "unauthorized", of_record=False)
        if any(part.shard == ORDERS and part.deliveries for part in batch)
        else None
    )
    bench.send(b"a", (b"delay-ms", b"0"))
    body = encode_body(None, b"m", [(b"delay-ms", b"0")])
    bench.queue.append([Append(NAMES.buffer("mails"), "0", body)]).result()
    bench.turn(10)
    stalled = {status.id.topic: status.stalled for status in bench.worker.statuses}
    assert stalled == {"orders": "target", "mails": None}
    assert [decode_body(record.body).value for record in bench.log("mails")] == [b"m"]


def test_a_worker_that_was_fenced_delivers_nothing_more(bench: Bench) -> None:
    bench.turn()
    bench.send(b"a", (b"delay-ms", b"0"))
    bench.sink.fault = lambda batch: Fenced([ORDERS]) if batch[0].deliveries else None
    bench.turn(3)
    assert bench.delivered() == []
    assert bench.worker.core(ORDERS) is None
    assert bench.worker.statuses[0].stalled == "fenced"


def test_a_new_owner_with_an_empty_index_delivers_what_the_old_one_left(bench: Bench) -> None:
    for n in range(6):
        bench.send(b"%d" % n, (b"delay-ms", b"%d" % (n * 1000)))
    bench.turn()
    bench.clock.advance(2000)
    bench.turn()
    bench.index = MemoryIndex()
    bench.start("w2")
    bench.turn()
    bench.clock.advance(10_000)
    bench.turn(8)
    assert bench.delivered() == [b"%d" % n for n in range(6)]
    assert core(bench).cursor.owner_epoch == 2


def test_a_late_arrival_is_delivered_at_once_and_named_where_the_cursor_does_not_cover_it() -> None:
    bench = Bench(batch_records_max=1)
    bench.turn()
    bench.send(b"now", (b"delay-ms", b"0"))
    bench.turn()
    past = bench.clock.now_ms() - 60_000
    for n in range(3):
        bench.send(b"%d" % n, (b"deliver-at", b"%d" % (past - n)))
    bench.turn(10)
    assert bench.delivered() == [b"now", b"2", b"1", b"0"]
    named = [r for r in bench.log(NAMES.buffer("orders")) if b"delayline-decision" in r.body]
    assert len(named) == 2


def test_changed_rules_are_written_into_the_log_before_they_count() -> None:
    bench = Bench(rules=Rules(levels_ms=(7000,)))
    bench.send(b"old", (b"delay-level", b"1"))
    bench.turn()
    bench.send(b"new", (b"delay-level", b"1"))
    bench.turn()
    bench.clock.advance(1000)
    bench.turn()
    after_one_second = bench.delivered()
    bench.clock.advance(6000)
    bench.turn()
    assert (after_one_second, bench.delivered()) == ([b"old"], [b"old", b"new"])


def test_what_has_no_time_waits_by_the_default_delay_that_was_in_force() -> None:
    bench = Bench(rules=Rules(default_delay_ms=5000))
    bench.send(b"before the rule")
    bench.turn()
    bench.send(b"by default")
    bench.send(b"at once", (b"delay-ms", b"0"))
    bench.turn()
    at_first = bench.delivered()
    bench.clock.advance(4999)
    bench.turn()
    assert at_first == bench.delivered() == [b"before the rule", b"at once"]
    bench.clock.advance(1)
    bench.turn()
    assert bench.delivered()[2:] == [b"by default"]


@pytest.mark.parametrize("index_is_lost", [False, True])
def test_a_changed_default_delay_leaves_what_waits_as_it_is_also_after_a_rebuild(index_is_lost: bool) -> None:
    bench = Bench(rules=Rules(default_delay_ms=5000))
    bench.turn()
    bench.send(b"five")
    bench.turn()
    bench.worker.stop()
    bench.worker.run()
    bench.index = MemoryIndex() if index_is_lost else bench.index
    bench.settings = replace(
        bench.settings, shard_settings_of=lambda _: ShardSettings(Rules(default_delay_ms=1000), NAMES)
    )
    bench.start("w2")
    bench.turn()
    bench.send(b"one")
    bench.turn()
    bench.clock.advance(1000)
    bench.turn()
    assert bench.delivered() == [b"one"]
    bench.clock.advance(4000)
    bench.turn()
    assert bench.delivered() == [b"one", b"five"]


def test_a_message_that_is_carried_on_and_an_operation_have_no_default_delay() -> None:
    bench = Bench(rules=Rules(default_delay_ms=5000))
    bench.turn()
    start_ms = bench.clock.now_ms()
    offset = bench.send(b"carried", (b"delay-ms", b"1000"))
    bench.turn()
    reference = b"orders.0.%d.%d" % (offset, start_ms + 1000)
    bench.send(b"", (b"delay-op", b"reschedule"), (b"delay-ref", reference), (b"delay-ms", b"2000"))
    bench.turn()
    bench.clock.advance(2000)
    bench.turn()
    assert bench.delivered() == [b"carried"]


def test_rules_of_an_unknown_parser_stop_the_shard_with_a_reason(bench: Bench) -> None:
    bench.send_raw(encode_rules(Rules(parser=99)))
    bench.turn()
    assert bench.worker.statuses[0].stalled == "unknown_format"


def test_a_full_index_stops_reading_but_not_delivery(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(b"a", (b"delay-ms", b"1000"))
    bench.turn()
    index = bench.index.shard(ORDERS)
    put = index.put

    def refuse(*_: object) -> None:
        raise StoreFull("no space left")

    monkeypatch.setattr(type(index), "put", refuse)
    bench.send(b"b", (b"delay-ms", b"1000"))
    bench.turn()
    bench.clock.advance(1000)
    bench.turn()
    stopped = (bench.worker.statuses[0].stalled, bench.delivered())
    monkeypatch.setattr(type(index), "put", lambda self, *args: put(*args))
    bench.turn(6)
    assert stopped == ("store_full", [b"a"])
    assert bench.delivered() == [b"a", b"b"]


def test_rolled_records_free_the_low_offset_and_keep_their_id() -> None:
    bench = Bench(batch_records_max=5000)
    bench.send(b"long", (b"delay-ms", b"1000000"))
    for _ in range(5000):
        bench.send(b"short", (b"delay-ms", b"1"))
    bench.turn()
    bench.clock.advance(1)
    bench.turn(6)
    due_ms = bench.clock.now_ms() - 1 + 1_000_000
    pinned = core(bench).cursor.low_offset
    core(bench).rolls.ask([Key(due_ms, 0)])
    for _ in range(6):
        bench.clock.advance(1000)
        bench.turn()
    freed = core(bench).cursor.low_offset
    bench.clock.advance(1_000_000)
    bench.turn()
    assert (pinned, freed > 4000) == (0, True)
    assert dict(decode_body(bench.log("orders")[-1].body).headers)[b"delayline-id"] == b"orders.0.0.%d" % due_ms


def test_a_clean_stop_leaves_a_cursor_from_which_nothing_is_repeated(bench: Bench) -> None:
    bench.send(b"a", (b"delay-ms", b"1"))
    bench.turn()
    bench.clock.advance(1)
    bench.turn()
    bench.worker.stop()
    bench.worker.run()
    cursor = bench.queue.takeover(ORDERS).cursor
    assert cursor is not None
    assert (cursor.next_offset, cursor.low_offset) == (1, 1)


def test_questions_are_answered_by_the_worker(bench: Bench) -> None:
    answer = bench.worker.call(lambda: 42)
    bench.turn(1)
    assert answer.result(timeout=0) == 42


def test_a_question_that_fails_fails_for_its_asker_alone(bench: Bench) -> None:
    answer = bench.worker.call(lambda: 1 // 0)
    bench.turn(1)
    assert isinstance(answer.exception(timeout=0), ZeroDivisionError)


def test_a_question_that_nobody_waits_for_any_more_is_not_asked(bench: Bench) -> None:
    asked: list[int] = []
    bench.worker.call(lambda: asked.append(1)).cancel()
    answer = bench.worker.call(lambda: 42)
    bench.turn(1)
    assert (asked, answer.result(timeout=0)) == ([], 42)


def test_shards_whose_near_due_records_fill_their_memory_are_not_read_on() -> None:
    bench = Bench(near_bytes_max=1000)
    bench.turn()
    for _ in range(3):
        for _ in range(20):
            bench.send(b"x" * 100, (b"delay-ms", b"1500"))
        bench.turn()
    read = core(bench).position
    bench.clock.advance(1500)
    bench.turn(20)
    bench.clock.advance(1500)
    bench.turn(20)
    assert (read, len(bench.delivered())) == (20, 60)


def test_a_shard_whose_read_position_was_trimmed_away_is_taken_over_anew(bench: Bench) -> None:
    bench.turn()
    for _ in range(3):
        bench.send(b"a", (b"delay-ms", b"1"))
    bench.source.seek(ORDERS, 99)
    bench.turn(2)
    lost = bench.worker.statuses[0].stalled
    bench.clock.advance(2000)
    bench.turn(8)
    assert (lost, len(bench.delivered())) == ("out_of_range", 3)


def test_a_log_that_cannot_be_read_stops_reading_with_a_reason_and_what_is_read_is_delivered(bench: Bench) -> None:
    bench.send(b"a", (b"delay-ms", b"1"))
    bench.turn()
    events = [Unreadable(ORDERS, "at offset 7: a checksum")]
    with patch.object(bench.source, "poll", lambda *_: [events.pop()] if events else []):
        bench.turn()
        bench.clock.advance(100)
        bench.turn()
    stopped = bench.worker.statuses[0]
    seen = stopped.stalled, stopped.detail, stopped.retry_s, bench.delivered()
    bench.send(b"b", (b"delay-ms", b"1"))
    bench.clock.advance(2000)
    bench.turn(8)
    assert seen == ("unreadable_log", "at offset 7: a checksum", 0.9, [b"a"])
    assert (bench.worker.statuses[0].stalled, bench.delivered()) == (None, [b"a", b"b"])


class Broken:
    """A source whose log breaks off at once, wherever it is read from, once `is_broken`; `tries` counts how often."""

    def __init__(self, source: Source, event: type[Unreadable | OutOfRange]) -> None:
        self._source = source
        self._event = event
        self._reading = True
        self._paused = False
        self.is_broken = False
        self.tries = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._source, name)

    def poll(self, records_max: int, timeout_s: float) -> Sequence[Event]:
        if not self.is_broken:
            return self._source.poll(records_max, timeout_s)
        if not self._reading or self._paused:
            return []
        self._reading = False
        self.tries += 1
        return [self._event(ORDERS, "broken")]

    def seek(self, *_: object) -> None:
        self._reading = True

    def pause_fetch(self, *_: object) -> None:
        self._paused = True

    def resume_fetch(self, *_: object) -> None:
        self._paused = False


@pytest.mark.parametrize("event", [Unreadable, OutOfRange])
def test_a_log_that_stays_as_it_is_is_looked_at_with_growing_distance(
    event: type[Unreadable | OutOfRange],
) -> None:
    """After 1, 2, 4 .. seconds, and every minute from then on. What cannot be read is not claimed anew for it."""
    bench = Bench(in_front=partial(Broken, event=event))
    bench.turn()
    broken = bench.source
    broken.is_broken = True
    for _ in range(600):
        bench.clock.advance(1000)
        bench.turn(2)
    claims = len({part.cursor.owner_epoch for batch in bench.sink.batches for part in batch}) - 1
    assert 10 <= broken.tries <= 18
    assert claims == (0 if event is Unreadable else broken.tries - 1)


def test_a_claim_that_is_fenced_does_not_keep_other_shards_waiting(bench: Bench) -> None:
    bench.queue.ensure_buffer("mails", Rules())
    bench.sink.fault = lambda batch: Fenced([ORDERS]) if any(part.shard == ORDERS for part in batch) else None
    bench.turn(4)
    states = {status.id.topic: (status.ready, status.stalled) for status in bench.worker.statuses}
    assert states == {"orders": (False, "takeover"), "mails": (True, None)}


P = ParamSpec("P")


class Reluctant(Executor):
    """An executor that starts nothing before somebody waits for it; what was handed in earlier goes first."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def submit(self, call: Callable[P, Any], /, *args: P.args, **named: P.kwargs) -> "Future[Any]":
        future = Awaited(self)
        self._waiting.append(lambda: future.set_result(call(*args, **named)))
        return future

    def work(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()


class Awaited(Future):  # type: ignore[type-arg]
    def __init__(self, executor: Reluctant) -> None:
        super().__init__()
        self._executor = executor

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._executor.work()
        return super().exception(timeout)

    def result(self, timeout: float | None = None) -> object:
        self._executor.work()
        return super().result(timeout)


def test_a_shard_is_not_taken_over_while_a_commit_of_it_is_still_on_its_way(bench: Bench) -> None:
    bench.turn()
    bench.committer.to = Reluctant()
    bench.send(b"a", (b"delay-ms", b"0"))
    bench.worker.turn()
    bench.worker.turn()
    bench.source.seek(ORDERS, 99)
    bench.worker.turn()
    bench.clock.advance(1000)
    bench.turn(8)
    assert bench.delivered() == [b"a"]
    assert core(bench).cursor.owner_epoch == 2


def test_a_rolled_message_is_found_before_its_re_append_has_been_read(bench: Bench) -> None:
    bench.send(b"long", (b"delay-ms", b"7200000"))
    bench.turn()
    due_ms = bench.clock.now_ms() + 7_200_000
    core(bench).rolls.ask([Key(due_ms, 0)])
    bench.source.pause_fetch(ORDERS)
    bench.turn()
    found = core(bench).messages.find(MessageId(ORDERS, 0, due_ms))
    bench.source.resume_fetch(ORDERS)
    bench.turn()
    again = core(bench).messages.find(MessageId(ORDERS, 0, due_ms))
    assert found is not None
    assert again is not None
    assert (found.record.value, found.version, again.record.value, again.version) == (b"long", 1, b"long", 1)


def test_a_worker_is_not_ready_before_its_rules_are_in_force() -> None:
    bench = Bench(rules=Rules(levels_ms=(1000,)))
    states = []
    for _ in range(6):
        bench.turn(1)
        states.append(bench.worker.statuses[0].ready)
    assert (states[0], states[1], states[-1]) == (False, False, True)
    assert any(b"delayline-rules" in record.body for record in bench.log(NAMES.buffer("orders")))


def test_a_rolled_message_whose_re_append_is_read_before_its_commit_is_heard_of_is_not_remembered_for_ever(
    bench: Bench,
) -> None:
    bench.send(b"long", (b"delay-ms", b"7200000"))
    bench.turn()
    due_ms = bench.clock.now_ms() + 7_200_000
    core(bench).rolls.ask([Key(due_ms, 0)])
    bench.worker.dispatch()
    assert bench.committer.last is not None
    bench.committer.last.result()
    bench.worker.read()
    bench.clock.advance(7_200_000)
    bench.turn(8)
    assert bench.delivered() == [b"long"]
    assert core(bench).messages.find(MessageId(ORDERS, 0, due_ms)) is None


def test_a_queue_that_answers_nothing_does_not_keep_the_worker_from_its_figures(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.turn()

    def refuse(*_: object) -> tuple[int, int]:
        raise QueueUnavailable("no broker answers")

    monkeypatch.setattr(bench.queue, "log_range", refuse)
    bench.send(b"a", (b"delay-ms", b"500"))
    bench.clock.advance(1000)
    bench.turn()
    assert [status.ingest_lag for status in bench.worker.statuses] == [0]
