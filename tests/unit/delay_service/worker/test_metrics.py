"""What the worker counts of its commits."""

from bisect import bisect_left
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from delay_service.core.history import History
from delay_service.core.in_flight import CommitResult
from delay_service.worker.decisions import Decisions
from delay_service.worker.metrics import LATENESS_BOUNDS_MS, Lateness, WorkerMetrics
from delay_service.worker.owned import ShardStatus
from delayline.buffer.outcome import AuditRow, Outcome, PlainRows
from delayline.clock import ManualClock
from delayline.records.message import Shard

ORDERS = Shard("orders", "3")
NEAR_A_BOUND = st.builds(lambda bound, by: bound + by, st.sampled_from(LATENESS_BOUNDS_MS), st.integers(-1, 1))


def buckets(lateness: Lateness) -> list[float]:
    """Not running, but each for itself."""
    running = [0.0, *(s.value for s in lateness.family().samples if s.name.endswith("_bucket"))]
    return [after - before for before, after in pairwise(running)]


@given(st.lists(st.one_of(NEAR_A_BOUND, st.integers(-5, 10_000_000)), max_size=30))
def test_each_message_counts_in_the_bucket_of_its_lateness(late_ms: list[int]) -> None:
    lateness, at_ms = Lateness(), 1_767_225_600_000
    for part in (late_ms[:20], late_ms[20:]):
        lateness.observe("orders", at_ms, sorted(at_ms - each for each in part))
    expected = [0.0] * (len(LATENESS_BOUNDS_MS) + 1)
    for each in late_ms:
        expected[bisect_left(LATENESS_BOUNDS_MS, each)] += 1
    assert buckets(lateness) == expected
    (total,) = (s.value for s in lateness.family().samples if s.name.endswith("_sum"))
    assert total == pytest.approx(sum(late_ms) / 1000)


def test_the_age_at_which_records_are_deleted_is_the_least_of_a_topics_shards() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(registry, History(100, 60_000), Decisions(), ManualClock())
    status = ShardStatus(ORDERS, True, None, "")
    other = replace(status, id=Shard("mails", "0"))
    metrics.watch(lambda: [replace(status, kept_s=7.0), replace(status, kept_s=5.0), other])

    def kept(topic: str) -> float | None:
        return registry.get_sample_value("delayline_buffer_kept_seconds", {"topic": topic})

    assert (kept("orders"), kept("mails")) == (5.0, None)


def test_plain_messages_and_others_are_counted_together() -> None:
    registry = CollectorRegistry()
    history = History(100, 60_000)
    metrics = WorkerMetrics(registry, history, Decisions(), ManualClock())
    rows = [
        AuditRow(7, "orders.3.7.990", 990, 500, Outcome.DELIVERED),
        AuditRow(8, "orders.3.8.980", 980, 500, Outcome.DEAD, None, "too-large"),
        AuditRow(9, None, None, 500, Outcome.APPLIED),
    ]
    plain = PlainRows([1, 2], [960, 999], [b"1.960", b"2.999"], b"500,501")
    metrics.finished(ORDERS, CommitResult(rows, 1000, plain=[plain]))

    def finished(outcome: str) -> float | None:
        return registry.get_sample_value("delayline_messages_finished_total", {"topic": "orders", "outcome": outcome})

    assert [finished(outcome) for outcome in ("delivered", "dead", "applied")] == [3, 1, None]
    late = [
        registry.get_sample_value("delayline_delivery_lateness_seconds_bucket", {"topic": "orders", "le": bound})
        for bound in ("0.005", "0.01", "0.025", "0.05", "+Inf")
    ]
    assert late == [1, 2, 2, 3, 3]
    assert [history.find(ORDERS, offset) is not None for offset in (1, 2, 7, 8, 9)] == [True] * 4 + [False]
