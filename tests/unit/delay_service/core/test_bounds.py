"""Every batch keeps its bound in bytes, whatever it writes; and is smaller after one that failed."""

from collections.abc import Callable, Iterator

import pytest

from delay_service.core.shard import Shard
from delayline.buffer.record import encode_control
from delayline.records.message import BEFORE_ALL, Header
from delayline.records.message import Shard as ShardId
from mq.contract import Append, DispatchBatch, ShardBatch
from mq.errors import CommitAborted, CommitError, CommitUnknown
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench

BIG, BOUND = bytes(50_000), 1 << 20
HOUR = 3_600_000
Ask = Callable[[int], list[Header]]


def after(ms: int) -> Header:
    return b"delay-ms", b"%d" % ms


def series(_: int) -> list[Header]:
    return [(b"delay-every", b"1h")]


def deadline(_: int) -> list[Header]:
    return [after(HOUR), (b"delay-ttl", b"1m")]


def plain(_: int) -> list[Header]:
    return [after(HOUR)]


def retried(_: int) -> list[Header]:
    return [(b"delay-retry", b"billing")]


def named(number: int) -> list[Header]:
    return [after(HOUR), (b"delay-id", b"%d" % number)]


def core(bench: Bench) -> Shard:
    found = bench.worker.core(ORDERS)
    assert found is not None
    return found


def batches(bench: Bench, bound: int = BOUND, of: Shard | None = None) -> Iterator[ShardBatch]:
    """What the shard takes at the bound, one batch after the other, each committed."""
    shard = of or core(bench)
    for _ in range(200):
        part = shard.take(bench.clock.now_ms(), 5000, bound)
        if part is None:
            return
        bench.sink.commit([part])
        shard.committed()
        yield part


def all_fit(parts: list[ShardBatch]) -> bool:
    return all(part.written_bytes <= BOUND for part in parts)


@pytest.mark.parametrize("ask", [plain, series, deadline, retried, named])
def test_what_is_due_goes_in_batches_that_keep_their_bound(ask: Ask) -> None:
    bench = Bench()
    for number in range(60):
        bench.send(BIG, *ask(number))
    bench.turn(8)
    bench.clock.advance(HOUR)
    parts = list(batches(bench))
    ended = sum(len(part.deliveries) + len(part.cross_partition) + len(part.dead) for part in parts)
    assert (ended, all_fit(parts)) == (60, True)


def test_dead_letters_keep_the_bound() -> None:
    bench = Bench()
    bench.turn()
    for _ in range(60):
        bench.send(BIG, (b"delay-ms", b"soon"))
    bench.worker.read()
    parts = list(batches(bench))
    assert (sum(len(part.dead) for part in parts), all_fit(parts)) == (60, True)


LONG, SMALL = "t" * 230, 20_000
"""A topic whose name makes rows long, and a bound that a few hundred of them reach."""


