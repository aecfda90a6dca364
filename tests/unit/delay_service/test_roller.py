"""Rolling bounds the log to a multiple of what is alive, and comes to rest."""

from delay_service.roller import Roller
from delay_service.shard import Shard
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
        roller.step(core(bench), bench.index.shard(ORDERS))
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
