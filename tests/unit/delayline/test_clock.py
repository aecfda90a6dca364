"""Clocks."""

from delayline.clock import ManualClock, SystemClock


def test_a_manual_clock_moves_only_when_it_is_advanced() -> None:
    clock = ManualClock(1000)
    assert (clock.now_ms(), clock.now_ms(), clock.monotonic_s()) == (1000, 1000, 0.0)


def test_a_manual_clocks_times_move_together() -> None:
    clock = ManualClock(1000)
    clock.advance(1500)
    assert (clock.now_ms(), clock.monotonic_s()) == (2500, 1.5)


def test_the_system_clock_counts_milliseconds_since_1970() -> None:
    assert 1_700_000_000_000 < SystemClock().now_ms() < 10_000_000_000_000


def test_monotonic_time_never_goes_back() -> None:
    clock = SystemClock()
    first = clock.monotonic_s()
    assert clock.monotonic_s() >= first
