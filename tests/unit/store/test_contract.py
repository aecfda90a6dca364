"""Every sentence of `store.index`, for both indexes."""

from bisect import bisect_right

import pytest

from delayline.errors import Bug
from delayline.records.message import BEFORE_ALL, Key, Shard
from store.counts import SEGMENT_OFFSETS
from store.errors import StoreFull
from store.index import Buckets, Covered, ShardIndex, TimeIndex
from tests.unit.store.conftest import ORDERS, REPEAT, SPEAKS_OF_REPEATS, T0, House, checkpoint, entry, key_of

EVERYTHING = 1 << 30
NOTHING_COVERED = Covered(0, BEFORE_ALL)
DAY_MS = 86_400_000
MINUTES = Buckets(T0 // 60_000, 1, 2)


def keys_due(shard: ShardIndex, until_ms: int = T0 + 10**9) -> list[tuple[int, int]]:
    return [(found[0] - T0, found[1]) for found in shard.due(until_ms, EVERYTHING, EVERYTHING)]


def keys_due_within(shard: ShardIndex, bytes_max: int) -> list[int]:
    return [found[1] for found in shard.due(T0 + 10**9, EVERYTHING, bytes_max)]


def test_a_new_shard_holds_nothing(shard: ShardIndex) -> None:
    assert shard.checkpoint() is None
    assert shard.due(T0, 10, 10) == []
    assert shard.next_due_ms() is None
    assert shard.low_offset() is None
    assert shard.memory_low() is None
    assert (shard.memory_bytes(), shard.pending(), shard.histogram(MINUTES)) == (0, 0, [0, 0, 0, 0])
    assert shard.scan(BEFORE_ALL, 10) == []


def test_due_gives_what_is_due_in_key_order_with_its_values(shard: ShardIndex) -> None:
    shard.put([entry(T0 + 5, 1, b"b"), entry(T0 + 3, 2, b"a"), entry(T0 + 6, 3, b"c")], None)

    assert shard.due(T0 + 5, 10, EVERYTHING) == [entry(T0 + 3, 2, b"a"), entry(T0 + 5, 1, b"b")]


@pytest.mark.parametrize("near_until_ms", [None, T0, T0 + 4, T0 + 100])
def test_due_merges_memory_and_disk_in_key_order(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0 + due, due) for due in (9, 2, 5, 1)], None)
    shard.put([entry(T0 + due, due) for due in (8, 3, 4, 0)], near_until_ms)

    assert keys_due(shard) == [(due, due) for due in (0, 1, 2, 3, 4, 5, 8, 9)]


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_records_of_one_instant_come_in_offset_order(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0, offset) for offset in (300, 1, 70_000, 2)], near_until_ms)

    assert keys_due(shard) == [(0, 1), (0, 2), (0, 300), (0, 70_000)]


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_due_stops_at_its_number_of_records(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0 + n, n) for n in range(10)], near_until_ms)

    assert [found[1] for found in shard.due(T0 + 9, 3, EVERYTHING)] == [0, 1, 2]
    assert shard.due(T0 + 9, 0, EVERYTHING) == []


@pytest.mark.parametrize("near_until_ms", [None, T0 + 4, T0 + 100])
def test_due_stops_before_its_number_of_bytes_is_passed(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0 + n, n, b"x" * 100) for n in range(10)], near_until_ms)

    assert [found[1] for found in shard.due(T0 + 9, 10, 350)] == [0, 1, 2]


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_a_record_larger_than_the_bytes_asked_for_comes_alone(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0, 0, b"x" * 1000), entry(T0 + 1, 1, b"")], near_until_ms)

    assert [found[1] for found in shard.due(T0 + 9, 10, 1)] == [0]


