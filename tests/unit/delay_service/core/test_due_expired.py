"""What is taken when something is due, and what has expired."""

from hypothesis import given
from hypothesis import strategies as st

from delay_service.core.due import EXPIRED_MAX, take_due
from delay_service.core.shard_settings import NEVER_MS
from delayline.buffer.record import encode_value
from delayline.records.message import Key, Shard
from store.index import Entry, ShardIndex
from store.memory import MemoryIndex

NOW_MS, MANY = 1000, 1 << 20
DUE_TIMES_MS = st.lists(st.integers(0, 2 * NOW_MS), max_size=20)


def index_of(due_times_ms: list[int]) -> ShardIndex:
    index = MemoryIndex().shard(Shard("orders", "0"))
    index.reset()
    index.put([Entry(due_ms, offset, encode_value(None, b"x")) for offset, due_ms in enumerate(due_times_ms)], None)
    return index


def keys_of(index: ShardIndex, too_late_ms: int, records_max: int) -> list[Key]:
    return [Key(due_ms, offset) for due_ms, offset, _ in take_due(index, NOW_MS, too_late_ms, records_max, MANY)]


@given(DUE_TIMES_MS, st.integers(-1, 2 * NOW_MS), st.integers(0, 20))
def test_what_has_expired_is_taken_alone_and_else_what_is_due_by_key(
    due_times_ms: list[int], too_late_ms: int, records_max: int
) -> None:
    everything = sorted(Key(due_ms, offset) for offset, due_ms in enumerate(due_times_ms))
    expired = [key for key in everything if key.due_ms < too_late_ms]
    due = [key for key in everything if key.due_ms <= NOW_MS]
    assert keys_of(index_of(due_times_ms), too_late_ms, records_max) == (expired or due[:records_max])


def test_a_topic_whose_rate_is_used_up_still_expires_messages() -> None:
    assert keys_of(index_of([1, 999]), too_late_ms=500, records_max=0) == [Key(1, 0)]


def test_one_commit_expires_a_bounded_number() -> None:
    assert len(keys_of(index_of([1] * (EXPIRED_MAX + 1)), too_late_ms=500, records_max=1)) == EXPIRED_MAX


def test_without_late_max_nothing_expires() -> None:
    assert keys_of(index_of([0]), too_late_ms=NOW_MS - NEVER_MS, records_max=1) == [Key(0, 0)]
