"""What waits in memory only: buckets whose entries mostly leave from the front."""

import random

import pytest

from delayline.records.message import Key
from store.memory_tier import BUCKET_MS, RECORD_BYTES, MemoryTier
from tests.unit.store.conftest import T0, key_of

Plain = tuple[int, int, bytes]


def filled(number: int, span_ms: int, seed: int = 1) -> tuple[MemoryTier, list[Plain]]:
    dice = random.Random(seed)
    near, entries = (
        MemoryTier(),
        [(T0 + dice.randrange(span_ms), offset, b"v%d" % offset) for offset in range(number)],
    )
    for at in range(0, number, 100):
        near.put(sorted(entries[at : at + 100]), [])
    return near, sorted(entries)


@pytest.mark.parametrize("span_ms", [1, BUCKET_MS, 20 * BUCKET_MS])
@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_everything_is_taken_once_and_in_order(span_ms: int, at_once: int) -> None:
    near, entries = filled(1000, span_ms)
    taken: list[Plain] = []
    while found := near.take(T0 + span_ms, at_once):
        assert near.remove([key_of(entry) for entry in found]) == []
        taken += found
    assert taken == entries
    assert (len(near), near.bytes, near.segments.low_offset(), near.next_due_ms()) == (0, 0, None, None)


@pytest.mark.parametrize("seed", range(30))
def test_what_leaves_from_anywhere_is_gone_and_nothing_else(seed: int) -> None:
    dice = random.Random(seed)
    near, entries = filled(200, dice.choice([1, BUCKET_MS, 3 * BUCKET_MS]), seed)
    offset = len(entries)
    while entries:
        known = entries[: dice.choice([5, 50, len(entries)])]
        chosen = sorted(dice.sample(known, dice.randrange(1, min(len(known), 40) + 1)))
        absent = [(due_ms, other + 10_000) for due_ms, other, _ in chosen if dice.random() < 0.3]
        assert near.remove(sorted([key_of(entry) for entry in chosen] + absent)) == sorted(absent)
        entries = [entry for entry in entries if entry not in chosen]
        if offset < 400:
            more = sorted((T0 + dice.randrange(300), offset + n, b"more") for n in range(5))
            near.put(more, [])
            entries, offset = sorted(entries + more), offset + len(more)
        assert near.next_due_ms() == (entries[0][0] if entries else None)
        assert near.take(T0 + 40, 30) == [entry for entry in entries if entry[0] <= T0 + 40][:30]
        assert near.bytes == sum(len(value) + RECORD_BYTES for _, _, value in entries)
        assert [key_of(entry) for entry in near.scan(Key(T0 + 20, 3), 1000)] == [
            key_of(entry) for entry in entries if key_of(entry) > (T0 + 20, 3)
        ]
        for entry in (*chosen[:3], *entries[:3]):
            assert near.get(key_of(entry)) == (entry[2] if entry in entries else None)


def test_the_lowest_due_time_is_known_before_anything_is_sorted() -> None:
    near = MemoryTier()
    near.put([(T0 + 5, 1, b""), (T0 + 9, 2, b"")], [])
    assert near.take(T0 + 9, 9)
    near.put([(T0 + 3, 3, b"")], [])
    near.put([(T0 + 4, 4, b"")], [])
    assert near.next_due_ms() == T0 + 3
    assert near.remove([Key(T0 + 3, 3), Key(T0 + 5, 1)]) == []
    assert near.next_due_ms() == T0 + 4
