"""From one manifest to the next."""

import pytest
from msgspec.structs import replace

from delayline.buffer.outcome import spread
from delayline.records.message import Shard as Named
from reconcile.errors import BadInput
from reconcile.logic.advance import Counted, Judgement, manifest_after, task_of
from reconcile.logic.ledger import WINDOW_MS
from reconcile.logic.manifest import Manifest, Marks, Plan, Reads, Shard, Topic, decode, encode, runs_in, with_run
from reconcile.logic.plan import FORMAT_VERSION, Buffer, Cluster, Held, Mark, Range, Read, Unreadable
from reconcile.logic.planning import with_untold

NOW = 100 * WINDOW_MS
HELD = Held(NOW, "a", {0: Range(3, 9)}, {"orders": Buffer("o", {0: Range(0, 9)})})
CLUSTER = Cluster("kafka", "c1", "ns")


def advanced(
    low_ms: int,
    previous: Manifest | None,
    touched: list[int],
    unsettled: list[int],
    first_appended_ms: int | None = None,
) -> Manifest:
    plan = Plan(run=previous.run + 1 if previous else 1, cluster=CLUSTER, held=HELD, audit={}, lost={0: Range(0, 3)})
    marks = Marks(Mark(NOW, 9, low_ms, 1, 8))
    reads = Reads(run=plan.run, reads=[Read("orders", 0, 5, 9)], marks={"orders": {0: marks}}, audit_first_ms={0: 50})
    counted = Counted({}, [], {"orders": touched}, {}, {}, first_appended_ms)
    task = task_of(plan, reads, previous, counted, WINDOW_MS, lambda *_: 0)
    return manifest_after(plan, reads, previous, counted, task, Judgement({}, {}, {"orders": unsettled}, []))


def before() -> Manifest:
    orders = Topic(topic_id="o", shards={0: Shard(start=0, position=5)}, closed_until_ms=20 * WINDOW_MS)
    return Manifest(run=1, cluster=CLUSTER, at_ms=1, audit_topic_id="a", topics={"orders": orders}, written={})


def test_windows_that_wait_and_windows_that_are_unsettled_are_judged_again_by_the_next_run() -> None:
    touched = [4 * WINDOW_MS, 11 * WINDOW_MS]
    orders = advanced(10 * WINDOW_MS, before(), touched, [3 * WINDOW_MS]).topics["orders"]
    assert orders.rejudge == [3 * WINDOW_MS, 11 * WINDOW_MS]
    assert orders.closed_until_ms == 20 * WINDOW_MS


@pytest.mark.parametrize(("first_appended_ms", "gaps"), [(49, 1), (50, 0), (None, 0)])
def test_what_the_audit_lost_before_the_first_run_matters_where_a_buffer_holds_older_records(
    first_appended_ms: int | None, gaps: int
) -> None:
    assert len(advanced(NOW, None, [], [], first_appended_ms).audit_gaps) == gaps


def test_what_the_audit_lost_since_is_a_gap_whatever_the_buffers_hold() -> None:
    assert [gap.run for gap in advanced(NOW, before(), [], []).audit_gaps] == [2]


@pytest.mark.parametrize(("before_it", "partitions"), [({0: 7}, 1), ({}, 0)])
def test_a_gap_knows_its_shards_only_where_the_audit_has_had_as_many_partitions_all_the_while(
    before_it: dict[int, int], partitions: int
) -> None:
    (gap,) = advanced(NOW, replace(before(), audit=before_it), [], []).audit_gaps
    assert gap.partitions == partitions


def test_what_cannot_be_read_of_the_audit_may_speak_of_any_record_that_there_was() -> None:
    """It is remembered by shard, and of those whose outcomes stand in that partition alone."""
    audit = dict.fromkeys(range(4), Range(0, 9))
    held = Held(NOW, "a", audit, {"orders": Buffer("o", {0: Range(0, 9), 1: Range(0, 7)})})
    first, second = (spread(Named("orders", name), len(audit)) for name in "01")
    assert first != second
    plan = Plan(run=2, cluster=CLUSTER, held=held)
    shards = {"orders": {0: Shard(start=0, position=5), 1: Shard(start=0, position=5)}}
    assert with_untold(shards, plan, [], {}) == shards
    found = with_untold(shards, plan, [Unreadable(second, None, 5)], {})["orders"]
    assert (found[0].untold_below, found[1].untold_below) == (0, 7)
    assert {shard.untold_below for shard in with_untold({"orders": found}, plan, [], {})["orders"].values()} == {0, 7}


@pytest.mark.parametrize(
    ("unreadable", "mark", "untold"),
    [
        (Unreadable(0, "mails", 5), None, (0, 0)),  # of another topic
        (Unreadable(0, "orders", 5), None, (0, 9)),
        (Unreadable(0, None, 5), Mark(NOW, 4, NOW, 0, 3), (4, 9)),  # what is below had ended by then
        (Unreadable(0, None, 5), Mark(NOW, 4, NOW, 1, 3), (0, 9)),  # something was pending
        (Unreadable(0, None, 5), Mark(NOW, 4, NOW, 0, 6), (0, 9)),  # it stands behind
    ],
)
def test_what_had_ended_before_it_or_is_another_topic_s_can_be_judged(
    unreadable: Unreadable, mark: Mark | None, untold: tuple[int, int]
) -> None:
    held = Held(NOW, "a", {0: Range(0, 9)}, {"orders": Buffer("o", {0: Range(0, 9)})})
    plan = Plan(run=2, cluster=CLUSTER, held=held)
    shards = {"orders": {0: Shard(start=0, position=5)}}
    found = with_untold(shards, plan, [unreadable], {"orders": {0: Marks(last=mark)}})["orders"][0]
    assert (found.untold_from, found.untold_below) == untold
    again = with_untold({"orders": {0: found}}, plan, [Unreadable(0, None, 5)], {})["orders"][0]
    assert (again.untold_from, again.untold_below) == (0, 9)


def test_an_hour_that_every_run_adds_to_stays_one_pair() -> None:
    hours = with_run(with_run(with_run({}, [7], 1), [7, 8], 2), [7], 4)
    assert hours == {7: [(1, 2), (4, 4)], 8: [(2, 2)]}
    assert runs_in(hours[7]) == [1, 2, 4]


def test_a_manifest_is_read_back_as_it_was_written() -> None:
    manifest = advanced(10 * WINDOW_MS, before(), [4 * WINDOW_MS], [])
    assert decode(encode(manifest), Manifest, "manifest-2.json") == manifest


@pytest.mark.parametrize("data", [b"", b"{}", b'{"v":%d}' % FORMAT_VERSION, b"nonsense"])
def test_what_is_no_manifest_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(BadInput, match=r"^manifest-2\.json cannot be read"):
        decode(data, Manifest, "manifest-2.json")


@pytest.mark.parametrize("lacks", [False, True], ids=["the same fields", "none of the fields"])
def test_a_manifest_of_another_version_is_refused_by_that(lacks: bool) -> None:
    data = b'{"v":9}' if lacks else encode(before()).replace(b'"v":%d' % FORMAT_VERSION, b'"v":9')
    with pytest.raises(BadInput, match=rf"manifest-2\.json has version 9, this program knows {FORMAT_VERSION}"):
        decode(data, Manifest, "manifest-2.json")