def test_a_large_record_on_disk_is_not_overtaken_by_small_ones_in_memory(shard: ShardIndex) -> None:
    shard.put([entry(T0, 1, b"x" * 60), entry(T0 + 1, 2, b"x" * 60)], None)
    shard.put([entry(T0 + 2, 3, b"")], T0 + 9)

    assert keys_due_within(shard, 100) == [1]


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_due_gives_the_same_again_until_it_is_removed(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0 + n, n) for n in range(4)], near_until_ms)
    first = shard.due(T0 + 1, 10, EVERYTHING)

    again = shard.due(T0 + 1, 10, EVERYTHING)

    assert again == first


@pytest.mark.parametrize("near_until_ms", [None, T0 + 1, T0 + 100])
def test_what_is_removed_does_not_come_again(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0 + n, n) for n in range(4)], near_until_ms)

    shard.remove([key_of(found) for found in shard.due(T0 + 2, 10, EVERYTHING)], checkpoint(4))

    assert keys_due(shard) == [(3, 3)]


def test_records_put_below_what_was_removed_are_found(shard: ShardIndex) -> None:
    shard.put([entry(T0 + n, n) for n in range(10)], None)
    shard.remove([key_of(found) for found in shard.due(T0 + 5, 10, EVERYTHING)], checkpoint())

    shard.put([entry(T0 + 2, 20), entry(T0, 21)], None)

    assert keys_due(shard)[:3] == [(0, 21), (2, 20), (6, 6)]


def test_records_put_between_due_and_remove_survive_the_removal(shard: ShardIndex) -> None:
    shard.put([entry(T0 + n, n) for n in range(10)], None)
    taken = shard.due(T0 + 5, 10, EVERYTHING)
    shard.put([entry(T0 + 2, 20), entry(T0 + 5, 21), entry(T0 - 1, 22)], None)

    shard.remove([key_of(found) for found in taken], checkpoint())

    assert keys_due(shard, T0 + 6) == [(-1, 22), (2, 20), (5, 21), (6, 6)]


def test_a_part_of_what_was_due_may_be_removed(shard: ShardIndex) -> None:
    shard.put([entry(T0 + n, n) for n in range(6)], None)
    taken = shard.due(T0 + 5, 10, EVERYTHING)

    shard.remove([key_of(taken[1]), key_of(taken[3])], checkpoint())

    assert keys_due(shard) == [(0, 0), (2, 2), (4, 4), (5, 5)]


def test_next_due_is_the_lowest_of_memory_and_disk(shard: ShardIndex) -> None:
    shard.put([entry(T0 + 9, 1)], None)
    assert shard.next_due_ms() == T0 + 9
    shard.put([entry(T0 + 7, 2)], T0 + 8)
    assert shard.next_due_ms() == T0 + 7
    shard.put([entry(T0 + 5, 3)], None)
    assert shard.next_due_ms() == T0 + 5


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_next_due_moves_on_when_the_lowest_leaves(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0 + n, n) for n in (1, 2, 3)], near_until_ms)
    shard.remove([key_of(found) for found in shard.due(T0 + 1, 10, EVERYTHING)], checkpoint())
    assert shard.next_due_ms() == T0 + 2

    shard.discard(Key(T0 + 2, 2))

    assert shard.next_due_ms() == T0 + 3


