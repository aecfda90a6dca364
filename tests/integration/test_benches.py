"""What the benches over HTTP and of rolling report is what was measured, with a few messages each."""

import time
from pathlib import Path

import msgspec
import pytest

from bench.over_http.ask import at
from bench.over_http.cancelling import MESSAGES, Laps, add_figures
from bench.over_http.flow import Lateness, batch, delivered, flowing
from bench.over_http.server import delayline
from bench.report import Report, disk_bytes
from bench.rolling import curve
from bench.rolling.curve import Sample, growth
from bench.rolling.lap import LONG_MS, Tally, Traffic
from delay_service.core.in_flight import CommitResult
from delayline.buffer.outcome import ROLL, AuditRow, Outcome, PlainRows
from delayline.records.message import Shard
from delayline.records.record import decode_body

ORDERS = Shard("orders", "0")


def test_a_flow_is_delivered_and_none_of_it_early(tmp_path: Path) -> None:
    with delayline(tmp_path) as server:
        with flowing(server, "orders", 500) as flow:
            time.sleep(0.5)
        server.wait_delivered()
    late = [late_ms for _, late_ms in delivered(tmp_path, "orders")]
    assert len(late) == flow.messages > 0
    assert min(late) >= 0


def test_a_batch_of_the_flow_is_due_half_a_second_to_one_and_a_half_later() -> None:
    delays = [message["schedule"]["delay_ms"] for message in msgspec.json.decode(batch(20))["messages"]]
    assert len(delays) == 20
    assert min(delays) == 500
    assert 1400 <= max(delays) < 1500


def test_lateness_is_that_of_messages_due_within_the_windows() -> None:
    found = Lateness([(30, 7), (10, 5), (20, 1), (29, 3)])
    assert found.within([(10, 20), (29, 31)]) == [3, 5, 7]
    assert found.within([(0, 10)]) == []


def test_a_share_of_the_values_is_not_above_the_one_named() -> None:
    assert [at([1, 2, 3, 4, 5], share) for share in (0, 0.5, 0.99, 1)] == [1, 3, 4, 5]


def test_a_cancel_is_judged_by_what_came_late_while_it_ran() -> None:
    report, lateness = Report("B9"), Lateness([(1, 5), (11, 200), (12, 90)])
    add_figures(report, Laps([10.0], cancelling=[(10, 20)], quiet=[(0, 10)]), lateness, MESSAGES)
    values = {figure.name: figure.value for figure in report.figures}
    assert values["cancelled"] == 10_000
    assert values["the other topic, no cancel: late, p99"] == 5
    assert values["the other topic, meanwhile: late, p99"] == 90
    assert report.met


def test_long_messages_are_spread_evenly_among_the_short_ones() -> None:
    batches = list(Traffic("orders", "bench", short=4000, long=6).batches())
    longs = [sum(_delay_ms(append.body) == LONG_MS for append in appends) for appends in batches]
    assert longs == [1, 2, 1, 2]
    assert sum(map(len, batches)) == 4006


def _delay_ms(body: bytes) -> int:
    return int(dict(decode_body(body).headers)[b"delay-ms"] or b"")


def test_what_is_rolled_is_not_counted_as_delivered() -> None:
    tally = Tally()
    rows = [
        AuditRow(0, "a", 5, 1, Outcome.DELIVERED),
        AuditRow(1, "b", 9, 1, Outcome.SUPERSEDED, "2", ROLL),
        AuditRow(2, None, None, 1, Outcome.APPLIED),
    ]
    plain = PlainRows([3, 4], [5, 6], [b"3.5", b"4.6"], b"1,1")
    tally.finished(ORDERS, CommitResult(rows, 10, plain=[plain]))
    assert (tally.delivered, tally.rolled) == (3, 1)


FLAT = [Sample(passed=n, disk_bytes=10_000_000, low_offset=n, next_offset=n + 5, rolled=n) for n in range(8)]
GROWING = [Sample(passed=n, disk_bytes=n * 10_000_000, low_offset=0, next_offset=n, rolled=0) for n in range(8)]


def test_a_buffer_that_grows_is_distinguished_from_one_that_stays_flat() -> None:
    assert growth(FLAT) == 1
    assert growth(GROWING) == pytest.approx(6.5 / 2.5)


def test_rolling_that_does_not_help_misses_its_target() -> None:
    helping, useless = Report("rolling"), Report("rolling")
    curve.add_figures(helping, 100, FLAT, GROWING)
    curve.add_figures(useless, 100, GROWING, GROWING)
    assert helping.met
    assert not useless.met


def test_the_plot_shows_both_curves_where_they_are() -> None:
    report = Report("rolling")
    curve.add_figures(report, 100, FLAT, GROWING)
    *_, top, bottom, _ = [line for line in report.drawings[0].splitlines() if " MB |" in line or "+--" in line]
    assert "x" not in bottom[bottom.index("|") + 6 :]
    assert "o" in top + bottom
    assert report.drawings[0].count("x") >= len(GROWING) - 2


def test_room_on_disk_is_that_of_all_files_below(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(bytes(100_000))
    assert 100_000 <= disk_bytes(tmp_path) < 300_000
