"""Rolling bounds the log to a multiple of what is alive, and comes to rest."""

import pytest

from delay_service.core.batch_draft import ROLLED_BYTES_MAX
from delay_service.core.roller import Roller
from delay_service.core.shard import Shard
from delayline.records.message import BEFORE_ALL
from store.memory import MemoryIndex
from tests.unit.delay_service.harness import ORDERS, Bench


def core(bench: Bench) -> Shard:
    running = bench.worker.core(ORDERS)
    assert running is not None
    return running


def traffic(bench: Bench, messages: int) -> None:
    for _ in range(messages):
        bench.send(b"short", (b"delay-ms", b"1"))
    bench.turn()
    bench.clock.advance(1000)
    bench.turn()


def span(bench: Bench) -> int:
    return core(bench).position - core(bench).cursor.low_offset


def roll(bench: Bench, roller: Roller) -> None:
    for _ in range(4):
        roller.step(core(bench), bench.index.shard(ORDERS), bench.clock.now_ms())
        bench.clock.advance(1000)
        bench.turn()


def test_a_long_message_among_short_ones_stops_pinning_the_log() -> None:
    bench = Bench(batch_records_max=10_000)
    bench.send(b"long", (b"delay-ms", b"99999999"))
    traffic(bench, 9000)
    before = span(bench)
    roll(bench, Roller(span_min=1000))
    assert before >= 9000
    assert span(bench) <= 4096 + 1000


def test_a_log_that_is_mostly_alive_is_left_alone() -> None:
    bench = Bench(batch_records_max=10_000)
    for _ in range(3000):
        bench.send(b"long", (b"delay-ms", b"99999999"))
    traffic(bench, 6000)
    end = core(bench).position
    roll(bench, Roller(span_min=1000))
    assert core(bench).position == end


def test_rolling_comes_to_rest_when_traffic_does() -> None:
    bench = Bench(batch_records_max=10_000)
    for _ in range(50):
        bench.send(b"long", (b"delay-ms", b"99999999"))
    traffic(bench, 9000)
    roller = Roller(span_min=1000)
    roll(bench, roller)
    end = core(bench).position
    roll(bench, roller)
    assert core(bench).position == end


def test_nothing_is_rolled_while_reading_is_held_back_and_what_is_indexed_arrives_in_time() -> None:
    free_bytes = 100
    bench = Bench(batch_records_max=10_000)
    bench.index = MemoryIndex(free_bytes=lambda: free_bytes, disk_free_min_bytes=50)
    bench.start("w2")
    bench.turn()
    bench.owned().upkeep.roller = Roller(span_min=1000)
    bench.send(b"long", (b"delay-ms", b"10000"))
    bench.turn()
    free_bytes = 0
    for _ in range(3000):
        bench.send(b"short", (b"delay-ms", b"1"))
    bench.turn()
    bench.send(b"later", (b"delay-ms", b"99999999"))
    bench.turn()
    bench.clock.advance(1)
    bench.turn(8)
    bench.clock.advance(10_000)
    bench.turn()
    assert bench.worker.statuses[0].stalled == "store_full"
    assert b"long" in bench.delivered()


def test_a_commit_looks_at_no_more_rolled_records_than_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    for _ in range(30):
        bench.send(b"x" * (ROLLED_BYTES_MAX // 4), (b"delay-ms", b"99999999"))
    bench.turn()
    index, looked_at = bench.index.shard(ORDERS), []
    get = index.get
    monkeypatch.setattr(type(index), "get", lambda _, key: looked_at.append(key) or get(key))
    core(bench).rolls.ask([entry.key for entry in index.scan(BEFORE_ALL, 30)])
    batch = core(bench).take(bench.clock.now_ms(), 100, 1 << 20)
    assert batch is not None
    assert (len(batch.appends), len(looked_at)) == (3, 4)  # the fourth has no room beside its headers
    assert batch.written_bytes <= 1 << 20
