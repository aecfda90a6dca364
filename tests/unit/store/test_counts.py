"""Counts by due minute, sparse days and dense ones, against a dict."""

import random
from collections import Counter

import pytest

from store import counts
from store.counts import MinuteCounts, SegmentCounts
from store.index import Buckets
from tests.unit.store.conftest import T0

DAY_MS, MINUTE_MS = 86_400_000, 60_000
FIRST = T0 // MINUTE_MS


def check(minutes: MinuteCounts, present: Counter[int], dice: random.Random) -> None:
    for width in (1, 7, 60, 1440, 5000):
        buckets = Buckets(FIRST + dice.randrange(-3000, 3000), width, dice.randrange(1, 40))
        expected = [0] * (buckets.number + 2)
        for minute, count in present.items():
            expected[buckets.slot(minute)] += count
        assert minutes.histogram(buckets) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_histogram_is_exact_whatever_days_are_full_of(seed: int) -> None:
    dice = random.Random(seed)
    minutes, present, added = MinuteCounts(), Counter[int](), list[int]()
    for _ in range(30):
        span_ms = dice.choice([MINUTE_MS, DAY_MS // 2, 3 * DAY_MS])
        batch = [T0 + dice.randrange(span_ms) for _ in range(dice.randrange(300))]
        minutes.add(batch)
        added += batch
        present.update(due_ms // MINUTE_MS for due_ms in batch)
        if dice.random() < 0.5:
            added.sort(key=lambda _: dice.random())
            gone = [added.pop() for _ in range(dice.randrange(len(added) + 1))]
            minutes.subtract(gone)
            present.subtract(due_ms // MINUTE_MS for due_ms in gone)
        check(minutes, present, dice)
    minutes.subtract(added)
    assert (minutes.sparse, minutes.dense, minutes.totals) == ({}, {}, {})


def test_a_day_is_dense_once_a_quarter_of_its_minutes_has_something() -> None:
    minutes = MinuteCounts()
    minutes.add([T0 + MINUTE_MS * n for n in range(counts.SPARSE_MAX)])
    assert not minutes.dense
    minutes.add([T0 + MINUTE_MS * counts.SPARSE_MAX])
    assert not minutes.sparse
    assert list(minutes.dense) == [T0 // DAY_MS]


@pytest.mark.parametrize("full", [False, True])
def test_what_was_never_counted_cannot_be_subtracted(full: bool) -> None:
    minutes = MinuteCounts()
    minutes.add([T0 + MINUTE_MS * n for n in range(1000 if full else 3)])
    with pytest.raises(AssertionError):
        minutes.subtract([T0, T0])


def test_segments_of_one_batch_and_of_many_are_counted_alike() -> None:
    segments = SegmentCounts()
    segments.add([5, 3, 4095])
    segments.add([4095, 4096, 9000, 1])
    assert segments.low_offset() == 0
    segments.subtract([3, 1, 5, 4095])
    segments.subtract([4095, 9000])
    assert segments.low_offset() == 4096
    segments.subtract([4096])
    assert segments.low_offset() is None
