"""The way out of a stall: what is skipped stays skipped for every owner, the rest is delivered, and it is
recorded."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Thread
from typing import Any, ParamSpec

import pytest

from delayline.buffer.cursor import SKIPPED_MAX
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Skip, StallReport
from delayline.records.headers import RULES
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import Rules
from mq.contract import Fetched, Unreadable
from mq.errors import CommitAborted, CommitUnknown
from store.memory import MemoryIndex
from tests.unit.delay_service.core.test_claims import HOUR, MINUTE, restart, rows
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench

LATER = encode_body(None, None, [(RULES, b"1"), (b"more", b"x")])
STRANGE = encode_body(None, Rules(parser=99).encoded, [(RULES, b"1")])


@pytest.fixture
def bench() -> Bench:
    return Bench()


def report(bench: Bench) -> StallReport:
    owned = bench.worker.owned(ORDERS)
    assert owned is not None
    return bench.worker.way_out.report(owned)


def skip(bench: Bench, wanted: Skip, body: bytes = STRANGE) -> StallReport:
    owned = bench.worker.owned(ORDERS)
    assert owned is not None
    return bench.worker.way_out.skip(owned, wanted, body)


def seen(bench: Bench, through: int | None = None) -> Skip:
    """What an operator wants who has just looked."""
    found = report(bench)
    assert found.reason is not None
    return Skip(found.reason, found.offset, found.offset if through is None else through, "eva")


def stalled(bench: Bench) -> int:
    """At a record of a later version, between two messages; its offset."""
    bench.turn()
    bench.send(b"before", (b"delay-ms", b"%d" % HOUR))
    offset = bench.send_raw(STRANGE)
    bench.send(b"behind", (b"delay-ms", b"%d" % HOUR))
    bench.turn()
    return offset


def test_a_record_of_a_later_version_is_skipped_once_and_for_every_later_owner(bench: Bench) -> None:
    offset = stalled(bench)
    found = skip(bench, seen(bench))
    bench.turn()
    restart(bench, lose_index=True)
    bench.clock.advance(HOUR)
    bench.turn(6)
    assert (found.refused, found.reason) == ("", None)
    assert bench.delivered() == [b"before", b"behind"]
    (dead,) = [decode_body(record.body) for record in bench.log(NAMES.dead)]
    assert (dead.value, dict(dead.headers)[b"delayline-error-code"]) == (Rules(parser=99).encoded, b"skipped")
    assert [row for row in rows(bench) if row[0] == offset] == [(offset, Outcome.DEAD, "skipped")]


def test_where_it_was_skipped_before_the_shard_had_caught_up_nothing_is_lost_or_delivered_twice(bench: Bench) -> None:
    """The index below the place is whole, above it nothing is known: a checkpoint must not cover more."""
    stalled(bench)
    restart(bench, lose_index=True)
    bench.send(b"last", (b"delay-ms", b"%d" % MINUTE))
    skip(bench, seen(bench))
    bench.worker.stop()
    bench.worker.run()
    bench.start("w3")
    bench.clock.advance(HOUR)
    bench.turn(8)
    assert sorted(bench.delivered(), key=str) == [b"before", b"behind", b"last"]


def test_what_is_behind_a_place_that_an_earlier_owner_could_read_is_not_forgotten_with_it(bench: Bench) -> None:
    """O stands behind it already: a checkpoint there would mean that everything before O is in the index."""
    bench.turn()
    for value in (b"0", b"1", b"2"):
        bench.send(value, (b"delay-ms", b"%d" % HOUR))
    bench.turn()
    bench.clock.advance(2000)
    bench.turn()
    bench.worker.stop()
    bench.worker.run()
    bench.index = MemoryIndex()
    bench.start("w2")
    bench.turn(1)
    source: Any = bench.source
    poll, source.poll = source.poll, lambda *_: [Unreadable(ORDERS, "at offset 0: a checksum")]
    bench.turn(2)
    assert (skip(bench, seen(bench), b"").refused, rows(bench)) == ("", [(0, Outcome.DEAD, "skipped")])
    bench.start("w3")  # the last one was killed before it read on, and has left its index
    bench.clock.advance(HOUR)
    bench.turn(8)
    assert (bench.delivered(), poll is not None) == ([b"1", b"2"], True)


def test_an_index_that_still_has_what_was_skipped_is_not_believed(bench: Bench) -> None:
    """Its owner had read the place before it was damaged, and takes the shard again after another one skipped it."""
    bench.turn()
    for value in (b"0", b"1"):
        bench.send(value, (b"delay-ms", b"%d" % HOUR))
    bench.turn()
    bench.clock.advance(2000)
    bench.turn()
    bench.worker.stop()
    bench.worker.run()
    kept, bench.index = bench.index, MemoryIndex()
    bench.start("w2")
    break_off(bench, 0, 1)
    bench.turn(6)
    assert skip(bench, seen(bench), b"").refused == ""
    bench.worker.stop()
    bench.worker.run()
    bench.index = kept
    bench.start("w1")
    bench.clock.advance(HOUR)
    bench.turn(8)
    assert bench.delivered() == [b"1"]


def test_a_skip_waits_for_the_commit_in_flight(bench: Bench) -> None:
    """The shard delivers while it has stopped reading, and has one batch at a time."""
    stalled(bench)
    bench.clock.advance(HOUR)
    committer = bench.committer.to
    work: list[Callable[[], Any]] = []
    future: Future[Any] = Future()
    bench.committer.to = Postponed(future, work)
    bench.worker.turn()
    bench.committer.to = committer
    assert (len(work), future.done()) == (1, False)
    Thread(target=lambda: future.set_result(work[0]())).start()
    assert skip(bench, seen(bench)).refused == ""
    restart(bench, lose_index=True)
    bench.clock.advance(HOUR)
    bench.turn(8)
    assert bench.delivered() == [b"before", b"behind"]


P = ParamSpec("P")


class Postponed(Executor):
    """A committing thread that has not begun yet."""

    def __init__(self, future: "Future[Any]", work: list[Callable[[], Any]]) -> None:
        self._future, self._work = future, work

    def submit(self, work: Callable[P, Any], /, *given: P.args, **named: P.kwargs) -> "Future[Any]":
        self._work.append(lambda: work(*given, **named))
        return self._future


def test_a_record_of_a_later_version_is_found_behind_offsets_that_hold_nothing(bench: Bench) -> None:
    """As behind an aborted transaction: to skip those one by one would use up the ranges that a cursor has."""
    bench.turn()
    for _ in range(SKIPPED_MAX + 1):
        bench.send(b"aborted")
    bench.send_raw(STRANGE)
    source: Any = bench.source
    poll = source.poll

    def with_holes(*given: Any) -> list[Any]:
        found = poll(*given)
        return [one._replace(records=[r for r in one.records if r[0] > SKIPPED_MAX]) for one in found if one.records]

    source.poll = with_holes
    bench.turn()
    assert (report(bench).reason, report(bench).offset) == ("unknown_format", SKIPPED_MAX + 1)


def test_what_stands_behind_the_end_of_a_log_that_ends_with_a_skipped_record_is_read(bench: Bench) -> None:
    bench.turn()
    bench.send_raw(STRANGE)
    bench.turn()
    skip(bench, seen(bench))
    restart(bench, lose_index=True)
    assert bench.worker.statuses[0].ready
    bench.send(b"a", (b"delay-ms", b"1"))
    bench.clock.advance(MINUTE)
    bench.turn()
    assert bench.delivered() == [b"a"]


def test_a_place_that_cannot_be_read_is_passed_over_up_to_the_offset_that_is_named(bench: Bench) -> None:
    bench.turn()
    for value in (b"0", b"1", b"2", b"3"):
        bench.send(value, (b"delay-ms", b"1"))
    poll: Any = bench.source.poll
    source: Any = bench.source
    source.poll = lambda *_: [Unreadable(ORDERS, "at offset 0: a checksum")]
    bench.turn(1)
    found = skip(bench, seen(bench, 2), b"")
    source.poll = poll
    bench.clock.advance(MINUTE)
    bench.turn()
    assert (found.refused, bench.delivered()) == ("", [b"3"])
    assert rows(bench)[0] == (0, Outcome.DEAD, "skipped")


def test_the_next_owner_passes_over_a_place_that_still_cannot_be_read(bench: Bench) -> None:
    bench.turn()
    bench.send(b"first", (b"delay-ms", b"%d" % HOUR))  # the low offset stays before the place
    bench.turn()
    for value in (b"1", b"2", b"3"):
        bench.send(value, (b"delay-ms", b"%d" % HOUR))
    break_off(bench, 1, 3)
    bench.turn(2)
    assert skip(bench, seen(bench, 2), b"").refused == ""
    bench.worker.stop()
    bench.worker.run()
    bench.index = MemoryIndex()
    bench.start("w2")
    break_off(bench, 1, 3)
    bench.turn(8)
    bench.clock.advance(HOUR)
    bench.turn(4)
    assert (bench.worker.statuses[0].stalled, bench.delivered()) == (None, [b"first", b"3"])


def break_off(bench: Bench, first: int, end: int) -> None:
    """What stands there cannot be read: reading breaks off before it, wherever it comes from."""
    source: Any = bench.source
    poll = source.poll

    def broken(*given: Any) -> list[Any]:
        found: list[Any] = []
        for event in poll(*given):
            if isinstance(event, Fetched) and any(first <= record[0] < end for record in event.records):
                before = [record for record in event.records if record[0] < first]
                found += [event._replace(records=before, next_offset=first)] if before else []
                found.append(Unreadable(ORDERS, f"at offset {first}: a checksum"))
            else:
                found.append(event)
        return found

    source.poll = broken


def test_it_is_refused_where_the_shard_is_healthy(bench: Bench) -> None:
    bench.turn()
    assert "healthy" in skip(bench, Skip("unknown_format", 0, 0)).refused


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Skip("unreadable_log", 1, 1), "look again"),
        (Skip("unknown_format", 0, 0), "look again"),
        (Skip("unknown_format", 1, 0), "not one that it could go on at"),
        (Skip("unknown_format", 1, 2), "not one that it could go on at"),
    ],
)
def test_it_is_refused_where_the_shard_does_not_stand_as_the_operator_has_seen_it(
    bench: Bench, wanted: Skip, why: str
) -> None:
    stalled(bench)
    found = skip(bench, wanted)
    assert why in found.refused
    assert (report(bench).reason, len(bench.log(NAMES.dead))) == ("unknown_format", 0)


def test_asked_twice_it_skips_once(bench: Bench) -> None:
    stalled(bench)
    wanted = seen(bench)
    answers = [skip(bench, wanted).refused for _ in range(2)]
    assert (answers[0], "healthy" in answers[1], len(bench.log(NAMES.dead))) == ("", True, 1)


def test_a_stall_that_ends_by_itself_has_no_way_out(bench: Bench) -> None:
    bench.turn()
    owned = bench.worker.owned(ORDERS)
    assert owned is not None
    bench.worker.stalls.stall(owned, "target", "refused")
    assert "goes on by itself" in skip(bench, Skip("target", 0, 0)).refused


def test_only_so_many_ranges_are_skipped_at_once(bench: Bench) -> None:
    bench.turn()
    bench.send(b"before", (b"delay-ms", b"%d" % (10 * HOUR)))
    answers = []
    for _ in range(SKIPPED_MAX + 1):
        bench.send_raw(STRANGE)
        bench.send(b"between", (b"delay-ms", b"%d" % (10 * HOUR)))
        bench.clock.advance(2 * MINUTE)
        bench.turn()
        answers.append(skip(bench, seen(bench)).refused)
    assert answers[:-1] == [""] * SKIPPED_MAX
    assert "are skipped already" in answers[-1]


@pytest.mark.parametrize(
    ("fault", "error", "dead"),
    [("fault", CommitAborted("no"), 1), ("after", CommitUnknown("perhaps"), 1)],
)
def test_a_skip_that_was_not_or_may_have_been_written_is_read_back(
    bench: Bench, fault: str, error: Exception, dead: int
) -> None:
    stalled(bench)
    wanted = seen(bench)
    faults = iter([error])
    setattr(bench.sink, fault, lambda _: next(faults, None))
    assert "not written" in skip(bench, wanted).refused
    bench.clock.advance(MINUTE)
    bench.turn(8)
    if report(bench).reason is not None:
        skip(bench, seen(bench))
    bench.clock.advance(HOUR)
    bench.turn(8)
    assert (bench.delivered(), len(bench.log(NAMES.dead))) == ([b"before", b"behind"], dead)


# --- at the takeover


def begin_again(bench: Bench, change: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next owner gets something else than the last one has left."""
    bench.worker.stop()
    bench.worker.run()
    handover = bench.queue.takeover
    monkeypatch.setattr(bench.queue, "takeover", lambda shard: change(handover(shard)))
    bench.index = MemoryIndex()
    bench.start("w2")
    bench.turn()


