"""One shard: what it delivers, what its cursor records of that, and what a batch that fails leaves behind.

Rules that need a worker, a queue or a second owner have tests of their own beside this one, and the simulation.
"""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from delay_service.core.rules_log import RulesLog
from delay_service.core.shard import Shard
from delay_service.core.shard_settings import ShardSettings
from delay_service.core.takeover import Plan
from delayline.buffer.cursor import Cursor
from delayline.errors import Bug
from delayline.records.message import BEFORE_ALL, Key
from delayline.records.message import Shard as ShardId
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import ShardBatch
from store.index import ShardIndex
from store.memory import MemoryIndex
from tests.unit.delay_service.harness import NAMES

ORDERS = ShardId("orders", "0")
MANY_RECORDS, MANY_BYTES = 1000, 1 << 20


def shard(*, read_to: int = 0) -> tuple[Shard, ShardIndex]:
    index = MemoryIndex().shard(ORDERS)
    cursor = Cursor(topic_id=b"t", owner_epoch=1)
    plan = Plan(cursor, reuse=False, resume_offset=0, read_to=read_to, rules=RulesLog(0, DEFAULT_RULES))
    core = Shard(ORDERS, plan, index, ShardSettings(DEFAULT_RULES, NAMES))
    return core, index


def record(offset: int, due_ms: int) -> tuple[int, int, bytes]:
    """Accepted at the epoch, so that its delay is its due time. Its value is its offset."""
    return offset, 0, encode_body(None, b"%d" % offset, [(b"delay-ms", b"%d" % due_ms)])


def take(core: Shard, now_ms: int, records_max: int = MANY_RECORDS) -> ShardBatch | None:
    return core.take(now_ms, records_max, MANY_BYTES)


def offsets_in(batch: ShardBatch | None) -> list[int]:
    return [] if batch is None else [int(decode_body(body).value or b"") for body, _ in batch.deliveries]


class Life(RuleBasedStateMachine):
    """A shard in step with a model: a set of pending keys, and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.core, self.index = shard()
        self.now_ms = 0
        self.pending: set[Key] = set()
        self.delivered: list[Key] = []
        self.taken: list[Key] | None = None

    @rule(due_ms=st.integers(1, 50))
    def a_record_is_read(self, due_ms: int) -> None:
        offset = self.core.position
        self.core.ingest([record(offset, due_ms)], self.now_ms)
        self.pending.add(Key(due_ms, offset))

    @rule(later_ms=st.integers(1, 20))
    def time_goes_on(self, later_ms: int) -> None:
        self.now_ms += later_ms

    @precondition(lambda self: self.taken is None)
    @rule(records_max=st.integers(1, 3))
    def a_batch_is_taken(self, records_max: int) -> None:
        due = sorted(key for key in self.pending if key.due_ms <= self.now_ms)[:records_max]
        batch = take(self.core, self.now_ms, records_max)
        assert offsets_in(batch) == [key.offset for key in due]
        self.taken = due if batch is not None else None

    @precondition(lambda self: self.taken is not None)
    @rule()
    def it_is_committed(self) -> None:
        self.core.committed()
        assert self.taken is not None
        self.delivered += self.taken
        self.pending -= set(self.taken)
        self.taken = None

    @precondition(lambda self: self.taken is not None)
    @rule()
    def it_fails(self) -> None:
        self.core.aborted()
        self.taken = None

    @invariant()
    def nothing_leaves_the_index_before_it_is_delivered(self) -> None:
        assert set(self.index.keys(BEFORE_ALL, MANY_RECORDS)) == self.pending

    @invariant()
    def the_highest_key_delivered_is_in_the_cursor(self) -> None:
        assert self.core.cursor.delivered_key == max(self.delivered, default=BEFORE_ALL)

    @invariant()
    def the_cursor_calls_nothing_ended_that_is_pending(self) -> None:
        cursor = self.core.cursor
        passed = {key for key in self.pending if key.offset < cursor.next_offset and key <= cursor.delivered_key}
        assert passed == set()

    @invariant()
    def nothing_is_pending_below_the_low_offset(self) -> None:
        assert self.core.cursor.low_offset <= min((key.offset for key in self.pending), default=self.core.position)


TestLife = pytest.mark.slow(Life.TestCase)


def test_nothing_is_taken_before_the_log_is_read_to_the_end_that_was_recorded() -> None:
    core, _ = shard(read_to=2)
    core.ingest([record(0, 1)], 0)
    assert (core.caught_up, take(core, 100)) == (False, None)
    core.ingest([record(1, 1)], 0)
    assert (core.caught_up, offsets_in(take(core, 100))) == (True, [0, 1])


def test_holes_at_the_end_of_the_log_count_as_read() -> None:
    core, _ = shard(read_to=2)
    core.ingest([record(0, 1)], 0)
    core.advance(2)
    assert core.caught_up


def test_one_batch_is_in_flight_at_most() -> None:
    core, _ = shard()
    core.ingest([record(0, 1)], 0)
    take(core, 100)
    core.ingest([record(1, 1)], 0)
    assert core.in_flight is not None
    assert take(core, 100) is None


def test_a_record_that_is_read_when_delivery_has_passed_its_key_keeps_the_cursor_before_it() -> None:
    core, _ = shard()
    core.ingest([record(0, 50)], 0)
    take(core, 60)
    core.committed()
    core.ingest([record(1, 40), record(2, 90), record(3, 45), record(4, 90)], 60)
    batch = take(core, 60, records_max=1)
    assert batch is not None
    assert (offsets_in(batch), batch.cursor.next_offset) == ([1], 3)


def test_a_record_that_is_read_twice_is_a_bug() -> None:
    core, _ = shard()
    core.ingest([record(0, 1)], 0)
    with pytest.raises(Bug, match="read again"):
        core.ingest([record(0, 1)], 0)


def test_a_batch_can_end_only_while_one_is_in_flight() -> None:
    core, _ = shard()
    with pytest.raises(Bug, match="no batch is in flight"):
        core.committed()
