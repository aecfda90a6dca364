"""Low-water marks: what they record, when they come, and that a shard which goes idle has the last word."""

import pytest

from delay_service.core.low_water import LowWater
from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import AuditRecord, decode_audit
from delayline.buffer.record import encode_control
from delayline.records.message import Shard
from delayline.records.record import decode_body
from mq.errors import CommitAborted
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench

FAR, NEAR = (b"delay-ms", b"3600000"), (b"delay-ms", b"10")
CURSOR = Cursor(topic_id=b"topic" + b"." * 11)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def marks(bench: Bench, shard: Shard = ORDERS) -> list[AuditRecord]:
    records = [decode_audit(decode_body(r.body).value or b"")[0] for r in bench.queue.read(NAMES.audit, "0", 0, 1000)]
    return [record for record in records if record.kind == "low_water" and record.shard == shard.partition]


def last_word(bench: Bench, shard: Shard = ORDERS) -> tuple[int | None, int | None]:
    mark = marks(bench, shard)[-1]
    return mark.next, mark.pending


def pass_time(bench: Bench, times: int = 3) -> None:
    for _ in range(times):
        bench.clock.advance(31_000)
        bench.turn(6)


def log_end(bench: Bench, shard: Shard = ORDERS) -> int:
    return bench.queue.log_range(shard)[1]


def test_a_mark_covers_what_is_done_and_stops_at_what_is_pending(bench: Bench) -> None:
    bench.send(b"far", FAR)
    bench.send(b"near", NEAR)
    due_ms = bench.clock.now_ms() + 3_600_000
    bench.turn()
    bench.clock.advance(3_599_000)
    bench.turn()
    bench.clock.advance(31_000)
    bench.sink.fault = lambda _: CommitAborted("not now")
    bench.turn()
    bench.sink.fault = lambda _: None
    bench.clock.advance(31_000)
    bench.turn()
    before = marks(bench)
    assert all(mark.low is not None and mark.low <= due_ms for mark in before[:-1])
    assert [mark.pending for mark in before[-2:]] == [1, 0]
    assert before[-1].next == 2


def test_a_shard_that_goes_idle_reports_once_that_nothing_is_pending_below_its_end(bench: Bench) -> None:
    bench.send(b"a", NEAR)
    pass_time(bench)
    count = len(marks(bench))
    pass_time(bench)
    assert last_word(bench) == (1, 0)
    assert len(marks(bench)) == count


def test_a_shard_that_was_only_claimed_reports_at_once(bench: Bench) -> None:
    bench.clock.advance(1000)
    bench.turn()
    assert last_word(bench) == (0, 0)


def test_what_waits_is_counted_until_it_has_ended(bench: Bench) -> None:
    for value in (b"a", b"b"):
        bench.send(value, FAR)
    bench.send(b"near", NEAR)
    pass_time(bench)
    assert last_word(bench) == (3, 2)


def test_the_last_word_comes_also_behind_an_operation_and_the_decision_that_it_caused(bench: Bench) -> None:
    offset = bench.send(b"a", FAR)
    due_ms = bench.clock.now_ms() + 3_600_000
    pass_time(bench)
    bench.send(b"", (b"delay-op", b"cancel"), (b"delay-ref", f"orders.0.{offset}.{due_ms}".encode()))
    pass_time(bench)
    assert last_word(bench) == (log_end(bench), 0)
    assert log_end(bench) == 3  # message, operation, decision


def test_the_last_word_comes_also_behind_an_operation_that_found_nothing(bench: Bench) -> None:
    bench.send(b"", (b"delay-op", b"cancel"), (b"delay-ref", b"orders.0.7.1"))
    pass_time(bench)
    assert last_word(bench) == (1, 0)


def test_a_paused_shard_goes_on_reporting_what_waits(bench: Bench) -> None:
    bench.send(b"a", NEAR)
    bench.send_raw(encode_control("pause"))
    bench.turn()
    due_ms = bench.clock.now_ms() + 10
    pass_time(bench)
    assert (last_word(bench), marks(bench)[-1].low) == ((2, 1), due_ms)
    bench.send_raw(encode_control("resume"))
    pass_time(bench)
    assert last_word(bench) == (3, 0)


def test_a_shard_that_is_never_idle_reports_all_the_same(bench: Bench) -> None:
    for _ in range(100):  # a delivery every 500 ms leaves no room for a checkpoint
        bench.send(b"a", (b"delay-ms", b"500"))
        bench.turn(2)
        bench.clock.advance(500)
        bench.turn(2)
    first, second = (mark.at for mark in marks(bench))
    assert second - first == 30_000


def test_a_clean_stop_has_the_last_word_before_its_time(bench: Bench) -> None:
    bench.clock.advance(1000)
    bench.turn()
    bench.send(b"a", NEAR)
    bench.clock.advance(10)
    bench.turn()
    assert last_word(bench) == (0, 0)
    bench.worker.stop()
    bench.worker.run()
    assert last_word(bench) == (1, 0)


def test_a_new_owner_commits_where_the_shard_is(bench: Bench) -> None:
    bench.send(b"a", FAR)
    pass_time(bench)
    bench.worker.stop()
    bench.worker.run()
    count = len(marks(bench))
    bench.start("w2")
    bench.turn()
    assert len(marks(bench)) == count + 1
    assert (marks(bench)[-1].epoch, last_word(bench)) == (2, (1, 1))


@pytest.mark.parametrize(("now_ms", "is_time"), [(1099, False), (1100, True), (1000, False), (999, True)])
def test_it_is_time_again_after_the_interval_or_when_the_clock_was_set_back(now_ms: int, is_time: bool) -> None:
    low_water = LowWater(100)
    low_water.committed(CURSOR, 0, 1000)
    assert low_water.is_time(now_ms) == is_time


def test_nothing_new_is_no_news_unless_something_waits() -> None:
    low_water = LowWater(100)
    low_water.committed(CURSOR, 0, 1000)
    assert (low_water.is_news(CURSOR, 0), low_water.is_news(CURSOR, 1)) == (False, True)
