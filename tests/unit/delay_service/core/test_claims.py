"""Own ids, idempotency keys, repeats, expiry, pause and purge, through a worker over queue and index in memory."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

from delayline.buffer.outcome import Outcome, decode_audit
from delayline.buffer.record import encode_control
from delayline.records.message import Header
from delayline.records.record import decode_body
from store.memory import MemoryIndex
from tests.unit.delay_service.harness import ORDERS, Bench

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


def delay(ms: int) -> Header:
    return b"delay-ms", b"%d" % ms


def own(name: bytes) -> Header:
    return b"delay-id", name


REPLACE: Header = (b"delay-on-conflict", b"replace")


def rows(bench: Bench) -> list[tuple[int, Outcome, str | None]]:
    """(offset, outcome, reason) of every outcome row, by offset."""
    audits = [decode_body(record.body).value or b"" for record in bench.log("delayline.audit")]
    found = [row for value in audits for row in decode_audit(value)[1]]
    return sorted((row.offset, row.outcome, row.reason) for row in found)


def ids(bench: Bench) -> list[bytes | None]:
    return [dict(decode_body(record.body).headers)[b"delayline-id"] for record in bench.log("orders")]


def restart(bench: Bench, *, lose_index: bool) -> None:
    bench.worker.stop()
    bench.worker.run()
    if lose_index:
        bench.index = MemoryIndex()
    bench.start("w2")
    bench.turn(6)


def test_with_keep_the_second_of_two_with_one_own_id_is_a_duplicate() -> None:
    bench = Bench()
    first = bench.send(b"first", own(b"k"), delay(MINUTE))
    second = bench.send(b"second", own(b"k"), delay(SECOND))
    other = bench.send(b"other", own(b"l"), delay(SECOND))
    bench.turn()
    bench.clock.advance(2 * MINUTE)
    bench.turn()
    assert bench.delivered() == [b"other", b"first"]
    assert [row for row in rows(bench) if row[0] in (first, second, other)] == [
        (first, Outcome.DELIVERED, None),
        (second, Outcome.DUPLICATE, "own-id"),
        (other, Outcome.DELIVERED, None),
    ]


def test_with_replace_the_first_of_two_with_one_own_id_is_superseded() -> None:
    bench = Bench()
    first = bench.send(b"first", own(b"k"), delay(SECOND))
    second = bench.send(b"second", own(b"k"), REPLACE, delay(MINUTE))
    bench.turn()
    bench.clock.advance(2 * MINUTE)
    bench.turn()
    assert bench.delivered() == [b"second"]
    assert (first, Outcome.SUPERSEDED, "replaced") in rows(bench)
    assert (second, Outcome.DELIVERED, None) in rows(bench)


def test_an_own_id_is_free_again_when_its_message_has_ended() -> None:
    bench = Bench()
    bench.send(b"first", own(b"k"), delay(SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn()
    bench.send(b"second", own(b"k"), delay(SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn()
    assert bench.delivered() == [b"first", b"second"]


@pytest.mark.parametrize("lose_index", [False, True])
@pytest.mark.parametrize("header", [(b"delay-on-conflict", b"keep"), REPLACE])
def test_who_has_an_own_id_is_known_after_a_restart(header: Header, lose_index: bool) -> None:
    bench = Bench()
    bench.send(b"first", own(b"k"), delay(HOUR))
    bench.send(b"second", own(b"k"), header, delay(HOUR))
    bench.turn()
    restart(bench, lose_index=lose_index)
    bench.send(b"third", own(b"k"), delay(SECOND))
    bench.send(b"fourth", (b"delay-op", b"cancel"), (b"delay-ref", b"k"))
    bench.send(b"fifth", own(b"k"), delay(SECOND))
    bench.turn()
    bench.clock.advance(2 * HOUR)
    bench.turn()
    assert bench.delivered() == [b"fifth"]


def test_whoever_has_replaced_a_message_that_was_carried_on_has_its_own_id_after_a_restart() -> None:
    bench = Bench()
    bench.send(b"replaced", own(b"k"), (b"delay-cron", b"0 * * * *"))
    bench.send(b"stays", own(b"k"), REPLACE, delay(24 * HOUR))  # stands in the log before the re-append of the first
    bench.turn(8)
    restart(bench, lose_index=True)
    twin = bench.send(b"twin", own(b"k"), delay(SECOND))
    bench.turn()
    assert (twin, Outcome.DUPLICATE, "own-id") in rows(bench)


def test_a_message_that_is_due_at_once_is_delivered_although_it_had_to_be_decided() -> None:
    bench = Bench()
    bench.send(b"late", own(b"k"), (b"deliver-at", b"1700000000000"))
    bench.turn(4)  # takes over; then reads, decides and delivers in one commit
    assert bench.delivered() == [b"late"]


def test_an_operation_finds_a_message_by_its_own_id_wherever_it_has_been_moved() -> None:
    bench = Bench()
    bench.send(b"message", own(b"k"), delay(HOUR))
    bench.send(b"", (b"delay-op", b"reschedule"), (b"delay-ref", b"k"), delay(2 * HOUR))
    bench.send(b"", (b"delay-op", b"reschedule"), (b"delay-ref", b"k"), delay(MINUTE))
    bench.turn(8)
    bench.clock.advance(2 * MINUTE)
    bench.turn()
    assert bench.delivered() == [b"message"]


# --- idempotency


def idempotent(key: bytes, digest: bytes = b"d1") -> Header:
    return b"delayline-idempotency", digest + b" " + key


def test_a_request_that_is_repeated_while_its_message_waits_or_has_ended_is_a_duplicate() -> None:
    bench = Bench()
    first = bench.send(b"first", idempotent(b"key 1"), delay(SECOND))
    waits = bench.send(b"again", idempotent(b"key 1"), delay(SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn()
    ended = bench.send(b"again", idempotent(b"key 1"), delay(SECOND))
    mixed_up = bench.send(b"again", idempotent(b"key 1", b"d2"), delay(SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn()
    assert bench.delivered() == [b"first"]
    assert [row for row in rows(bench) if row[0] in (first, waits, ended, mixed_up)] == [
        (first, Outcome.DELIVERED, None),
        (waits, Outcome.DUPLICATE, "idempotency"),
        (ended, Outcome.DUPLICATE, "idempotency"),
        (mixed_up, Outcome.DUPLICATE, "idempotency-reused"),
    ]


def test_a_request_that_is_repeated_in_the_batch_that_cancels_its_message_is_a_duplicate() -> None:
    bench = Bench()
    first = bench.send(b"first", idempotent(b"key"), delay(HOUR))
    bench.turn()
    ref = f"orders.0.{first}.{bench.clock.now_ms() + HOUR}".encode()
    bench.send(b"", (b"delay-op", b"cancel"), (b"delay-ref", ref))
    again = bench.send(b"again", idempotent(b"key"), delay(SECOND))
    bench.turn()
    assert [row for row in rows(bench) if row[0] in (first, again)] == [
        (first, Outcome.CANCELLED, "cancelled"),
        (again, Outcome.DUPLICATE, "idempotency"),
    ]


def test_an_idempotency_key_is_forgotten_with_the_history() -> None:
    bench = Bench()
    bench.send(b"first", idempotent(b"key"), delay(SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn()
    bench.clock.advance(25 * HOUR)
    bench.send(b"other", delay(0))
    bench.turn()
    bench.send(b"again", idempotent(b"key"), delay(SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn()
    assert bench.delivered() == [b"first", b"other", b"again"]


# --- repeats


def test_a_series_delivers_as_often_as_it_asks_and_numbers_its_deliveries() -> None:
    bench = Bench()
    bench.send(b"tick", (b"delay-every", b"1h"), (b"delay-times", b"3"))
    for _ in range(6):
        bench.turn()
        bench.clock.advance(HOUR)
    bench.turn()
    first = f"orders.0.0.{bench.clock.now_ms() - 5 * HOUR}"
    assert ids(bench) == [f"{first}~{number}".encode() for number in (1, 2, 3)]


def test_a_series_by_cron_takes_its_first_time_from_the_calendar() -> None:
    bench = Bench()
    bench.send(b"tick", (b"delay-cron", b"0 0 * * *"), (b"delay-times", b"2"))
    bench.turn(6)
    for _ in range(3):
        bench.clock.advance(24 * HOUR)
        bench.turn(6)
    assert bench.delivered() == [b"tick", b"tick"]
    dues = [int(dict(decode_body(record.body).headers)[b"delayline-due"] or 0) for record in bench.log("orders")]
    assert [due % (24 * HOUR) for due in dues] == [0, 0]


@pytest.mark.parametrize(("missed", "count"), [(b"all", 5), (b"latest", 1), (b"none", 0)])
def test_what_was_missed_is_made_up_for_as_the_series_asks(missed: bytes, count: int) -> None:
    bench = Bench()
    bench.send(b"tick", (b"delay-every", b"1h"), (b"delay-missed", missed))
    bench.turn()
    bench.clock.advance(5 * HOUR + MINUTE)
    bench.turn(30)
    assert len(bench.delivered()) == count
    bench.clock.advance(HOUR)
    bench.turn()
    assert len(bench.delivered()) == count + 1


def test_cancelling_an_occurrence_leaves_it_out_and_cancelling_the_series_ends_it() -> None:
    bench = Bench()
    start = bench.clock.now_ms()
    bench.send(b"tick", (b"delay-every", b"1h"))
    series = f"orders.0.0.{start + HOUR}".encode()
    bench.turn()
    bench.send(b"", (b"delay-op", b"cancel"), (b"delay-ref", series + b"~2"))
    bench.turn()
    bench.send(b"", (b"delay-op", b"cancel"), (b"delay-ref", series + b"~1"))
    bench.turn()
    for _ in range(2):
        bench.clock.advance(HOUR)
        bench.turn()
    bench.send(b"", (b"delay-op", b"cancel"), (b"delay-ref", series))
    bench.turn()
    bench.clock.advance(5 * HOUR)
    bench.turn()
    assert ids(bench) == [series + b"~2"]
    assert (1, Outcome.UNMATCHED, "not-pending") in rows(bench)


@pytest.mark.parametrize("lose_index", [False, True])
def test_a_series_goes_on_after_a_restart(lose_index: bool) -> None:
    bench = Bench()
    bench.send(b"tick", own(b"nightly"), (b"delay-cron", b"0 * * * *"), (b"delay-times", b"3"))
    bench.turn(6)
    bench.clock.advance(HOUR)
    bench.turn(6)
    restart(bench, lose_index=lose_index)
    bench.send(b"twin", own(b"nightly"), delay(SECOND))
    bench.turn()
    for _ in range(4):
        bench.clock.advance(HOUR)
        bench.turn(6)
    assert bench.delivered() == [b"tick"] * 3


# --- a re-append that is read before its commit is known to be true


class AtOnce(ThreadPoolExecutor):
    """Commits before `submit` returns; the worker hears of it in its next turn, and reads before that."""

    def submit(self, work: Callable[..., Any], /, *parts: Any, **named: Any) -> "Future[Any]":
        done = super().submit(work, *parts, **named)
        wait([done])
        return done


@pytest.mark.parametrize("lose_index", [None, False, True])
@pytest.mark.parametrize("name", [own(b"nightly"), (b"delayline-idempotency", b"d1 nightly")])
@pytest.mark.parametrize(
    "asks",
    [
        [(b"delay-cron", b"0 * * * *")],
        [(b"delay-every", b"1h"), delay(0)],
        [delay(HOUR), (b"delay-times", b"2"), (b"delay-every", b"1h")],
    ],
)
def test_a_message_keeps_its_names_when_its_reappend_is_read_first(
    asks: list[Header], name: Header, lose_index: bool | None
) -> None:
    bench = Bench()
    bench.committer.to = AtOnce(1)
    first = bench.send(b"first", name, *asks)
    for _ in range(3):
        bench.worker.turn()
    bench.worker.wait_for_commit()
    if lose_index is not None:
        restart(bench, lose_index=lose_index)
    second = bench.send(b"second", name, delay(MINUTE))
    bench.turn()
    reasons = {offset: (outcome, reason) for offset, outcome, reason in rows(bench)}
    assert reasons[second] == (Outcome.DUPLICATE, "own-id" if name[0] == b"delay-id" else "idempotency")
    assert first == 0


# --- expiry


@pytest.mark.parametrize(("late_ms", "outcome"), [(59_000, Outcome.DELIVERED), (61_000, Outcome.EXPIRED)])
def test_what_cannot_be_delivered_before_its_deadline_expires(late_ms: int, outcome: Outcome) -> None:
    bench = Bench()
    offset = bench.send(b"offer", delay(HOUR), (b"delay-ttl", b"1m"))
    bench.turn()
    bench.clock.advance(HOUR + late_ms)
    bench.turn()
    assert [row[1] for row in rows(bench) if row[0] == offset] == [outcome]


def test_a_ttl_follows_a_reschedule_and_a_moment_does_not() -> None:
    bench = Bench()
    deadline = b"%d" % (bench.clock.now_ms() + 2 * HOUR)
    follows = bench.send(b"ttl", own(b"a"), delay(HOUR), (b"delay-ttl", b"1m"))
    stays = bench.send(b"moment", own(b"b"), delay(HOUR), (b"delay-expire-at", deadline))
    for ref in (b"a", b"b"):
        bench.send(b"", (b"delay-op", b"reschedule"), (b"delay-ref", ref), delay(3 * HOUR))
    bench.turn(8)
    bench.clock.advance(3 * HOUR + SECOND)
    bench.turn()
    assert bench.delivered() == [b"ttl"]
    assert {follows, stays} <= {row[0] for row in rows(bench) if row[2] == "rescheduled"}


# --- pause, resume, purge


def control(bench: Bench, kind: str) -> int:
    return bench.send_raw(encode_control(kind))


@pytest.mark.parametrize("lose_index", [False, True])
def test_a_paused_shard_delivers_nothing_until_it_is_resumed_even_after_a_restart(lose_index: bool) -> None:
    bench = Bench()
    control(bench, "pause")
    bench.send(b"message", delay(SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)
    restart(bench, lose_index=lose_index)
    bench.turn()
    assert bench.delivered() == []
    assert bench.worker.statuses[0].paused
    control(bench, "resume")
    bench.turn()
    assert bench.delivered() == [b"message"]


def test_a_message_can_be_cancelled_while_its_shard_is_paused() -> None:
    bench = Bench()
    control(bench, "pause")
    bench.send(b"message", own(b"k"), delay(SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.send(b"", (b"delay-op", b"cancel"), (b"delay-ref", b"k"))
    bench.turn()
    control(bench, "resume")
    bench.turn()
    assert bench.delivered() == []


def test_a_purge_cancels_what_was_accepted_before_it_and_nothing_else() -> None:
    bench = Bench()
    before = [bench.send(b"before", delay(HOUR + number)) for number in range(2500)]
    purge = control(bench, "purge")
    bench.send(b"after", delay(HOUR))
    bench.turn(12)
    bench.clock.advance(2 * HOUR)
    bench.turn()
    assert bench.delivered() == [b"after"]
    ended = [row for row in rows(bench) if row[0] in before]
    assert (len(ended), {row[1:] for row in ended}) == (2500, {(Outcome.CANCELLED, "purged")})
    assert (purge, Outcome.APPLIED, "purged") in rows(bench)
    assert bench.decisions.ask(ORDERS, purge).result(0).count == 2500


def test_each_purge_counts_what_it_has_cancelled_itself() -> None:
    bench = Bench()
    purges = []
    for number in (1200, 0, 3):
        for _ in range(number):
            bench.send(b"", delay(HOUR))
        purges.append(control(bench, "purge"))
    bench.turn(12)
    assert [bench.decisions.ask(ORDERS, purge).result(0).count for purge in purges] == [1200, 0, 3]


def test_a_purge_of_large_messages_ends_all_of_them() -> None:
    bench = Bench()
    for _ in range(30):
        bench.send(b"x" * 200_000, delay(HOUR))  # more than one scan of the index gives
    control(bench, "purge")
    bench.turn(8)
    bench.clock.advance(2 * HOUR)
    bench.turn()
    assert bench.delivered() == []


def test_of_two_purges_in_one_batch_each_ends_what_was_accepted_before_it() -> None:
    bench = Bench()
    bench.send(b"first", delay(HOUR))
    control(bench, "purge")
    bench.send(b"second", delay(HOUR))
    control(bench, "purge")
    bench.send(b"third", delay(HOUR))
    bench.turn()
    bench.clock.advance(2 * HOUR)
    bench.turn()
    assert bench.delivered() == [b"third"]


# --- late records of a paused shard

LONG_AGO: Header = (b"deliver-at", b"1700000000000")


def paused_with_late(bench: Bench, *late: bytes) -> None:
    """The shard has delivered something, and is paused; then records come whose turn has passed."""
    bench.send(b"first", delay(SECOND))
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn()
    control(bench, "pause")
    for value in late:
        bench.send(value, own(value), LONG_AGO)
    bench.turn()


@pytest.mark.parametrize("lose_index", [False, True])
def test_a_paused_shard_with_late_records_is_resumed(lose_index: bool) -> None:
    bench = Bench()
    paused_with_late(bench, b"late", b"later")
    control(bench, "resume")
    restart(bench, lose_index=lose_index)
    assert sorted(value or b"" for value in bench.delivered()) == [b"first", b"late", b"later"]


def test_a_late_message_of_a_paused_shard_can_be_cancelled() -> None:
    bench = Bench()
    paused_with_late(bench, b"late", b"later")
    bench.send(b"", (b"delay-op", b"cancel"), (b"delay-ref", b"late"))
    bench.turn()
    assert bench.delivered() == [b"first"]
    control(bench, "resume")
    bench.turn()
    assert bench.delivered() == [b"first", b"later"]


def test_a_late_record_of_a_paused_shard_that_cannot_be_read_goes_to_the_dead_letters() -> None:
    bench = Bench()
    paused_with_late(bench)
    bench.clock.advance(-2 * MINUTE)
    bench.send(b"bad", (b"delay-ms", b"soon"))
    bench.clock.advance(2 * MINUTE)
    control(bench, "resume")
    bench.turn()
    assert len(bench.log("delayline.dead")) == 1
    assert not bench.worker.statuses[0].paused


def test_a_paused_shard_reads_on_to_its_resume_when_its_memory_is_full() -> None:
    bench = Bench(near_bytes_max=1000)
    bench.turn()
    control(bench, "pause")
    for _ in range(3):
        for _ in range(20):
            bench.send(b"x" * 100, delay(SECOND))
        bench.turn()
    control(bench, "resume")
    bench.turn()
    bench.clock.advance(MINUTE)
    bench.turn(20)
    assert len(bench.delivered()) == 60


def test_a_dead_letter_of_a_message_with_terms_has_its_id_and_reason() -> None:
    bench = Bench()
    bench.send(b"bad", own(b"k"), delay(HOUR), (b"delay-ttl", b"never"))
    bench.turn()
    (letter,) = bench.log("delayline.dead")
    headers = dict(decode_body(letter.body).headers)
    assert headers[b"delayline-error-code"] == b"invalid-schedule"
    assert (headers[b"delayline-reason"] or b"").startswith(b"delay-ttl: ")