def test_remove_stores_its_checkpoint(shard: ShardIndex) -> None:
    shard.remove([], checkpoint(17))

    assert shard.checkpoint() == checkpoint(17)


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_discard_drops_a_record_and_returns_true(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0 + n, n) for n in range(3)], near_until_ms)

    assert shard.discard(Key(T0 + 1, 1))

    assert keys_due(shard) == [(0, 0), (2, 2)]
    assert shard.pending() == 2


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_discard_of_an_absent_record_returns_false_and_changes_nothing(
    shard: ShardIndex, near_until_ms: int | None
) -> None:
    shard.put([entry(T0, 1)], near_until_ms)

    assert not shard.discard(Key(T0 + 1, 1))

    assert shard.pending() == 1
    assert keys_due(shard) == [(0, 1)]


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_get_finds_pending_records_only(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0, 1, b"here")], near_until_ms)
    assert shard.get(Key(T0, 1)) == b"here"
    assert shard.get(Key(T0, 2)) is None
    assert shard.get(Key(T0 + 1, 1)) is None

    shard.remove([Key(T0, 1)], checkpoint())

    assert shard.get(Key(T0, 1)) is None


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_an_empty_value_is_a_value(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0, 1, b"")], near_until_ms)

    assert shard.get(Key(T0, 1)) == b""


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_a_name_leads_to_its_record(shard: ShardIndex, near_until_ms: int | None) -> None:
    shard.put([entry(T0, 1), entry(T0, 2)], near_until_ms, [(b"first", Key(T0, 1)), (b"alias", Key(T0, 1))])

    assert shard.lookup(b"first") == shard.lookup(b"alias") == Key(T0, 1)
    assert shard.lookup(b"second") is None


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
@pytest.mark.parametrize("way", ["remove", "discard", "remove the second"])
def test_a_name_leaves_with_its_record(shard: ShardIndex, near_until_ms: int | None, way: str) -> None:
    first, second = Key(T0, 1), Key(T0 + 1, 2)
    shard.put([entry(*first), entry(*second)], near_until_ms, [(b"one", first), (b"two", second), (b"also", second)])
    match way:
        case "remove":
            shard.remove([key_of(found) for found in shard.due(T0 + 1, 10, EVERYTHING)], checkpoint())
        case "remove the second":
            shard.remove([second], checkpoint())
        case "discard":
            shard.discard(second)

    assert shard.lookup(b"two") is shard.lookup(b"also") is None
    assert shard.lookup(b"one") == (None if way == "remove" else first)


@pytest.mark.parametrize("old_near", [None, T0 + 100])
@pytest.mark.parametrize("new_near", [None, T0 + 100])
def test_a_name_taken_over_stays_when_its_old_record_leaves(
    shard: ShardIndex, old_near: int | None, new_near: int | None
) -> None:
    old, new = Key(T0, 1), Key(T0 + 1, 2)
    shard.put([entry(*old)], old_near, [(b"name", old)])
    shard.put([entry(*new)], new_near, [(b"name", new)])

    shard.discard(old)

    assert shard.lookup(b"name") == new


def test_named_records_are_read_like_others(shard: ShardIndex) -> None:
    records = [entry(T0 + n, n) for n in range(5)]
    shard.put(records, None, [(b"n%d" % found.offset, found.key) for found in records])

    assert shard.due(T0 + 10, 3, EVERYTHING) == records[:3]
    assert shard.scan(records[1].key, 2) == records[2:4]
    assert shard.next_due_ms() == T0


@pytest.mark.parametrize("near_until_ms", [None, T0 + 2, T0 + 100])
def test_keys_are_those_of_a_scan(shard: ShardIndex, near_until_ms: int | None) -> None:
    records = [entry(T0 + n, 9 - n) for n in range(6)]
    shard.put(records, near_until_ms, [(b"name", records[4].key)])
    assert shard.keys(BEFORE_ALL, 3) == [key_of(found) for found in shard.scan(BEFORE_ALL, 3)]
    assert shard.keys(records[2].key, 10) == [key_of(found) for found in records[3:]]


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_low_offset_is_within_a_segment_below_the_lowest(shard: ShardIndex, near_until_ms: int | None) -> None:
    offsets = [5 * SEGMENT_OFFSETS + 7, 9 * SEGMENT_OFFSETS, 5 * SEGMENT_OFFSETS + 9]
    shard.put([entry(T0 + n, offset) for n, offset in enumerate(offsets)], near_until_ms)
    assert shard.low_offset() == 5 * SEGMENT_OFFSETS

    shard.discard(Key(T0, offsets[0]))
    assert shard.low_offset() == 5 * SEGMENT_OFFSETS
    shard.discard(Key(T0 + 2, offsets[2]))

    assert shard.low_offset() == 9 * SEGMENT_OFFSETS