def trimmed(bench: Bench) -> None:
    """Two messages, the first of which is not in the log any more."""
    bench.turn()
    for value in (b"gone", b"left"):
        bench.send(value, (b"delay-ms", b"%d" % HOUR))
    bench.turn()
    bench.queue.trim(ORDERS, 1)


def check_accepted(bench: Bench, reason: str) -> None:
    found = report(bench)
    before = len(bench.sink.batches)
    assert (found.reason, bool(found.does), bool(found.loses)) == (reason, True, True)
    assert skip(bench, Skip(reason, found.offset, found.offset, "eva")).refused == ""
    assert len(bench.sink.batches) > before
    bench.clock.advance(HOUR)
    bench.turn(8)
    assert (bench.worker.statuses[0].stalled, bench.delivered()) == (None, [b"left"])
    assert [row[1:] for row in rows(bench)][-1] == (Outcome.APPLIED, "skipped")


def test_a_lost_cursor_is_accepted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed(bench)
    begin_again(bench, lambda found: found._replace(cursor=None), monkeypatch)
    monkeypatch.setattr(bench.sink.sink, "_fence", lambda *_: None, raising=False)
    check_accepted(bench, "cursor_lost")


def test_a_buffer_that_was_made_anew_is_accepted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed(bench)
    begin_again(bench, lambda found: found._replace(topic_id=b"another topic..."), monkeypatch)
    check_accepted(bench, "buffer_recreated")


def test_a_buffer_that_was_cut_is_accepted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed(bench)
    begin_again(bench, lambda found: found, monkeypatch)
    check_accepted(bench, "buffer_truncated")
