"""summary.json, metrics.prom and repair-plan.json: what programs read."""

import json
import re
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from reconcile.errors import BadInput
from reconcile.logic.ledger import Category
from reconcile.report.metrics import render_metrics
from reconcile.report.repair_plan import (
    MESSAGES_MAX,
    LostMessage,
    LostSuccessor,
    check_listed_once,
    decode_repair_plan,
    encode_repair_plan,
    repair_plan,
)
from reconcile.report.summary import (
    State,
    Summary,
    TopicSummary,
    WindowSummary,
    decode_summary,
    encode_summary,
    newest,
)
from tests.unit.reconcile.made_up import AT_MS, CLUSTER, finding, summary

ROOT = Path(__file__).resolve().parents[4]


def seen(topic: str, number: int, version: int = 1) -> WindowSummary:
    return WindowSummary(topic=topic, window_ms=number * 300_000, version=version)


def test_a_summary_goes_on_with_the_windows_of_the_last_one() -> None:
    earlier = [seen("a", 0), seen("a", 1), seen("b", 7)]
    judged = [seen("a", 2), seen("a", 1, version=2), seen("c", 3)]
    assert newest(earlier, judged) == [seen("a", 0), seen("a", 1, 2), seen("a", 2), seen("b", 7), seen("c", 3)]


def test_a_summary_keeps_only_the_newest_windows_of_each_topic() -> None:
    earlier = [seen("a", n) for n in range(10)]
    judged = [seen("a", 10), *(seen("b", n) for n in range(3))]
    assert newest(earlier, judged, 2) == [seen("a", 9), seen("a", 10), seen("b", 1), seen("b", 2)]


Labels = dict[str, str]


def test_a_summary_is_read_back_as_it_was_written() -> None:
    assert decode_summary(encode_summary(summary())) == summary()


def test_a_summary_is_json_with_a_version() -> None:
    document = json.loads(encode_summary(summary()))
    assert (document["v"], document["run"], document["exit_code"]) == (1, 7, 2)
    assert document["topics"][0]["ledger"]["missing"] == 4
    assert document["cluster"] == {"kind": "kafka", "id": CLUSTER.id, "namespace": "delayline"}


@pytest.mark.parametrize("data", [b"", b"[]", b'{"v": 1}', encode_summary(summary()).replace(b'"v": 1', b'"v": 2')])
def test_a_summary_that_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match="a summary"):
        decode_summary(data)


def samples(of: Summary) -> dict[str, list[tuple[Labels, float]]]:
    families = text_string_to_metric_families(render_metrics(of).decode())
    return {family.name: [(sample.labels, sample.value) for sample in family.samples] for family in families}


def test_metrics_agree_with_the_summary() -> None:
    given = summary()
    metrics = samples(given)
    orders = next(one for one in given.topics if one.topic == "orders")
    assert ({"topic": "orders", "category": "missing"}, 4) in metrics["delayline_reconcile_findings"]
    assert ({"topic": "orders", "category": "missing"}, 4) in metrics["delayline_reconcile_fresh_findings"]
    accepted = ({"topic": "orders", "category": "accepted"}, orders.ledger.accepted)
    assert accepted in metrics["delayline_reconcile_records"]
    assert ({"topic": "orders"}, 4_120) in metrics["delayline_reconcile_open_records"]
    assert ({"topic": "payment-retries"}, 17) in metrics["delayline_reconcile_unauditable"]
    assert ({"topic": "orders"}, AT_MS / 1000) in metrics["delayline_reconcile_last_closed_window_seconds"]
    assert ({"topic": "mail-digest", "state": "stalled"}, 1) in metrics["delayline_reconcile_topic_state"]
    assert ({"topic": "orders", "state": "stalled"}, 0) in metrics["delayline_reconcile_topic_state"]
    assert metrics["delayline_reconcile_run_seconds"] == [({}, 48.2)]
    assert metrics["delayline_reconcile_last_run_timestamp_seconds"] == [({}, given.at_ms / 1000)]
    assert metrics["delayline_reconcile_malformed_audit_records"] == [({}, 1)]
    assert metrics["delayline_reconcile_exit_code"] == [({}, 2)]


