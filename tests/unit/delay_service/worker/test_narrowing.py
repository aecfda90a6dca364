"""A commit that keeps failing narrows down to one record, which has a name and a way out; others go on."""

from collections.abc import Callable

import pytest

from delay_service.worker.owned import SUSPECTED_MIN
from delayline.buffer.outcome import Outcome
from delayline.buffer.record import encode_control
from delayline.questions.inquiry import Skip, StallReport
from delayline.records.dead_letter import read_dead_letter
from delayline.records.headers import LEFT_OUT
from delayline.records.message import Shard
from delayline.records.record import decode_body
from mq.contract import DispatchBatch
from mq.errors import CommitAborted, CommitError, CommitUnknown, DeliveryRefused, Refused
from tests.unit.delay_service.core.test_claims import HOUR, rows
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench

MAIL = Shard("mail", "0")
HUGE = bytes(300_000)
LARGE_BYTES = 200_000
"""What the broker has no memory for."""

TURNS_MAX = 200
Fault = Callable[[DispatchBatch], Exception | None]


def written(batch: DispatchBatch) -> list[bytes]:
    found = [body for part in batch for body in (*part.dead, *part.appends)]
    return found + [body for part in batch for body, _ in part.deliveries]


def no_memory(kind: type[CommitError], *, dead: bool) -> Fault:
    """For a large record; `dead`, for a large dead letter, too."""

    def fault(batch: DispatchBatch) -> Exception | None:
        bodies = written(batch) if dead else [body for part in batch for body, _ in part.deliveries]
        return kind("out of memory") if any(len(body) > LARGE_BYTES for body in bodies) else None

    return fault


def after(ms: int) -> tuple[bytes, bytes]:
    return b"delay-ms", b"%d" % ms


def report(bench: Bench) -> StallReport:
    owned = bench.worker.owned(ORDERS)
    assert owned is not None
    return bench.worker.way_out.report(owned)


def skip(bench: Bench) -> StallReport:
    owned, seen = bench.worker.owned(ORDERS), report(bench)
    assert owned is not None
    assert seen.reason is not None
    return bench.worker.way_out.skip(owned, Skip(seen.reason, seen.offset, seen.offset, "eva"), b"")


def until(bench: Bench, holds: Callable[[], bool]) -> None:
    for _ in range(TURNS_MAX):
        if holds():
            return
        bench.turn(2)
        bench.clock.advance(10_000)
    raise AssertionError(f"not in {TURNS_MAX} turns: {bench.worker.statuses}")


def stuck(fault: Fault) -> tuple[Bench, int]:
    """A huge record in the middle of 40 others, and another topic; the huge one's offset."""
    bench = Bench(topics=("orders", "mail"))
    bench.turn()
    for number in range(20):
        bench.send(b"%d" % number, after(HOUR))
    offset = bench.send(HUGE, after(HOUR))
    for number in range(20, 40):
        bench.send(b"%d" % number, after(HOUR))
    bench.turn()
    bench.sink.fault = fault
    bench.clock.advance(HOUR)
    until(bench, lambda: report(bench).suspect is not None)
    return bench, offset


@pytest.mark.parametrize("kind", [CommitAborted, CommitUnknown])
def test_the_record_that_no_commit_goes_through_with_is_named(kind: type[CommitError]) -> None:
    bench, offset = stuck(no_memory(kind, dead=False))
    found = report(bench)
    assert (found.reason, found.offset, found.detail) == ("commit", offset, "out of memory")
    assert found.suspect is not None
    assert found.suspect.message_id.startswith(f"orders.0.{offset}.")
    assert found.suspect.bytes > len(HUGE)
    assert found.suspect.tries >= SUSPECTED_MIN
    assert found.suspect.since_ms <= bench.clock.now_ms()
    assert bench.delivered() == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("kind", [CommitAborted, CommitUnknown])
def test_it_is_skipped_to_the_dead_letters_and_what_is_behind_it_is_delivered(kind: type[CommitError]) -> None:
    bench, offset = stuck(no_memory(kind, dead=False))
    done = skip(bench)
    until(bench, lambda: len(bench.delivered()) == 40)
    assert (done.refused, report(bench).reason) == ("", None)
    assert [row for row in rows(bench) if row[0] == offset] == [(offset, Outcome.DEAD, "skipped")]
    (dead,) = [read_dead_letter(record.body) for record in bench.log(NAMES.dead)]
    assert dead is not None
    assert (dead.code, dead.original.value) == ("skipped", HUGE)


@pytest.mark.parametrize("kind", [CommitAborted, CommitUnknown])
def test_where_not_even_that_goes_through_its_dead_letter_has_size_and_digest_alone(kind: type[CommitError]) -> None:
    bench, offset = stuck(no_memory(kind, dead=True))
    skip(bench)
    until(bench, lambda: len(bench.delivered()) == 40)
    assert [row for row in rows(bench) if row[0] == offset] == [(offset, Outcome.DEAD, "skipped")]
    (dead,) = [decode_body(record.body) for record in bench.log(NAMES.dead)]
    left_out = dict(dead.headers)[LEFT_OUT] or b""
    assert (dead.key, dead.value, b"bytes, sha256 " in left_out) == (None, None, True)


