"""Shards, keys and message ids."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.errors import MalformedMessageId
from delayline.records.message import BEFORE_ALL, MESSAGE_ID_BYTES_MAX, Key, MessageId, Shard

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,60}", fullmatch=True)
SHARD_NAMES = st.one_of(
    st.integers(0, 9999).map(str), st.from_regex(r"[a-zA-Z0-9_-]{1,20}:[0-9]{1,3}", fullmatch=True)
)
NUMBERS = st.integers(0, (1 << 63) - 1)
IDS = st.builds(MessageId, st.builds(Shard, TOPICS, SHARD_NAMES), NUMBERS, NUMBERS, st.none() | st.integers(0, 10**9))


@given(IDS)
def test_an_id_reads_back_as_itself(message_id: MessageId) -> None:
    assert MessageId.parse(str(message_id)) == message_id


def test_an_id_is_read_from_the_right_because_topics_hold_dots() -> None:
    parsed = MessageId.parse("eu.orders.v2.3.1041.1767225630000~12")
    assert parsed == MessageId(Shard("eu.orders.v2", "3"), 1041, 1_767_225_630_000, 12)


@given(st.one_of(st.text(max_size=40), st.from_regex(r"[a-z.~0-9]{0,30}", fullmatch=True)))
def test_any_text_is_an_id_with_one_spelling_or_malformed(text: str) -> None:
    with suppress(MalformedMessageId):
        assert str(MessageId.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "orders", "orders.0.1", ".0.1.5", "orders..1.5", "orders.0.01.5", "orders.0.-1.5", "orders.0.1.5~",
        "orders.0.1.5~01", "orders.0.1.5~-1", "orders.0.1.5\n", "orders.0.1.٥", "orders.0.1.5~1~2",
        "orders.0.1." + "9" * 20, "o" * MESSAGE_ID_BYTES_MAX + ".0.1.5", "\ud800" * 600,
    ],
)  # fmt: skip
def test_anything_but_an_id_is_malformed(text: str) -> None:
    with pytest.raises(MalformedMessageId):
        MessageId.parse(text)


@given(NUMBERS, NUMBERS)
def test_before_all_is_smaller_than_any_key(due_ms: int, offset: int) -> None:
    assert Key(due_ms, offset) > BEFORE_ALL


def test_keys_are_ordered_by_due_time_then_offset() -> None:
    assert sorted([Key(2, 1), Key(1, 9), Key(1, 2)]) == [Key(1, 2), Key(1, 9), Key(2, 1)]