def test_low_offset_goes_down_when_a_lower_record_comes_back(shard: ShardIndex) -> None:
    shard.put([entry(T0, 0), entry(T0, 2 * SEGMENT_OFFSETS)], None)
    shard.discard(Key(T0, 0))
    assert shard.low_offset() == 2 * SEGMENT_OFFSETS

    shard.put([entry(T0, 1)], None)

    assert shard.low_offset() == 0


def test_memory_low_speaks_of_records_in_memory_only(shard: ShardIndex) -> None:
    shard.put([entry(T0 + 100, 1)], T0)
    assert shard.memory_low() is None

    shard.put([entry(T0, 3 * SEGMENT_OFFSETS + 1)], T0)
    assert shard.memory_low() == 3 * SEGMENT_OFFSETS
    shard.remove([Key(T0, 3 * SEGMENT_OFFSETS + 1)], checkpoint())

    assert shard.memory_low() is None


def test_memory_bytes_covers_the_values_in_memory_and_returns_to_zero(shard: ShardIndex) -> None:
    shard.put([entry(T0 + 100, 1, b"x" * 1000)], T0)
    assert shard.memory_bytes() == 0

    shard.put([entry(T0, 2, b"x" * 1000), entry(T0, 3, b"x" * 1000)], T0)
    assert 2000 < shard.memory_bytes() < 4000
    shard.remove([Key(T0, 2), Key(T0, 3)], checkpoint())

    assert shard.memory_bytes() == 0


def test_the_histogram_counts_records_per_due_minute(shard: ShardIndex) -> None:
    shard.put([entry(T0, 1), entry(T0 + 59_999, 2), entry(T0 + 60_000, 3)], None)
    shard.put([entry(T0 + 1, 4)], T0 + 1)
    assert shard.histogram(MINUTES) == [0, 3, 1, 0]

    shard.remove([Key(T0, 1), Key(T0 + 1, 4)], checkpoint())
    shard.discard(Key(T0 + 60_000, 3))

    assert shard.histogram(MINUTES) == [0, 1, 0, 0]


