"""delay_service.core.read_to: up to where a log has to be read."""

import pytest

from delay_service.core.read_to import ReadTo


def test_while_it_is_held_no_offset_is_far_enough() -> None:
    read_to = ReadTo(7)
    read_to.hold()
    assert read_to.end > 1 << 62


@pytest.mark.parametrize(("end", "expected"), [(3, 7), (7, 7), (9, 9)])
def test_an_end_that_is_found_does_not_take_back_an_earlier_one(end: int, expected: int) -> None:
    read_to = ReadTo(7)
    read_to.hold()
    read_to.hold()
    read_to.until(end)
    assert read_to.end == expected


def test_where_the_log_cannot_be_read_it_is_as_before() -> None:
    read_to = ReadTo(7)
    read_to.hold()
    read_to.until()
    assert read_to.end == 7


def test_what_the_takeover_has_recorded_stays() -> None:
    read_to = ReadTo(7)
    read_to.hold()
    read_to.until(9)
    assert read_to.recorded == 7
