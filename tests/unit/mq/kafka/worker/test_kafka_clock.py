"""What a machine can know of its brokers' clocks."""

import logging

import pytest

from mq.clock_offset import ClockOffset

pytest.importorskip("confluent_kafka")

from mq.broker_clock import WINDOW_S, BrokerClock
from mq.kafka.librdkafka.log_throttle import EVERY_S, Limit


class Clocks:
    """A machine's clock and a broker's that is so far behind it."""

    def __init__(self, behind_ms: int) -> None:
        self.now_s = 1000.0
        self.behind_ms = behind_ms
        self.brokers = BrokerClock(self)

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def broker_ms(self) -> int:
        return self.now_ms() - self.behind_ms

    def measure(self, leader: int = 1, way_s: float = 0.01) -> None:
        """A record goes to the broker and back, `way_s` each."""
        sent_s = self.now_s
        self.now_s += way_s
        stamped_ms = self.broker_ms()
        self.now_s += way_s
        self.brokers.measured(leader, stamped_ms, sent_s)

    def offset(self, leader: int = 1) -> ClockOffset:
        found = self.brokers.offset(leader)
        assert found is not None
        return found


@pytest.mark.parametrize("behind_ms", [-3_600_000, -7000, 0, 7000, 3_600_000])
def test_a_measurement_encloses_the_truth_within_the_time_it_took(behind_ms: int) -> None:
    clocks = Clocks(behind_ms)
    clocks.measure(way_s=0.05)
    found = clocks.offset()
    assert found.least_ms <= behind_ms <= found.most_ms
    assert found.most_ms - found.least_ms <= 102


def test_a_slow_measurement_does_not_spoil_a_good_one() -> None:
    clocks = Clocks(300)
    clocks.measure(way_s=0.001)
    clocks.measure(way_s=5.0)
    assert abs(clocks.offset().middle_ms - 300) < 3


def test_an_old_record_read_now_is_no_measurement() -> None:
    """Else a worker that reads an hour's backlog would believe that its clock is an hour ahead."""
    clocks = Clocks(0)
    clocks.brokers.heard(1, clocks.broker_ms() - 3_600_000)
    nothing = clocks.brokers.offset(1)
    clocks.measure()
    clocks.brokers.heard(1, clocks.broker_ms() - 3_600_000)
    assert nothing is None
    assert not clocks.offset().beyond(100)
    assert clocks.now_ms() - clocks.brokers.now_ms(1) < 100


def test_an_old_record_of_an_unmeasured_leader_does_not_hold_time_back_where_others_are_measured() -> None:
    clocks = Clocks(0)
    clocks.brokers.heard(2, clocks.broker_ms() - 3_600_000)
    clocks.measure(1)
    assert clocks.now_ms() - clocks.brokers.now_ms(2) < 100


def test_an_unmeasured_leader_is_taken_to_differ_like_the_worst_of_the_others() -> None:
    clocks = Clocks(0)
    clocks.measure(1)
    clocks.behind_ms = 9000
    clocks.measure(2)
    assert abs(clocks.offset(3).middle_ms - 9000) < 100


@pytest.mark.parametrize("jump_ms", [-10_000, 10_000])
def test_a_brokers_clock_that_is_set_is_followed_with_the_next_measurement(jump_ms: int) -> None:
    clocks = Clocks(0)
    clocks.measure()
    clocks.behind_ms = jump_ms
    clocks.measure()
    assert abs(clocks.offset().middle_ms - jump_ms) < 100


def test_a_clock_that_drifts_is_followed() -> None:
    clocks = Clocks(0)
    for _ in range(20):
        clocks.measure()
        clocks.now_s += WINDOW_S / 5
        clocks.behind_ms += 3
    clocks.measure()
    assert abs(clocks.offset().middle_ms - 60) < 45


@pytest.mark.parametrize(
    ("least_ms", "most_ms", "beyond"),
    [(4990, 5010, False), (5001, 9000, True), (-5010, -4990, False), (-9000, -5001, True), (-9000, 9000, False)],
)
def test_clocks_differ_too_much_only_where_that_is_beyond_doubt(least_ms: int, most_ms: int, beyond: bool) -> None:
    assert ClockOffset("1", least_ms, most_ms).beyond(5000) is beyond


def line(text: str, at_s: float) -> logging.LogRecord:
    record = logging.LogRecord("librdkafka", logging.ERROR, "", 0, text, (), None)
    record.created = at_s
    return record


def test_of_the_librarys_lines_one_of_a_kind_comes_through_and_counts_those_that_did_not() -> None:
    limit = Limit()
    lines = [line(f"FAIL [thing {n}] refused", 100.0 + n) for n in range(4)]
    other = line("REQTMOUT [thing] timed out", 101.0)
    later = line("FAIL [thing 9] refused", 100.0 + EVERY_S)
    through = [limit.filter(found) for found in (*lines, other, later)]
    assert through == [True, False, False, False, True, True]
    assert later.getMessage() == "FAIL [thing 9] refused (and 3 more like it)"


@pytest.mark.parametrize(("level", "through"), [(logging.DEBUG, True), (logging.INFO, False)])
def test_what_is_raised_as_well_is_for_debugging(caplog: pytest.LogCaptureFixture, level: int, through: bool) -> None:
    found = line(
        "TXNERR [thrd:main] Current transaction failed: Broker: Specified group generation id is not valid", 1
    )
    with caplog.at_level(level, found.name):
        assert Limit().filter(found) == through
    assert found.levelno == logging.DEBUG