def test_every_category_and_state_has_a_value_so_that_alerts_do_not_miss_a_series() -> None:
    metrics = samples(
        Summary(cluster=CLUSTER, run=1, at_ms=0, exit_code=0, seconds=1, topics=[TopicSummary(topic="a")])
    )
    assert len(metrics["delayline_reconcile_findings"]) == len(Category)
    assert len(metrics["delayline_reconcile_topic_state"]) == len(State)
    assert all(value == 0 for _, value in metrics["delayline_reconcile_findings"])
    assert metrics["delayline_reconcile_last_closed_window_seconds"] == []


def test_the_page_for_operators_names_every_metric_and_no_other() -> None:
    named = set(re.findall(r"delayline_reconcile_\w+", (ROOT / "docs" / "reconcile.md").read_text()))
    assert named == set(samples(summary()))


def test_a_topic_with_an_odd_name_is_escaped_in_metrics() -> None:
    name = 'a"b\\c\nd'
    metrics = samples(
        Summary(cluster=CLUSTER, run=1, at_ms=0, exit_code=0, seconds=1, topics=[TopicSummary(topic=name)])
    )
    assert metrics["delayline_reconcile_open_records"] == [({"topic": name}, 0)]


def test_a_repair_plan_names_missing_messages_and_what_the_run_had_read() -> None:
    lost = [finding("missing", "orders", n) for n in range(3)]
    plan = repair_plan(CLUSTER, 7, AT_MS, {0: 12, 1: 9_044}, lost, 3)
    assert plan.messages[1] == LostMessage(
        lost[1].id or "", "orders", 3, 104_101, AT_MS - 1_234_567, AT_MS - 4_834_567
    )
    assert plan.more == 0
    assert decode_repair_plan(encode_repair_plan(plan)) == plan
    document = json.loads(encode_repair_plan(plan))
    assert (document["v"], document["run"], document["audit"]) == (1, 7, {"0": 12, "1": 9044})


def test_a_repair_plan_is_bounded_and_counts_how_many_more_there_are() -> None:
    lost = (finding("missing", "orders", n) for n in range(MESSAGES_MAX + 50))
    plan = repair_plan(CLUSTER, 7, AT_MS, {}, lost, MESSAGES_MAX + 5_000)
    assert len(plan.messages) == MESSAGES_MAX
    assert plan.more == 5_000


def test_a_message_that_a_cell_alone_has_named_is_listed_too() -> None:
    plan = repair_plan(CLUSTER, 7, AT_MS, {}, [finding("missing", "orders", 1, accepted_ms=None)], 1)
    assert [(message.offset, message.accepted_ms) for message in plan.messages] == [(104_101, None)]


def test_what_is_missing_and_no_message_is_counted_but_not_listed() -> None:
    nameless = finding("missing", "orders", 1, id=None)
    plan = repair_plan(CLUSTER, 7, AT_MS, {}, [nameless, finding("missing", "orders", 2)], 2)
    assert [message.offset for message in plan.messages] == [104_102]
    assert plan.more == 1


@pytest.mark.parametrize("data", [b"{", b'{"v": 1}'])
def test_a_repair_plan_that_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match="a repair plan"):
        decode_repair_plan(data)


def test_a_plan_that_lists_a_record_twice_is_refused_because_it_would_be_sent_twice() -> None:
    once = repair_plan(CLUSTER, 7, AT_MS, {}, [finding("missing", "orders", n) for n in (1, 2)], 2)
    check_listed_once(once)
    twice = msgspec.structs.replace(once, messages=[*once.messages, once.messages[0]])
    with pytest.raises(BadInput, match="offset 104101 of orders, shard 3, is listed 2 times"):
        check_listed_once(twice)
    held = once.messages[1]
    both = LostSuccessor(held.id, held.topic, held.shard, held.offset, held.due_ms, None)
    with pytest.raises(BadInput, match="listed 2 times"):
        check_listed_once(msgspec.structs.replace(once, successors=[both]))
