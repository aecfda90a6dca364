"""What a run reads, and what it does not pass over in silence."""

import pytest
from msgspec.structs import replace

from reconcile.logic.manifest import Manifest, Marks, Plan, Shard, Topic
from reconcile.logic.plan import Buffer, Cluster, Held, Mark, Range, Read
from reconcile.logic.planning import can_be_read, fresh_shards, last_marks, plan_reads, plan_run, shards_after

CLUSTER = Cluster("kafka", "c1", "delayline")
AUDIT = Range(0, 30)


def mark(next: int, low_ms: int = 0, pending: int | None = 1, audit_offset: int = 7) -> Mark:
    return Mark(50, next, low_ms, pending, audit_offset)


def held(audit: Range = AUDIT, topic_id: str = "o1", **shards: Range) -> Held:
    numbered = {int(name[1:]): kept for name, kept in (shards or {"s0": Range(0, 9)}).items()}
    return Held(100, "a1", {0: audit}, {"orders": Buffer(topic_id, numbered)})


def manifest(audit: int = 20, **topic: object) -> Manifest:
    shards = {0: Shard(start=2, position=5, marks=Marks(mark(5)), rules="r5")}
    orders = replace(Topic(topic_id="o1", shards=shards), **topic)
    return Manifest(
        run=3, cluster=CLUSTER, at_ms=90, audit_topic_id="a1", audit={0: audit}, topics={"orders": orders}, written={}
    )


def planned(held: Held, previous: Manifest | None = None) -> Plan:
    return plan_run(CLUSTER, held, previous)


def test_the_first_run_reads_the_audit_from_its_beginning() -> None:
    plan = planned(held())
    assert (plan.run, plan.audit, plan.lost, plan.aside) == (1, {0: Range(0, 30)}, {}, {})


def test_the_next_run_reads_on_where_the_last_one_ended() -> None:
    plan = planned(held(), manifest())
    assert (plan.run, plan.audit, plan.lost) == (4, {0: Range(20, 30)}, {})


def test_a_new_partition_of_the_audit_is_read_from_its_beginning() -> None:
    both = replace(held(), audit={0: Range(0, 30), 1: Range(0, 4)})
    assert planned(both, manifest()).audit == {0: Range(20, 30), 1: Range(0, 4)}


def test_audit_records_that_are_gone_before_they_were_read_are_lost_by_name() -> None:
    plan = planned(held(audit=Range(25, 30)), manifest())
    assert (plan.audit, plan.lost) == ({0: Range(25, 30)}, {0: Range(20, 25)})


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (held(), None),
        (held(topic_id="o2"), "recreated"),
        (held(s0=Range(0, 4)), "truncated"),  # five had been read
        (held(s1=Range(0, 4)), "truncated"),
        (replace(held(), buffers={}), "deleted"),
        (replace(held(), audit_topic_id="a2"), "audit recreated"),
        (held(audit=Range(0, 19)), "audit truncated"),  # twenty had been read
        (replace(held(), audit={}), "audit truncated"),
    ],
)
def test_what_is_not_what_it_was_is_set_aside(now: Held, reason: str | None) -> None:
    assert planned(now, manifest()).aside == ({"orders": reason} if reason else {})


def test_what_has_been_set_aside_stays_so() -> None:
    assert planned(held(), manifest(aside="recreated")).aside == {"orders": "recreated"}


def test_with_an_audit_that_was_made_again_nothing_is_read() -> None:
    both = held()
    both.buffers["mail"] = Buffer("m1", {0: Range(0, 9)})
    plan = planned(replace(both, audit_topic_id="a2"), manifest())
    assert (plan.audit, set(plan.aside)) == ({}, {"mail", "orders"})


@pytest.mark.parametrize(
    ("shard", "aside"),
    [
        (Shard(start=2, position=5, marks=Marks(mark(5, pending=0))), {}),
        (Shard(start=2, position=2), {}),
        (Shard(start=2, position=5, marks=Marks(mark(5, pending=1))), {"orders": "deleted"}),
        (Shard(start=2, position=5, marks=Marks(mark(5, pending=None))), {"orders": "deleted"}),
    ],
)
def test_a_deleted_topic_is_a_loss_only_where_something_was_pending(shard: Shard, aside: dict[str, str]) -> None:
    assert planned(replace(held(), buffers={}), manifest(shards={0: shard})).aside == aside


def reads(now: Held, previous: Manifest | None, *marks: Mark, rules: str | None = None) -> list[Read]:
    by_shard = {0: rules} if rules else {}
    found = plan_reads(planned(now, previous), previous, {"orders": {0: marks}}, {"orders": by_shard}, {})
    assert found.aside == {}
    return found.reads


def test_a_buffer_is_read_up_to_its_last_mark_and_no_further() -> None:
    assert reads(held(), manifest(), mark(6), mark(7)) == [Read("orders", 0, 5, 7, "r5")]


