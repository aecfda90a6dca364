"""What a batch takes because it is due: in which order, and what holds it back."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delay_service.core.batch_draft import BatchDrafter
from delay_service.core.due import EXPIRED_MAX, Due, DueRecords, Limits, take_due
from delay_service.core.late import LateRecords
from delay_service.core.operations import NOTHING, Decided
from delay_service.core.shard_settings import NEVER_MS
from delayline.buffer.record import Message, encode_value, read
from delayline.names import Names
from delayline.records.message import BEFORE_ALL, Key, Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import Rules
from store.index import Entry, ShardIndex
from store.memory import MemoryIndex

SHARD = Shard("orders", "0")
NOW_MS = 1000
AT_ANY_TIME = -1
PAUSE = Decided(undecided=50)
"""An operation waits behind the records below offset 50."""


class Scene:
    def __init__(self) -> None:
        self.index = MemoryIndex().shard(SHARD)
        self.late = LateRecords()
        self.due = DueRecords(self.index, self.late, BatchDrafter(SHARD, Names("delayline"), "delivery"))

    def pending(self, *keys: tuple[int, int], header: tuple[bytes, bytes] | None = None) -> None:
        for due_ms, offset in keys:
            headers = [(b"delay-ms", b"1"), *([header] if header else [])]
            meaning = read(encode_body(None, b"m", headers), 1, Rules())
            assert isinstance(meaning, Message)
            self.index.put([(due_ms, offset, meaning.value)], None)

    def select(
        self,
        decided: Decided = NOTHING,
        delivered_key: Key = BEFORE_ALL,
        *,
        paused: bool = False,
        records_max: int = 10,
        bytes_max: int = 1 << 20,
        expired_before_ms: int = AT_ANY_TIME,
    ) -> Due:
        limits = Limits(NOW_MS, expired_before_ms, records_max, bytes_max)
        return self.due.select(limits, decided, delivered_key, paused=paused)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def keys(entries: Sequence[tuple[int, int, bytes]]) -> list[tuple[int, int]]:
    return [entry[:2] for entry in entries]


def test_what_is_due_comes_in_the_order_of_keys_and_the_rest_waits(scene: Scene) -> None:
    scene.pending((NOW_MS, 1), (900, 3), (900, 2), (NOW_MS + 1, 4))
    assert keys(scene.select().entries) == [(900, 2), (900, 3), (NOW_MS, 1)]


def test_expired_records_come_by_themselves_and_are_not_bounded_by_the_rate(scene: Scene) -> None:
    scene.pending((100, 1), (200, 2), (900, 3))
    assert keys(scene.select(expired_before_ms=500, records_max=0).entries) == [(100, 1), (200, 2)]


def test_what_does_not_fit_is_cut(scene: Scene) -> None:
    scene.pending((900, 1), (900, 2))
    whole, cut = scene.select(), scene.select(bytes_max=300)
    assert (whole.cut, cut.cut, cut.starved) == (False, True, False)
    assert keys(cut.entries) == [(900, 1)]


def test_a_batch_full_of_decisions_is_starved(scene: Scene) -> None:
    scene.pending((900, 1))
    due = scene.select(Decided(bytes=100, count=1), bytes_max=0)
    assert (due.entries, due.cut, due.starved) == ([], True, True)


@pytest.mark.parametrize("held", ["paused", "purge"])
def test_a_paused_shard_and_one_that_is_purged_deliver_nothing(scene: Scene, held: str) -> None:
    scene.pending((900, 1))
    decided = Decided(purged_to=Key(0, 0)) if held == "purge" else NOTHING
    assert scene.select(decided, paused=held == "paused").entries == []


def test_what_an_operation_ends_is_not_delivered(scene: Scene) -> None:
    scene.pending((900, 1), (900, 2))
    assert keys(scene.select(Decided(ended={Key(900, 1)})).entries) == [(900, 2)]


def test_late_records_before_an_operation_come_first_and_alone(scene: Scene) -> None:
    scene.pending((500, 10), (900, 1))
    scene.late.read([(500, 10, b"")], Key(800, 0))
    assert keys(scene.select(PAUSE, Key(800, 0)).entries) == [(500, 10)]


def test_a_conditional_message_that_is_not_decided_waits_and_is_late_where_others_pass_it(scene: Scene) -> None:
    scene.pending((800, 60), header=(b"delay-id", b"mine"))
    scene.pending((900, 1))
    assert keys(scene.select(PAUSE).entries) == [(900, 1)]
    assert scene.late.lowest() == 60


def test_late_records_of_a_paused_shard_go_on_behind_the_operations(scene: Scene) -> None:
    scene.pending((500, 10), (900, 1))
    scene.late.read([(500, 10, b"")], Key(800, 0))
    due = scene.select(PAUSE, Key(800, 0), paused=True)
    assert due.entries == []
    assert [target.key for target in due.carried_on] == [Key(500, 10)]
    assert due.bytes_left < 1 << 20


# --- take_due

DUE_TIMES_MS = st.lists(st.integers(0, 2 * NOW_MS), max_size=20)


def index_of(due_times_ms: list[int]) -> ShardIndex:
    index = MemoryIndex().shard(SHARD)
    index.reset()
    index.put([Entry(due_ms, offset, encode_value(None, b"x")) for offset, due_ms in enumerate(due_times_ms)], None)
    return index


def keys_of(index: ShardIndex, expired_before_ms: int, records_max: int) -> list[Key]:
    taken = take_due(index, NOW_MS, expired_before_ms, records_max, 1 << 20)
    return [Key(due_ms, offset) for due_ms, offset, _ in taken]


@given(DUE_TIMES_MS, st.integers(-1, 2 * NOW_MS), st.integers(0, 20))
def test_what_has_expired_is_taken_alone_and_else_what_is_due_by_key(
    due_times_ms: list[int], expired_before_ms: int, records_max: int
) -> None:
    everything = sorted(Key(due_ms, offset) for offset, due_ms in enumerate(due_times_ms))
    expired = [key for key in everything if key.due_ms < expired_before_ms]
    due = [key for key in everything if key.due_ms <= NOW_MS]
    assert keys_of(index_of(due_times_ms), expired_before_ms, records_max) == (expired or due[:records_max])


def test_a_topic_whose_rate_is_used_up_still_expires_messages() -> None:
    assert keys_of(index_of([1, 999]), expired_before_ms=500, records_max=0) == [Key(1, 0)]


def test_one_commit_expires_a_bounded_number() -> None:
    assert len(keys_of(index_of([1] * (EXPIRED_MAX + 1)), expired_before_ms=500, records_max=1)) == EXPIRED_MAX


def test_without_late_max_nothing_expires() -> None:
    assert keys_of(index_of([0]), expired_before_ms=NOW_MS - NEVER_MS, records_max=1) == [Key(0, 0)]
