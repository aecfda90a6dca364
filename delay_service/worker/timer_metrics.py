"""A worker's figures under the names that RocketMQ's brokers give those of their timer, for dashboards and alerts.

Source: `DefaultStoreMetricsConstant` and `DefaultStoreMetricsManager` of RocketMQ 5. Those figures are of a broker,
and these of a worker; so the labels of a node are not there.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from delayline.buffer.outcome import Outcome

Samples = Callable[[], Iterable[Metric]]


class TimerMetrics(Collector):
    """`worker` has the worker's own families, by the names of `WorkerMetrics`."""

    def __init__(self, registry: CollectorRegistry, worker: Samples) -> None:
        self._worker = worker
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        found = {family.name: family for family in self._worker()}
        waiting = GaugeMetricFamily("rocketmq_timing_messages", "Messages waiting, as indexed", labels=["topic"])
        for topic, count in _by_topic(found, "delayline_pending_messages").items():
            waiting.add_metric([topic], count)
        yield waiting
        ended = CounterMetricFamily("rocketmq_timer_dequeue", "Messages delivered", labels=["topic"])
        for topic, count in _by_topic(found, "delayline_messages_finished", outcome=Outcome.DELIVERED.value).items():
            ended.add_metric([topic], count)
        yield ended
        unread = sum(_by_topic(found, "delayline_ingest_lag_records").values())
        yield GaugeMetricFamily("rocketmq_timer_enqueue_lag", "Buffer records not read yet", value=unread)
        backlog = sum(_by_topic(found, "delayline_due_backlog_messages").values())
        yield GaugeMetricFamily(
            "rocketmq_timer_dequeue_lag", "Messages that are due and not delivered", value=backlog
        )
        oldest_s = max(_by_topic(found, "delayline_oldest_due_age_seconds").values(), default=0.0)
        text = "Age of the oldest message that is due, in milliseconds"
        yield GaugeMetricFamily("rocketmq_timer_dequeue_latency", text, value=1000 * oldest_s)


def _by_topic(found: Mapping[str, Metric], name: str, **labels: str) -> dict[str, float]:
    """Sums of a family's samples that have these labels; without those of when a counter was made."""
    totals: dict[str, float] = {}
    for sample in found[name].samples if name in found else ():
        if labels.items() <= sample.labels.items() and not sample.name.endswith("_created"):
            topic = sample.labels["topic"]
            totals[topic] = totals.get(topic, 0.0) + sample.value
    return totals
