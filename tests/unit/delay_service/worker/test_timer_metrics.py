"""What RocketMQ's dashboards of its timer find of a worker."""

from dataclasses import replace

from prometheus_client import CollectorRegistry

from delay_service.core.history import History
from delay_service.core.in_flight import CommitResult
from delay_service.worker.decisions import Decisions
from delay_service.worker.metrics import WorkerMetrics
from delay_service.worker.owned import ShardStatus
from delay_service.worker.timer_metrics import TimerMetrics
from delayline.buffer.outcome import AuditRow, Outcome
from delayline.clock import ManualClock
from delayline.records.message import Shard

ORDERS = Shard("orders", "broker-a:0")


def test_a_workers_figures_have_the_names_of_rocketmqs_timer() -> None:
    registry, clock = CollectorRegistry(), ManualClock()
    worker = WorkerMetrics(registry, History(100, 60_000), Decisions(), clock)
    TimerMetrics(registry, worker.families)
    status = ShardStatus(ORDERS, True, None, "", pending=7, ingest_lag=3, backlog=2)
    second = replace(status, id=Shard("orders", "broker-a:1"), oldest_due_ms=clock.now_ms() - 1500)
    mails = replace(status, id=Shard("mails", "broker-a:0"), pending=1)
    worker.watch(lambda: [status, second, mails])
    rows = [
        AuditRow(7, "orders.3.7.990", 990, 500, Outcome.DELIVERED),
        AuditRow(8, "orders.3.8.980", 980, 500, Outcome.CANCELLED),
    ]
    worker.finished(ORDERS, CommitResult(rows, 1000))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"rocketmq_{name}", labels)

    assert (value("timing_messages", topic="orders"), value("timing_messages", topic="mails")) == (14, 1)
    assert value("timer_dequeue_total", topic="orders") == 1
    assert (value("timer_enqueue_lag"), value("timer_dequeue_lag"), value("timer_dequeue_latency")) == (9, 6, 1500)


def test_a_worker_without_shards_has_the_names_too() -> None:
    registry = CollectorRegistry()
    TimerMetrics(registry, WorkerMetrics(registry, History(100, 60_000), Decisions(), ManualClock()).families)
    assert registry.get_sample_value("rocketmq_timer_dequeue_latency") == 0