def crowded(number: int) -> tuple[Bench, Shard]:
    """So many messages wait for the topic with the long name."""
    bench, shard = Bench(topics=(LONG,)), ShardId(LONG, "0")
    bench.turn()
    for one in range(number):
        bench.send(b"x", *named(one), to=shard)
    bench.turn(number // 20)
    found = bench.worker.core(shard)
    assert found is not None
    return bench, found


def test_a_purge_keeps_the_bound() -> None:
    bench, found = crowded(400)
    purge = Append(NAMES.buffer(LONG), "0", encode_control("purge"))
    bench.queue.append([purge]).result()
    bench.worker.read()
    parts = list(batches(bench, SMALL, found))
    assert max(part.written_bytes for part in parts) <= SMALL
    assert (found.messages.waiting()[0].pending(), len(parts) > 400 * len(LONG) // SMALL) == (0, True)


def test_many_cancels_at_once_keep_the_bound() -> None:
    bench, found = crowded(400)
    for number in range(400):
        headers = (b"delay-op", b"cancel"), (b"delay-ref", b"%d" % number)
        bench.send(b"", *headers, to=ShardId(LONG, "0"))
    for _ in range(4):
        bench.worker.read()
    parts = list(batches(bench, SMALL, found))
    assert max(part.written_bytes for part in parts) <= SMALL
    assert found.messages.waiting()[0].pending() == 0


def test_reschedules_keep_the_bound() -> None:
    bench = Bench()
    for number in range(60):
        bench.send(BIG, *named(number))
    bench.turn(8)
    for number in range(60):
        bench.send(b"", (b"delay-op", b"reschedule"), (b"delay-ref", b"%d" % number), after(2 * HOUR))
    bench.worker.read()
    parts = list(batches(bench))
    assert (sum(len(part.appends) for part in parts), all_fit(parts)) == (60, True)


def test_late_records_that_an_operation_waits_for_keep_the_bound() -> None:
    bench = Bench()
    bench.send(b"passes", after(HOUR))
    bench.turn()
    bench.clock.advance(HOUR)
    bench.turn()
    due_ms = bench.clock.now_ms() - HOUR // 2
    for _ in range(60):
        bench.send(BIG, (b"deliver-at", b"%d" % due_ms))
    bench.send(b"", (b"delay-op", b"cancel"), (b"delay-ref", b"nobody"))
    bench.worker.read()
    parts = list(batches(bench))
    assert (sum(len(part.deliveries) for part in parts), all_fit(parts)) == (60, True)


def test_late_records_of_a_paused_shard_keep_the_bound() -> None:
    bench = Bench()
    bench.send(b"passes", after(HOUR))
    bench.turn()
    bench.clock.advance(HOUR)
    bench.turn()
    bench.send_raw(encode_control("pause"))
    bench.turn()
    due_ms = bench.clock.now_ms() - HOUR // 2
    for _ in range(60):
        bench.send(BIG, (b"deliver-at", b"%d" % due_ms))
    bench.send_raw(encode_control("resume"))
    bench.worker.read()
    parts = list(batches(bench))
    assert (sum(len(part.appends) for part in parts) > 0, all_fit(parts)) == (True, True)


def test_rolled_records_keep_the_bound() -> None:
    bench = Bench()
    for number in range(60):
        bench.send(BIG, *plain(number))
    bench.turn(8)
    core(bench).rolls.ask(entry.key for entry in bench.index.shard(ORDERS).scan(BEFORE_ALL, 100))
    parts = list(batches(bench))
    assert (sum(len(part.appends) for part in parts), all_fit(parts)) == (60, True)


@pytest.mark.parametrize("ask", [plain, series])
def test_a_record_larger_than_the_bound_goes_alone(ask: Ask) -> None:
    bench = Bench()
    for number in range(3):
        bench.send(BIG, *ask(number))
    bench.turn(8)
    bench.clock.advance(HOUR)
    assert [len(part.deliveries) for part in batches(bench, 1000)] == [1, 1, 1]


def test_a_large_record_is_delivered_beside_a_flood_of_reschedules() -> None:
    bench = Bench()
    bench.send(bytes(700_000), after(1))
    for number in range(60):
        bench.send(BIG, *named(number))
    bench.turn(8)
    for number in range(60):
        bench.send(b"", (b"delay-op", b"reschedule"), (b"delay-ref", b"%d" % number), after(2 * HOUR))
    bench.worker.read()
    bench.clock.advance(10)
    delivering = [bool(part.deliveries) for part in batches(bench)]
    assert delivering.index(True) <= 1


@pytest.mark.parametrize("error", [CommitUnknown("no answer"), CommitAborted("timed out")])
def test_a_commit_that_failed_is_taken_again_in_halves_until_it_goes_through(error: CommitError) -> None:
    bench = Bench()
    bench.turn()
    tried: list[int] = []

    def too_slow(parts: DispatchBatch) -> Exception | None:
        number = sum(len(part.deliveries) for part in parts)
        tried.append(number)
        return error if number > 10 else None

    bench.sink.fault = too_slow
    for number in range(80):
        bench.send(b"x", *plain(number))
    bench.turn()
    tried.clear()
    bench.clock.advance(HOUR)
    for _ in range(60):
        bench.turn()
        bench.clock.advance(60_000)
    fell = [number for number in tried if number]
    assert (fell[:4], sum(number for number in fell if number <= 10)) == ([80, 50, 25, 12], 80)


def test_a_shard_comes_back_to_full_batches_after_some_that_went_well() -> None:
    bench = Bench()
    bench.turn()
    owned = bench.owned()
    bench.worker.narrowing.shrink(owned)
    for number in range(8):
        bench.send(b"x", after(number))
        bench.clock.advance(1000)
        bench.turn()
    assert owned.bounds.share == 1.0
