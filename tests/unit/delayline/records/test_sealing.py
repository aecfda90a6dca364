"""Plain messages sealed by column, against the ways of one."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delayline.buffer.outcome import moments
from delayline.buffer.record import encode_value
from delayline.records.message import Header, Shard
from delayline.records.record import encode_body, pack, seal, split_directives
from delayline.records.sealing import Sealer, accepted_column
from tests.unit.delayline.bodies import BYTES, HEADERS

USUAL = st.integers(10**12, 10**13 - 1)
MOMENTS = st.one_of(USUAL, st.integers(0, 1 << 62))
Message = tuple[int, int, int, bytes | None, list[Header]]
MESSAGES = st.lists(st.tuples(st.integers(0, 1 << 62), MOMENTS, MOMENTS, BYTES, HEADERS), min_size=1, max_size=6)
LOOKALIKE = b"$delayline-accepted\x1a"


def packed(message: Message) -> bytes:
    _, _, accepted_at_ms, value, headers = message
    return pack(split_directives(encode_body(None, value, headers), set()), accepted_at_ms)


@given(MESSAGES, st.sampled_from([Shard("orders", "3"), Shard("ö" * 40, "broker-a:0")]))
def test_a_batch_is_sealed_as_its_messages_would_be_one_by_one(messages: list[Message], shard: Shard) -> None:
    offsets, dues_ms, *_ = zip(*messages, strict=True)
    bodies, places = Sealer(shard).seal(offsets, dues_ms, [encode_value(None, packed(one)) for one in messages])
    ids = [f"{shard.topic}.{shard.partition}.{offset}.{due_ms}" for offset, due_ms, *_ in messages]
    expected = zip(messages, ids, dues_ms, strict=True)
    assert bodies == [seal(packed(message), name.encode(), due_ms) for message, name, due_ms in expected]
    assert [f"{shard.topic}.{shard.partition}.{place.decode()}" for place in places] == ids


@given(st.lists(st.tuples(MOMENTS, st.one_of(BYTES, st.just(LOOKALIKE)), HEADERS), min_size=1, max_size=6))
@example([(1_767_225_600_000, b"", []), (5, LOOKALIKE, [(b"n", LOOKALIKE)])])
def test_the_column_of_acceptances_holds_each_moment(found: list[tuple[int, bytes, list[Header]]]) -> None:
    values = [encode_value(None, packed((0, 0, moment, value, headers))) for moment, value, headers in found]
    assert moments(accepted_column(values)) == [moment for moment, _, _ in found]


@pytest.mark.parametrize("moment", [0, 9, 10**12 - 1, 10**13, (1 << 62)])
def test_one_unusual_moment_among_usual_ones_is_read_as_itself(moment: int) -> None:
    wanted = [10**12, moment, 10**13 - 1, moment]
    values = [encode_value(None, packed((0, 0, each, LOOKALIKE * 2, [(LOOKALIKE, LOOKALIKE)]))) for each in wanted]
    assert moments(accepted_column(values)) == wanted