@pytest.mark.parametrize("buckets", [MINUTES, Buckets(T0 // 60_000 + 1, 7, 3), Buckets(T0 // 60_000 - 5000, 1000, 9)])
@pytest.mark.parametrize("near_until_ms", [None, T0 + DAY_MS])
def test_a_histogram_leaves_out_nothing(shard: ShardIndex, near_until_ms: int | None, buckets: Buckets) -> None:
    dues = [T0 + (n * n * 37 - 5000) * 60_000 + n for n in range(40)]
    shard.put([entry(due_ms, n) for n, due_ms in enumerate(dues)], near_until_ms)
    ends = [buckets.start + buckets.width * n for n in range(buckets.number + 1)]
    slots = [bisect_right(ends, due_ms // 60_000) for due_ms in dues]
    assert shard.histogram(buckets) == [slots.count(slot) for slot in range(buckets.number + 2)]


@pytest.mark.parametrize("count", [0, 1])
def test_a_histogram_of_whole_days_is_right_in_the_midst_of_one(shard: ShardIndex, count: int) -> None:
    day = T0 // DAY_MS * DAY_MS
    shard.put([entry(day - 1, 0), entry(day, 1), entry(day + DAY_MS - 1, 2), entry(day + DAY_MS, 3)], None)
    assert shard.histogram(Buckets(day // 60_000, 1440, count)) == ([1, 3] if count == 0 else [1, 2, 1])
    shard.discard(Key(day + DAY_MS - 1, 2))
    assert shard.histogram(Buckets(day // 60_000 + 1, 1440, count)) == ([2, 1] if count == 0 else [2, 1, 0])


def test_scan_pages_through_memory_and_disk(shard: ShardIndex) -> None:
    shard.put([entry(T0 + n, n) for n in range(0, 10, 2)], None)
    shard.put([entry(T0 + n, n) for n in range(1, 10, 2)], T0 + 10)

    first = shard.scan(BEFORE_ALL, 4)
    second = shard.scan(first[-1].key, 100)

    assert [found[1] for found in first + second] == list(range(10))


@pytest.mark.parametrize("near_until_ms", [None, T0 + 2, T0 + 100])
def test_a_scan_stops_at_its_bytes_and_gives_one_record_at_least(
    shard: ShardIndex, near_until_ms: int | None
) -> None:
    shard.put([entry(T0 + n, n, b"x" * 100) for n in range(6)], near_until_ms)
    assert [found.offset for found in shard.scan(BEFORE_ALL, 9, 300)] == [0, 1, 2]
    assert [found.offset for found in shard.scan(Key(T0, 0), 9, 299)] == [1, 2]
    assert [found.offset for found in shard.scan(BEFORE_ALL, 9, 1)] == [0]


def test_a_scan_above_a_key_goes_on_where_near_records_share_its_time(shard: ShardIndex) -> None:
    shard.put([entry(T0 + 50, n) for n in (3, 1, 2)] + [entry(T0 + 500, 0)], T0 + 1000)
    shard.remove([Key(T0 + 50, 2)], checkpoint())
    assert [found.offset for found in shard.scan(Key(T0 + 50, 1), 9)] == [3, 0]


def test_shards_do_not_see_each_other(index: TimeIndex) -> None:
    one, other = index.shard(ORDERS), index.shard(Shard("orders", "1"))
    one.put([entry(T0, 1)], None, [(b"name", Key(T0, 1))])
    other.put([entry(T0, 2)], None)

    other.reset()

    assert keys_due(one) == [(0, 1)]
    assert (one.pending(), other.pending()) == (1, 0)
    assert other.lookup(b"name") is None


def test_reset_drops_records_names_and_checkpoint(shard: ShardIndex) -> None:
    shard.put([entry(T0 + 50, 1), entry(T0, 2)], T0, [(b"name", Key(T0 + 50, 1))])
    shard.remove([], checkpoint(1))

    shard.reset()

    assert shard.checkpoint() is None
    assert shard.lookup(b"name") is None
    assert (shard.pending(), shard.histogram(MINUTES)) == (0, [0, 0, 0, 0])
    assert (shard.low_offset(), shard.memory_low()) == (None, None)
    assert keys_due(shard) == []


def reopened(house: House, first: TimeIndex) -> ShardIndex:
    first.close()
    return house.open().shard(ORDERS)


def test_a_reopened_index_holds_what_was_on_disk_and_not_what_was_in_memory(house: House) -> None:
    index = house.open()
    shard = index.shard(ORDERS)
    shard.put([entry(T0, 1), entry(T0 + 100, 0)], T0, [(b"near", Key(T0, 1)), (b"far", Key(T0 + 100, 0))])
    shard.remove([], checkpoint(1))
    again = reopened(house, index)
    assert again.checkpoint() == checkpoint(1)

    again.retain(0, 1, NOTHING_COVERED)

    assert keys_due(again) == [(100, 0)]
    assert (again.lookup(b"far"), again.lookup(b"near")) == (Key(T0 + 100, 0), None)
    assert (again.pending(), again.low_offset(), again.memory_low()) == (1, 0, None)
    assert again.histogram(MINUTES) == [0, 1, 0, 0]


def test_retain_drops_below_low_from_resume_on_and_what_is_covered(house: House) -> None:
    index = house.open()
    index.shard(ORDERS).put([entry(T0 + 10 * (offset % 3), offset) for offset in range(12)], None)
    index.shard(ORDERS).remove([], checkpoint(9))
    shard = reopened(house, index)

    shard.retain(2, 9, Covered(6, Key(T0 + 10, 4)))

    assert keys_due(shard) == [(0, 6), (10, 7), (20, 2), (20, 5), (20, 8)]
    assert shard.pending() == 5


@pytest.mark.parametrize("near_until_ms", [None, T0 + 100])
def test_messages_that_repeat_are_counted_while_they_are_present(
    shard: ShardIndex, near_until_ms: int | None
) -> None:
    values = [REPEAT, b"\0plain", REPEAT, SPEAKS_OF_REPEATS, REPEAT]
    shard.put([entry(T0 + n, n, value) for n, value in enumerate(values)], near_until_ms)
    assert shard.repeats() == 3
    shard.remove([Key(T0, 0), Key(T0 + 1, 1)], checkpoint(2))
    assert shard.repeats() == 2
    shard.discard(Key(T0 + 4, 4))
    assert shard.repeats() == 1
    shard.reset()
    assert shard.repeats() == 0


def test_a_takeover_counts_the_repeats_that_it_keeps(house: House) -> None:
    index = house.open()
    index.shard(ORDERS).put([entry(T0 + n, n, REPEAT if n % 2 else b"\0plain") for n in range(12)], None)
    index.shard(ORDERS).remove([], checkpoint(12))
    index.close()
    shard = house.open().shard(ORDERS)
    shard.retain(2, 10, Covered(6, Key(T0 + 4, 4)))
    assert keys_due(shard) == [(n, n) for n in range(5, 10)]
    assert shard.repeats() == 3


def test_retain_keeps_or_drops_names_with_their_records(house: House) -> None:
    index = house.open()
    records = [entry(T0 + offset, offset) for offset in range(4)]
    index.shard(ORDERS).put(records, None, [(b"n%d" % found.offset, found.key) for found in records])
    shard = reopened(house, index)

    shard.retain(1, 3, NOTHING_COVERED)

    assert [shard.lookup(b"n%d" % n) for n in range(4)] == [None, records[1].key, records[2].key, None]
    shard.discard(records[1].key)
    assert shard.lookup(b"n1") is None


def test_what_retain_dropped_may_be_put_again(house: House) -> None:
    index = house.open()
    index.shard(ORDERS).put([entry(T0 + n, n) for n in range(4)], None)
    shard = reopened(house, index)
    shard.retain(0, 2, NOTHING_COVERED)

    shard.put([entry(T0 + n, n) for n in (2, 3)], None)

    assert keys_due(shard) == [(n, n) for n in range(4)]
    assert shard.pending() == 4


def test_retain_keeps_a_checkpoint_that_it_does_not_undercut(house: House) -> None:
    index = house.open()
    index.shard(ORDERS).remove([], checkpoint(5))
    shard = reopened(house, index)

    shard.retain(0, 5, NOTHING_COVERED)

    assert shard.checkpoint() == checkpoint(5)


def test_retain_below_the_checkpoint_leaves_none_because_the_records_between_are_gone(house: House) -> None:
    index = house.open()
    index.shard(ORDERS).put([entry(T0, 4)], None)
    index.shard(ORDERS).remove([], checkpoint(5))
    shard = reopened(house, index)

    shard.retain(0, 4, NOTHING_COVERED)

    assert shard.checkpoint() is None


@pytest.mark.parametrize("records", [4095, 4096, 4097, 9000])
def test_retain_of_many_records_keeps_exactly_the_right_ones(house: House, records: int) -> None:
    index = house.open()
    named = Key(T0 + 4094, 4094)
    index.shard(ORDERS).put([entry(T0 + n, n) for n in range(records)], None, [(b"name", named)])
    shard = reopened(house, index)

    shard.retain(4000, records - 1, NOTHING_COVERED)

    assert keys_due(shard) == [(n, n) for n in range(4000, records - 1)]
    assert shard.pending() == records - 1 - 4000
    assert shard.lookup(b"name") == (named if records > 4095 else None)


def test_a_dropped_shard_comes_back_through_retain_without_its_memory(index: TimeIndex) -> None:
    index.shard(ORDERS).put([entry(T0, 1), entry(T0 + 100, 0)], T0)
    index.drop(ORDERS)

    shard = index.shard(ORDERS)
    shard.retain(0, 1, NOTHING_COVERED)

    assert keys_due(shard) == [(100, 0)]


def test_dropping_an_unknown_shard_is_no_error(index: TimeIndex) -> None:
    index.drop(Shard("never", "seen"))


def test_a_shard_of_an_earlier_time_shows_nothing_and_takes_nothing_before_retain_or_reset(house: House) -> None:
    index = house.open()
    index.shard(ORDERS).put([entry(T0, 1)], None, [(b"name", Key(T0, 1))])
    shard = reopened(house, index)

    assert (keys_due(shard), shard.pending(), shard.get(Key(T0, 1)), shard.lookup(b"name")) == ([], 0, None, None)
    with pytest.raises(Bug, match="retain or reset"):
        shard.put([entry(T0, 2)], None)
    with pytest.raises(Bug, match="retain or reset"):
        shard.remove([], checkpoint())


def test_put_on_a_full_disk_is_refused_as_a_whole_and_the_rest_goes_on(house: House) -> None:
    free = 1000
    index = house.open(free_bytes=lambda: free, disk_free_min_bytes=100)
    shard = index.shard(ORDERS)
    shard.put([entry(T0 + n, n) for n in range(3)], None)
    free = 99
    big = b"x" * (5 << 20)
    with pytest.raises(StoreFull, match="99 bytes"):
        shard.put([entry(T0, 7), entry(T0 + 5, 8, big)], T0, [(b"near", Key(T0, 7)), (b"far", Key(T0 + 5, 8))])

    assert (shard.pending(), shard.lookup(b"near"), shard.lookup(b"far"), shard.memory_bytes()) == (3, None, None, 0)
    shard.remove([key_of(found) for found in shard.due(T0 + 1, 10, EVERYTHING)], checkpoint(2))
    assert keys_due(shard) == [(2, 2)]
    assert shard.checkpoint() == checkpoint(2)
    index.close()


def test_catching_up_may_use_the_room_that_is_kept_free(house: House) -> None:
    free = 25
    index = house.open(free_bytes=lambda: free, disk_free_min_bytes=100)
    shard = index.shard(ORDERS)
    shard.put([entry(T0, 1)], None)
    free = 24
    with pytest.raises(StoreFull):
        shard.put([entry(T0, 2, b"x" * (5 << 20))], None)
    assert keys_due(shard) == [(0, 1)]
    index.close()


def test_put_works_again_when_space_has_come_back(house: House) -> None:
    free = 0
    index = house.open(free_bytes=lambda: free, disk_free_min_bytes=100)
    shard = index.shard(ORDERS)
    for _ in range(2):
        with pytest.raises(StoreFull):
            shard.put([entry(T0, 1)], T0 - 1)
    free = 100

    shard.put([entry(T0, 1)], T0 - 1)

    assert keys_due(shard) == [(0, 1)]
    index.close()


def test_near_due_records_are_taken_in_on_a_full_disk(house: House) -> None:
    index = house.open(free_bytes=lambda: 0, disk_free_min_bytes=100)

    index.shard(ORDERS).put([entry(T0, 1)], T0)

    assert keys_due(index.shard(ORDERS)) == [(0, 1)]
    index.close()


@pytest.mark.parametrize("due_ms", [0, 2**63 - 1])
def test_the_extremes_of_time_are_kept_in_order(shard: ShardIndex, due_ms: int) -> None:
    shard.put([entry(due_ms, 2**62)], None)

    assert shard.due(2**64, 10, EVERYTHING) == [entry(due_ms, 2**62)]
    assert shard.due(due_ms - 1, 10, EVERYTHING) == []
    assert shard.due(-1, 10, EVERYTHING) == []
