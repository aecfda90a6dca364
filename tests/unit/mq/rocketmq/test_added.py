"""mq.rocketmq.added: ids of messages as RocketMQ's tools read them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mq.rocketmq.added import unique_key


def ms(*moment: int, tz: timezone = UTC) -> int:
    return round(datetime(*moment, tzinfo=tz).timestamp() * 1000)  # type: ignore[arg-type]


def searched_from_ms(key: bytes, now_ms: int, hours: int) -> int:
    """`MessageClientIDSetter.getNearlyTimeFromID`, in a time zone so many hours before UTC."""
    zone = timezone(timedelta(hours=hours))
    since_ms = int.from_bytes(bytes.fromhex(key.decode())[10:14], "big")
    month = datetime.fromtimestamp(now_ms / 1000, zone).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if month.timestamp() * 1000 + since_ms >= now_ms:
        month = (month - timedelta(days=1)).replace(day=1)
    return round(month.timestamp() * 1000) + since_ms


@pytest.mark.parametrize("hours", range(-12, 15))
def test_a_search_by_an_id_begins_before_the_message_and_at_most_26_hours_before(hours: int) -> None:
    for at_ms in (
        ms(2026, 1, 1),
        ms(2026, 1, 1, 13),
        ms(2026, 2, 28, 23),
        ms(2026, 3, 31, 12, 0, 1),
        ms(2026, 7, 15),
    ):
        for later_ms in (1, 3_600_000, 10 * 3_600_000):
            begin_ms = searched_from_ms(unique_key(b"orders.a:0.1.5", at_ms), at_ms + later_ms, hours)
            assert 0 <= at_ms - begin_ms <= 26 * 3_600_000, (at_ms, later_ms)


def test_an_id_has_the_length_of_javas_and_the_address_of_nothing() -> None:
    key = unique_key(b"orders.a:0.1.5", ms(2026, 1, 1))
    assert (len(key), key[:8], key.upper()) == (32, b"00000000", key)


def test_a_moment_long_ago_or_far_away_has_an_id() -> None:
    for at_ms in (0, 5, 99_999_999_999_999):
        assert len(unique_key(b"x", at_ms)) == 32