def test_without_a_new_mark_nothing_is_read() -> None:
    assert reads(held(), manifest()) == [Read("orders", 0, 5, 5, "r5")]


def test_the_first_run_begins_with_what_is_held() -> None:
    assert reads(held(s0=Range(4, 9)), None, mark(8), rules="r4") == [Read("orders", 0, 4, 8, "r4")]


def test_a_new_partition_begins_with_what_is_held() -> None:
    now = held(s0=Range(0, 9), s1=Range(0, 3))
    plan = planned(now, manifest())
    assert fresh_shards(plan, manifest()) == {"orders": [1]}
    found = plan_reads(plan, manifest(), {"orders": {1: [mark(3)]}}, {}, {})
    assert found.reads == [Read("orders", 0, 5, 5, "r5"), Read("orders", 1, 0, 3)]


@pytest.mark.parametrize(("previous", "start", "lost"), [(None, 4, []), (manifest(), 0, [Range(0, 4)])])
def test_what_was_deleted_of_a_shard_that_is_new_since_the_last_run_is_lost_by_name(
    previous: Manifest | None, start: int, lost: list[Range]
) -> None:
    """The first run cannot know what was there before it."""
    now = held(s0=Range(5, 9), s1=Range(4, 9))
    plan = planned(now, previous)
    found = plan_reads(plan, previous, {"orders": {1: [mark(8)]}}, {}, {})
    shard = shards_after(plan, found, previous, {})["orders"][1]
    assert (shard.start, shard.position, shard.lost) == (start, 8, lost)


def test_behind_a_loss_the_queue_is_asked_for_its_rules() -> None:
    now = held(s0=Range(7, 9))
    assert fresh_shards(planned(now, manifest()), manifest()) == {"orders": [0]}
    assert reads(now, manifest(), mark(9), rules="r7") == [Read("orders", 0, 7, 9, "r7")]
    assert reads(now, manifest(), mark(9)) == [Read("orders", 0, 7, 9)]  # the default ones, not those of before


def test_what_was_gone_before_it_was_read_is_lost_by_name() -> None:
    previous, now = manifest(), held(s0=Range(7, 9))
    plan = planned(now, previous)
    found = plan_reads(plan, previous, {"orders": {0: [mark(9)]}}, {}, {})
    shard = shards_after(plan, found, previous, {})["orders"][0]
    assert (shard.start, shard.position, shard.lost, shard.lost_until_ms) == (2, 9, [Range(5, 7)], 100)


@pytest.mark.parametrize("bad", [10, -1])
def test_a_mark_that_cannot_be_true_sets_its_shard_aside_until_the_next_run(bad: int) -> None:
    previous, now = manifest(), held()
    plan = planned(now, previous)
    found = plan_reads(plan, previous, {"orders": {0: [mark(bad), mark(7)], 1: []}}, {}, {})
    assert (found.reads, found.aside) == ([Read("orders", 0, 5, 5, "r5")], {})
    assert found.distrusted["orders"][0].bad == mark(bad)
    assert found.marks["orders"][0] == previous.topics["orders"].shards[0].marks
    shard = shards_after(plan, found, previous, {})["orders"][0]
    assert (shard.position, shard.marks.last) == (5, mark(7))
    again = manifest(shards={0: shard})
    after = plan_reads(planned(now, again), again, {}, {}, {})
    assert (after.reads, after.distrusted) == ([Read("orders", 0, 5, 7, "r5")], {})


def test_rules_that_were_read_hold_from_there_on() -> None:
    plan = planned(held(), manifest())
    found = plan_reads(plan, manifest(), {"orders": {0: [mark(9)]}}, {}, {})
    assert shards_after(plan, found, manifest(), {"orders": {0: "r8"}})["orders"][0].rules == "r8"
    assert shards_after(plan, found, manifest(), {})["orders"][0].rules == "r5"


def test_the_two_marks_that_reach_furthest_are_kept() -> None:
    known = Marks(mark(5, 40), mark(4, 30))
    assert last_marks(known, []) == known
    assert last_marks(known, [mark(5, 41)]) == Marks(mark(5, 41), mark(5, 40))
    assert last_marks(known, [mark(9, 1), mark(7, 2)]) == Marks(mark(9, 1), mark(7, 2))
    assert last_marks(Marks(), [mark(9, 1)]) == Marks(mark(9, 1))


@pytest.mark.parametrize(
    ("now", "readable"),
    [
        (held(), True),
        (held(s0=Range(0, 20)), True),
        (held(s0=Range(1, 20)), False),  # a part of what was planned is gone
        (held(audit=Range(20, 40)), True),
        (held(audit=Range(21, 40)), False),
        (held(topic_id="o2"), False),
        (replace(held(), audit_topic_id="a2"), False),
        (replace(held(), buffers={}), False),
    ],
)
def test_a_plan_is_repeated_as_long_as_it_can_be_read(now: Held, readable: bool) -> None:
    assert can_be_read(planned(held(), manifest()), now) is readable
