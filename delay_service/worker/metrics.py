"""What a worker reports about itself (Prometheus, base units)."""

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from delay_service.core.history import History
from delay_service.core.in_flight import CommitResult
from delay_service.worker.decisions import Decisions
from delay_service.worker.owned import ShardStatus
from delayline.buffer.outcome import AuditRow, Outcome
from delayline.clock import Clock
from delayline.records.message import Shard

LATENESS_BOUNDS_MS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 60_000, 600_000, 3_600_000)
COMMIT_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Lateness:
    """A histogram fed by the batch: one Prometheus observation per message would cost as much as the message."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._sums_ms: Tally[str] = Tally()

    def observe(self, topic: str, at_ms: int, dues_ms: Sequence[int]) -> None:
        """Messages that were delivered at `at_ms`; due times ascend. Hot: where a bound lies among them is searched
        for, so that it costs by the batch and not by the message."""
        counts = self._counts.setdefault(topic, [0] * (len(LATENESS_BOUNDS_MS) + 1))
        later = len(dues_ms)  # than the bound
        for slot, bound_ms in enumerate(LATENESS_BOUNDS_MS):
            before, later = later, bisect_left(dues_ms, at_ms - bound_ms, 0, later)
            counts[slot] += before - later
            if not later:
                break
        counts[-1] += later
        self._sums_ms[topic] += at_ms * len(dues_ms) - sum(dues_ms)

    def family(self) -> HistogramMetricFamily:
        name, text = "delayline_delivery_lateness_seconds", "Moment of delivery minus due time"
        family = HistogramMetricFamily(name, text, labels=["topic"])
        bounds = [*(f"{bound / 1000:g}" for bound in LATENESS_BOUNDS_MS), "+Inf"]
        for topic, counts in list(self._counts.items()):
            running, buckets = 0, []
            for bound, count in zip(bounds, counts, strict=True):
                running += count
                buckets.append((bound, float(running)))
            family.add_metric([topic], buckets, self._sums_ms[topic] / 1000)
        return family


class WorkerMetrics(Collector):
    """The worker's observer, and the collector that reads its shards on each scrape."""

    def __init__(self, registry: CollectorRegistry, history: History, decisions: Decisions, clock: Clock) -> None:
        self._history = history
        self._decisions = decisions
        self._clock = clock
        self._lateness = Lateness()
        self._statuses: Callable[[], Sequence[ShardStatus]] = tuple
        self._finished = Counter(
            "delayline_messages_finished", "Messages by outcome", ["topic", "outcome"], registry=registry
        )
        self._commit = Histogram(
            "delayline_commit_duration_seconds", "One commit of the queue", registry=registry, buckets=COMMIT_BOUNDS_S
        )
        self._halved = Counter(
            "delayline_batches_halved",
            "Batches that are taken again in halves: commit aborted, its end unknown, a record refused",
            ["reason"],
            registry=registry,
        )
        self._group_topics = Counter(
            "delayline_group_topics_refused",
            "Messages for a consumer group whose topic was not made because of retry.topics_made_max",
            ["topic"],
            registry=registry,
        )
        registry.register(self)

    def watch(self, statuses: Callable[[], Sequence[ShardStatus]]) -> None:
        """Where the shard gauges come from."""
        self._statuses = statuses

    # --- delay_service.worker.loop.Observer

    def finished(self, shard: Shard, finished: CommitResult) -> None:
        at_ms, rows, plain = finished.at_ms, finished.rows, finished.plain
        outcomes = Tally(row.outcome for row in rows if row.id is not None)
        self._lateness.observe(shard.topic, at_ms, _dues_ms(rows, Outcome.DELIVERED))
        for block in plain:
            self._lateness.observe(shard.topic, at_ms, block.dues_ms)
            outcomes[Outcome.DELIVERED] += len(block)
        for outcome, count in outcomes.items():
            self._finished.labels(shard.topic, outcome.value).inc(count)
        self._history.record(shard, rows, at_ms, finished.versions, plain)
        if finished.resolved:
            self._decisions.record(shard, finished.resolved)

    def committed(self, seconds: float) -> None:
        self._commit.observe(seconds)

    def halved(self, reason: str) -> None:
        self._halved.labels(reason).inc()

    def group_topic_refused(self, topic: str) -> None:
        self._group_topics.labels(topic).inc()

    def families(self) -> Iterator[Metric]:
        """All that is read on a scrape, and what has ended."""
        yield from self.collect()
        yield from self._finished.collect()

    # --- prometheus_client.registry.Collector

    def collect(self) -> Iterator[Metric]:
        statuses = self._statuses()
        yield self._lateness.family()
        pending = ((status.id.topic, status.pending) for status in statuses)
        yield self._sum_by_topic("delayline_pending_messages", "Messages waiting, as indexed", pending)
        repeats = ((status.id.topic, status.repeats) for status in statuses)
        yield self._sum_by_topic("delayline_pending_repeats", "Of them, messages that repeat", repeats)
        backlog = ((status.id.topic, status.backlog) for status in statuses)
        yield self._sum_by_topic("delayline_due_backlog_messages", "Messages that are due and not delivered", backlog)
        limited = ((status.id.topic, int(status.rate_limited)) for status in statuses)
        text = "Shards whose due messages wait for their topic's rate_max"
        yield self._sum_by_topic("delayline_rate_limited_shards", text, limited)
        held = ((status.id.topic, status.held) for status in statuses)
        text = "Buffer records that are kept for the reconcile job alone, counted by offset"
        yield self._sum_by_topic("delayline_buffer_held_records", text, held)
        yield self._oldest(statuses)
        yield self._buffer_age(statuses)
        yield self._buffer_kept(statuses)
        yield self._clocks(statuses)
        lag = GaugeMetricFamily(
            "delayline_ingest_lag_records", "Buffer records not read yet", labels=["topic", "partition"]
        )
        stalled = GaugeMetricFamily(
            "delayline_shard_stalled", "1 while a shard cannot go on", labels=["topic", "partition", "reason"]
        )
        for status in statuses:
            lag.add_metric([*status.id], status.ingest_lag)
            if status.stalled:
                stalled.add_metric([*status.id, status.stalled], 1)
        yield lag
        yield stalled

    @staticmethod
    def _sum_by_topic(name: str, text: str, counts: Iterable[tuple[str, int]]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, text, labels=["topic"])
        totals: Tally[str] = Tally()
        for topic, count in counts:
            totals[topic] += count
        for topic, total in totals.items():
            family.add_metric([topic], total)
        return family

    def _oldest(self, statuses: Sequence[ShardStatus]) -> GaugeMetricFamily:
        """How long the oldest message that is due has been waiting; 0 where nothing is due."""
        family = GaugeMetricFamily(
            "delayline_oldest_due_age_seconds", "Age of the oldest message that is due", labels=["topic"]
        )
        self._add_greatest(family, ((status.id.topic, status.oldest_due_ms) for status in statuses))
        return family

    def _buffer_age(self, statuses: Sequence[ShardStatus]) -> GaugeMetricFamily:
        """How far back the buffer reaches: what lies before may be trimmed, and is no more needed."""
        family = GaugeMetricFamily(
            "delayline_buffer_oldest_age_seconds", "Age of the first buffer record still needed", labels=["topic"]
        )
        self._add_greatest(family, ((status.id.topic, status.low_appended_at_ms) for status in statuses))
        return family

    @staticmethod
    def _buffer_kept(statuses: Sequence[ShardStatus]) -> GaugeMetricFamily:
        """Nothing for topics whose records stay until they are trimmed."""
        family = GaugeMetricFamily(
            "delayline_buffer_kept_seconds",
            "Age at which the queue deletes buffer records, also those still needed",
            labels=["topic"],
        )
        least: dict[str, float] = {}
        for topic, kept_s in ((status.id.topic, status.kept_s) for status in statuses):
            if kept_s is not None:
                least[topic] = min(kept_s, least.get(topic, kept_s))
        for topic, kept_s in least.items():
            family.add_metric([topic], kept_s)
        return family

    def _add_greatest(self, family: GaugeMetricFamily, moments: Iterable[tuple[str, int | None]]) -> None:
        """The greatest age by topic, 0 where there is nothing, or nothing that has passed."""
        now_ms = self._clock.now_ms()
        ages: dict[str, int] = {}
        for topic, moment_ms in moments:
            age_ms = max(0, now_ms - moment_ms) if moment_ms is not None else 0
            ages[topic] = max(ages.get(topic, 0), age_ms)
        for topic, age_ms in ages.items():
            family.add_metric([topic], age_ms / 1000)

    @staticmethod
    def _clocks(statuses: Sequence[ShardStatus]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "delayline_clock_offset_seconds", "This machine's clock minus a broker's, as measured", labels=["broker"]
        )
        clocks = {status.clock.broker: status.clock for status in statuses if status.clock is not None}
        for broker, clock in clocks.items():
            family.add_metric([broker], clock.middle_ms / 1000)
        return family


def _dues_ms(rows: Iterable[AuditRow], outcome: Outcome) -> list[int]:
    """Due times of the messages that had this outcome, ascending."""
    return sorted(row.due_ms for row in rows if row.outcome is outcome and row.due_ms is not None)
