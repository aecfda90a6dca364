"""The cursor's meaning and its encoding."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.buffer.cursor import CURSOR_BYTES_MAX, SKIPPED_MAX, Cursor, newest
from delayline.errors import UnknownFormat
from delayline.records.message import BEFORE_ALL, Key
from delayline.schedule.rules import ALIASES, HORIZON_MAX_MS, RULES_BYTES_MAX, Rules
from tests.unit.delayline.schedule.test_rules import RULES

OFFSETS = st.integers(0, (1 << 63) - 1)
CURSORS = st.builds(
    Cursor,
    topic_id=st.binary(min_size=16, max_size=16),
    next_offset=OFFSETS,
    delivered_key=st.just(BEFORE_ALL) | st.builds(Key, OFFSETS, OFFSETS),
    low_offset=OFFSETS,
    owner_epoch=st.integers(0, (1 << 32) - 1),
    writer=st.text(st.characters(codec="ascii"), max_size=255),
    rules=RULES,
    skipped=st.lists(st.tuples(OFFSETS, OFFSETS), max_size=SKIPPED_MAX).map(tuple),
)


@given(CURSORS)
def test_a_cursor_reads_back_as_itself(cursor: Cursor) -> None:
    assert Cursor.decode(cursor.encode()) == cursor


@given(CURSORS, st.integers(0, 400))
def test_a_cursor_that_is_cut_short_is_an_unknown_format(cursor: Cursor, cut: int) -> None:
    encoded = cursor.encode()
    with pytest.raises(UnknownFormat):
        Cursor.decode(encoded[: min(cut, len(encoded) - 1)])


@given(st.binary(max_size=80) | st.binary(min_size=56, max_size=90).map(lambda rest: b"\x01" + rest))
def test_any_bytes_are_a_cursor_or_an_unknown_format(data: bytes) -> None:
    with suppress(UnknownFormat):
        Cursor.decode(data)


def test_a_cursor_of_another_version_is_never_guessed() -> None:
    with pytest.raises(UnknownFormat, match="cursor format 4"):
        Cursor.decode(b"\x04" + Cursor(topic_id=bytes(16)).encode()[1:])


def test_a_cursor_of_the_first_version_knew_no_pause() -> None:
    cursor = Cursor(topic_id=bytes(range(16)), next_offset=5, writer="w")
    encoded = cursor.encode()
    assert Cursor.decode(b"\x01" + encoded[1:53] + encoded[54:]) == cursor
    assert Cursor.decode(replace(cursor, paused=True).encode()).paused


def test_a_cursor_with_nothing_skipped_can_be_read_by_an_older_program() -> None:
    cursor = Cursor(topic_id=bytes(16))
    assert (cursor.encode()[0], replace(cursor, skipped=((1, 2),)).encode()[0]) == (2, 3)


def test_of_two_cursors_the_one_with_more_skipped_was_committed_later() -> None:
    cursor = Cursor(topic_id=bytes(16))
    later = replace(cursor, skipped=((5, 6),))
    last = replace(cursor, skipped=((5, 6), (1, 2)))
    assert newest(cursor, last, later) == newest(last, later, cursor) == last


def test_a_writer_that_is_not_text_is_an_unknown_format() -> None:
    encoded = Cursor(topic_id=bytes(16), writer="w").encode()
    with pytest.raises(UnknownFormat):
        Cursor.decode(encoded[:57] + b"\xff" + encoded[58:])


def test_the_largest_cursor_keeps_its_bound() -> None:
    rules = Rules(
        levels_ms=(10**6,) * 56,
        aliases=ALIASES,
        number=1 << 30,
        default_delay_ms=HORIZON_MAX_MS,
        retry_attempts_max=1000,
    )
    assert len(rules.encoded) <= RULES_BYTES_MAX
    skipped = ((1, 2),) * SKIPPED_MAX
    assert (
        len(Cursor(topic_id=bytes(16), writer="w" * 255, rules=rules, skipped=skipped).encode()) + 2
        < CURSOR_BYTES_MAX
    )


@pytest.mark.parametrize(
    ("key", "is_covered"),
    [
        (Key(100, 9), True),
        (Key(100, 5), True),
        (Key(99, 9), True),
        (Key(100, 10), False),  # behind D
        (Key(101, 1), False),  # due later than D
        (Key(50, 20), False),  # at O: a late arrival, terminal by name alone
        (Key(50, 19), True),
    ],
)
def test_a_record_is_terminal_below_o_and_up_to_d(key: Key, is_covered: bool) -> None:
    cursor = Cursor(topic_id=bytes(16), next_offset=20, delivered_key=Key(100, 9))
    assert cursor.covers(key) is is_covered


def test_a_new_cursor_covers_nothing() -> None:
    assert not Cursor(topic_id=bytes(16), next_offset=5).covers(Key(0, 0))


def test_of_several_cursors_the_last_committed_counts() -> None:
    first = Cursor(topic_id=b"t" * 16, owner_epoch=2, delivered_key=Key(7, 1), next_offset=9, low_offset=3)
    later = (
        replace(first, low_offset=4),
        replace(first, next_offset=10, low_offset=0),
        replace(first, delivered_key=Key(7, 2), next_offset=0),
        replace(first, owner_epoch=3, delivered_key=BEFORE_ALL, next_offset=0),
    )
    for number, cursor in enumerate(later):
        assert newest(first, cursor) is newest(cursor, first) is cursor
        assert newest(*later[: number + 1], None) is cursor
    paused = replace(first, paused=True)
    assert (newest(first, paused), newest(paused, first)) == (first, paused)
    assert newest(None, None) is None