def test_another_topic_is_delivered_meanwhile() -> None:
    bench, _ = stuck(no_memory(CommitAborted, dead=False))
    for number in range(5):
        bench.send(b"%d" % number, after(1), to=MAIL)
    until(bench, lambda: len(bench.delivered("mail")) == 5)
    assert report(bench).suspect is not None


def test_shards_that_fell_due_together_are_distinguished() -> None:
    bench = Bench(topics=("orders", "mail"))
    bench.turn()
    bench.send(HUGE, after(HOUR))
    for number in range(30):
        bench.send(b"%d" % number, after(HOUR), to=MAIL)
    bench.turn()
    bench.sink.fault = no_memory(CommitAborted, dead=False)
    bench.clock.advance(HOUR)
    until(bench, lambda: len(bench.delivered("mail")) == 30 and report(bench).suspect is not None)
    mail = bench.worker.owned(MAIL)
    assert mail is not None
    assert (mail.bounds.alone, mail.bounds.suspect) == (False, None)


def test_an_outage_leaves_no_suspect_behind() -> None:
    bench, _ = stuck(lambda _: CommitAborted("no answer"))
    bench.sink.fault = lambda _: None
    until(bench, lambda: len(bench.delivered()) == 41)
    assert (report(bench).reason, report(bench).suspect) == (None, None)


def test_a_suspect_that_is_cancelled_stalls_its_shard_no_more() -> None:
    bench = Bench()
    bench.turn()
    offset = bench.send(HUGE, after(HOUR))
    bench.turn()
    bench.sink.fault = no_memory(CommitAborted, dead=False)
    bench.clock.advance(HOUR)
    bench.turn(1)
    bench.send_raw(encode_control("purge"))
    until(bench, lambda: [row[1] for row in rows(bench) if row[0] == offset] == [Outcome.CANCELLED])
    bench.turn()
    assert report(bench).reason is None


def test_before_it_is_found_there_is_no_way_out() -> None:
    bench = Bench()
    bench.send(b"x", after(1))
    bench.turn()
    bench.sink.fault = lambda _: CommitAborted("once")
    bench.clock.advance(1000)
    bench.turn(1)
    found = report(bench)
    assert (found.reason, found.does, found.suspect) == ("commit", "", None)
    assert "goes on by itself" in skip(bench).refused


def test_a_dead_letter_that_its_topic_does_not_take_is_written_without_its_body() -> None:
    bench = Bench()

    def fault(batch: DispatchBatch) -> Exception | None:
        large = any(len(body) > LARGE_BYTES for part in batch for body in part.dead)
        text, what = "too large", Refused.DEAD_LETTER
        return DeliveryRefused(ORDERS, text, of_record=True, refused=what) if large else None

    bench.sink.fault = fault
    bench.turn()
    bench.send(HUGE, (b"delay-ms", b"soon"))
    for number in range(10):
        bench.send(b"%d" % number, (b"delay-ms", b"soon"))
    until(bench, lambda: len(bench.log(NAMES.dead)) == 11)
    values = [decode_body(record.body).value for record in bench.log(NAMES.dead)]
    assert (values.count(None), report(bench).reason) == (1, None)


def test_a_topic_of_dead_letters_that_takes_nothing_is_tried_with_growing_distance() -> None:
    bench = Bench()
    tried: list[int] = []

    def fault(batch: DispatchBatch) -> Exception | None:
        if not any(part.dead for part in batch):
            return None
        tried.append(bench.clock.now_ms())
        return DeliveryRefused(ORDERS, "too large", of_record=True, refused=Refused.DEAD_LETTER)

    bench.sink.fault = fault
    bench.turn()
    bench.send(HUGE, (b"delay-ms", b"soon"))
    for _ in range(100):
        bench.turn(1)
        bench.clock.advance(100)
    assert (len(tried) < 10, report(bench).reason) == (True, "commit")


def test_a_repeat_that_cannot_be_carried_on_ends_as_a_dead_letter() -> None:
    bench = Bench()

    def fault(batch: DispatchBatch) -> Exception | None:
        large = any(len(body) > LARGE_BYTES for part in batch for body in part.appends)
        return DeliveryRefused(ORDERS, "too large", of_record=True, refused=Refused.APPEND) if large else None

    bench.sink.fault = fault
    bench.turn()
    offset = bench.send(HUGE, (b"delay-every", b"1h"))
    bench.send(b"beside", after(HOUR))
    bench.turn()
    bench.clock.advance(HOUR)
    until(bench, lambda: bench.delivered() == [b"beside"])
    assert [row for row in rows(bench) if row[0] == offset] == [(offset, Outcome.DEAD, "refused-by-buffer")]


def test_batches_that_are_halved_are_counted_by_reason() -> None:
    bench, _ = stuck(no_memory(CommitAborted, dead=False))
    assert (bench.registry.get_sample_value("delayline_batches_halved_total", {"reason": "aborted"}) or 0) >= 2
