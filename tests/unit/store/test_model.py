"""Both indexes against a dict, under random sequences of everything that an owner does."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from delayline.records.message import BEFORE_ALL, Key
from store.counts import SEGMENT_OFFSETS
from store.index import Buckets, Checkpoint, Covered, Entry
from tests.tiers import examples
from tests.unit.store.conftest import ORDERS, REPEAT, T0, MemoryHouse, RocksHouse, checkpoint

pytestmark = pytest.mark.slow

DUE = st.integers(0, 300).map(lambda n: T0 + n * 37)
VALUE = st.binary(max_size=40).map(lambda value: b"\0" + value) | st.just(REPEAT)
"""Values of plain messages, and of one that repeats: of others the index reads whether they do."""
RECORDS = st.lists(st.tuples(DUE, st.sampled_from([1, 2, 3000]), VALUE, st.booleans()), min_size=5, max_size=40)
BYTES = st.sampled_from([1, 100, 100_000])
SELDOM = st.sampled_from([False] * 5 + [True])


class Model(RuleBasedStateMachine):
    """What is pending is two dicts, one of which is lost by a restart."""

    house_class: type[MemoryHouse | RocksHouse] = MemoryHouse

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.house = RocksHouse(Path(self.folder.name)) if self.house_class is RocksHouse else MemoryHouse()
        self.index = self.house.open()
        self.shard = self.index.shard(ORDERS)
        self.far: dict[Key, bytes] = {}
        self.near: dict[Key, bytes] = {}
        self.names: dict[bytes, Key] = {}
        self.taken: list[Key] = []
        self.next_offset = 0
        self.stored: Checkpoint | None = None

    def teardown(self) -> None:
        if hasattr(self, "index"):
            self.index.close()
            self.folder.cleanup()

    @property
    def present(self) -> dict[Key, bytes]:
        return self.far | self.near

    def _forget(self, keys: list[Key]) -> None:
        for key in keys:
            self.far.pop(key, None)
            self.near.pop(key, None)
        self.names = {name: key for name, key in self.names.items() if key in self.present}

    def _remove(self, keys: list[Key]) -> None:
        self._forget(keys)
        stored = checkpoint(self.next_offset)
        self.stored = stored
        self.shard.remove(keys, stored)

    @rule(records=RECORDS)
    def put_far(self, records: list[tuple[int, int, bytes, bool]]) -> None:
        self._put(records, None)

    @rule(records=RECORDS, near_until_ms=st.sampled_from([T0 + 2000, T0 + 6000, T0 + 20_000]))
    def put(self, records: list[tuple[int, int, bytes, bool]], near_until_ms: int) -> None:
        self._put(records, near_until_ms)

    def _put(self, records: list[tuple[int, int, bytes, bool]], near_until_ms: int | None) -> None:
        entries, names = [], []
        for due_ms, gap, value, named in records:
            self.next_offset += gap
            found = Entry(due_ms, self.next_offset, value)
            entries.append(found)
            if named:
                names.append((b"%d" % found.offset, found.key))
            near = near_until_ms is not None and due_ms <= near_until_ms
            (self.near if near else self.far)[found.key] = value
        self.names |= dict(names)
        self.shard.put(entries, near_until_ms, names)

    @rule(
        until_ms=DUE | st.just(T0 + 20_000),
        records_max=st.integers(1, 60),
        bytes_max=st.sampled_from([1, 100, 100_000]),
    )
    def due(self, until_ms: int, records_max: int, bytes_max: int) -> None:
        expected: list[Entry] = []
        for key in sorted(self.present):
            value = self.present[key]
            size = sum(len(found.value) for found in expected) + len(value)
            if key.due_ms > until_ms or len(expected) == records_max or (expected and size > bytes_max):
                break
            expected.append(Entry(*key, value))
        found = self.shard.due(until_ms, records_max, bytes_max)
        self.taken = [Key(*entry[:2]) for entry in found]
        assert found == expected

    @rule()
    def remove(self) -> None:
        taken = [key for key in self.taken if key in self.present]
        self.taken = []
        self._remove(taken)

    @precondition(lambda self: self.present)
    @rule(data=st.data())
    def remove_any(self, data: st.DataObject) -> None:
        lowest = sorted(self.present)[:12]
        chosen = sorted(data.draw(st.sets(st.sampled_from(lowest))))
        self._remove(chosen)

    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        known = sorted(self.present)
        absent = st.builds(Key, DUE, st.integers(0, 50))
        key = data.draw(st.sampled_from(known[:5]) | st.sampled_from(known) | absent if known else absent)
        was_present = key in self.present
        self._forget([key])
        assert self.shard.discard(key) == was_present

    @rule(
        really=SELDOM,
        low=st.integers(0, 40),
        resume=st.integers(60, 101),
        next_offset=st.integers(0, 100),
        delivered=DUE,
    )
    def restart(self, really: bool, low: int, resume: int, next_offset: int, delivered: int) -> None:
        if not really:
            return
        low, resume, next_offset = (self.next_offset * percent // 100 for percent in (low, resume, next_offset))
        self.index.close()
        self.index = self.house.open()
        self._retain(low, resume, Covered(next_offset, Key(delivered, resume)))

    @rule(really=SELDOM)
    def drop(self, really: bool) -> None:
        if not really:
            return
        self.index.drop(ORDERS)
        self._retain(0, self.next_offset + 1, Covered(0, BEFORE_ALL))

    def _retain(self, low: int, resume: int, covered: Covered) -> None:
        self.shard = self.index.shard(ORDERS)
        assert self.shard.checkpoint() == self.stored
        self.shard.retain(low, resume, covered)
        if self.stored is not None and self.stored.offset > resume:
            self.stored = None
        gone = [key for key in self.far if not low <= key.offset < resume]
        gone += [key for key in self.far if key.offset < covered.next_offset and key <= covered.delivered_key]
        self.near, self.taken = {}, []
        self._forget(gone)

    @rule(really=SELDOM)
    def reset(self, really: bool) -> None:
        if not really:
            return
        self.shard.reset()
        self.far, self.near, self.names, self.taken, self.stored = {}, {}, {}, [], None

    @rule(after=st.builds(Key, DUE, st.integers(0, 500)) | st.just(BEFORE_ALL), limit=st.integers(1, 30))
    def scan(self, after: Key, limit: int) -> None:
        expected = [Entry(*key, value) for key, value in sorted(self.present.items()) if key > after]
        assert self.shard.scan(after, limit) == expected[:limit]

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "shard"):
            return
        assert self.shard.pending() == len(self.present)
        assert self.shard.repeats() == sum(value == REPEAT for value in self.present.values())
        assert self.shard.next_due_ms() == min((key.due_ms for key in self.present), default=None)
        assert sum(self.shard.histogram(Buckets(0, 60, 2))) == len(self.present)
        for low, keys in ((self.shard.low_offset(), self.present), (self.shard.memory_low(), self.near)):
            lowest = min((key.offset for key in keys), default=None)
            assert low == (None if lowest is None else lowest // SEGMENT_OFFSETS * SEGMENT_OFFSETS)
        assert (self.shard.memory_bytes() == 0) == (not self.near)

    @invariant()
    def every_record_and_name_is_found(self) -> None:
        if not hasattr(self, "shard"):
            return
        for key in list(self.present)[-5:]:
            assert self.shard.get(key) == self.present[key]
        for name in [b"%d" % self.next_offset, *list(self.names)[:3]]:
            assert self.shard.lookup(name) == self.names.get(name)


class RocksModel(Model):
    house_class = RocksHouse


_SETTINGS = settings(
    max_examples=examples(150), stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestMemoryAgainstDict = Model.TestCase
TestMemoryAgainstDict.settings = _SETTINGS
TestRocksAgainstDict = RocksModel.TestCase
TestRocksAgainstDict.settings = _SETTINGS
