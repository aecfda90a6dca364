"""Cron expressions and time zones."""

import pytest

from delayline.errors import MalformedDirective
from delayline.recurrence import check_cron, check_time_zone


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *", "0 9 * * 1-5", "*/5 0-23/2 1,15 JAN-mar MON", "30 0 9 * * 0", "0 9 * * 7", "0 9 1 * 1",
        "0 0 29 2 *", "5/10 * * * *",
    ],
)  # fmt: skip
def test_five_fields_or_six_with_seconds_first_are_a_cron_expression(text: str) -> None:
    check_cron(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "* * * *", "* * * * * * *", "@daily",
        "0 0 L * *", "0 0 15W * *", "0 0 * * 5L", "0 0 * * 1#2", "0 0 ? * *", "60 * * * *",
        "0 24 * * *", "0 0 0 * *", "0 0 * 13 *", "0 0 * * 8", "0 0 * * MOO", "*/0 * * * *",
        "5-1 * * * *", " * * * * *", "* * * * * ", "*\t* * * *", "0 0 31 4 *", "0 0 30 2 *", "0,,1 * * * *",
        ",".join(["0"] * 300) + " * * * *",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(MalformedDirective):
        check_cron(text)


@pytest.mark.parametrize("text", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Asia/Calcutta"])
def test_a_zone_of_the_iana_database_is_a_time_zone(text: str) -> None:
    check_time_zone(text)


@pytest.mark.parametrize("text", ["", "Europe", "europe/berlin", "+02:00", "../etc/passwd", "Mars/Olympus"])
def test_anything_else_is_no_time_zone(text: str) -> None:
    with pytest.raises(MalformedDirective):
        check_time_zone(text)
