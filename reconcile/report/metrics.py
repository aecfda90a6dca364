"""metrics.prom: for Prometheus' textfile collector. Gauges, because windows are judged anew when rows come late."""

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from reconcile.exits import IN_WORDS
from reconcile.logic.ledger import Category
from reconcile.report.summary import Ledger, State, Summary, TopicSummary


class _Gauges:
    """The names are in docs/reconcile.md; a new one belongs there, too."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"delayline_reconcile_{name}", text, labels, registry=registry)

        self.records = gauge("records", "Terms of the ledger since the first run.", "topic", "category")
        self.findings = gauge("findings", "Findings, by the latest check of every window.", "topic", "category")
        self.fresh = gauge("fresh_findings", "Findings in the windows that this run has judged.", "topic", "category")
        self.state = gauge("topic_state", "1 for the state that the topic is in, else 0.", "topic", "state")
        self.closed = gauge(
            "last_closed_window_seconds", "Every window that ends here or before is judged; epoch seconds.", "topic"
        )
        self.open = gauge("open_records", "Records whose window is not closed yet.", "topic")
        self.unauditable = gauge("unauditable", "Records whose outcome can no longer be known.", "topic")
        self.malformed = gauge("malformed_audit_records", "Audit records that this run could not read.")
        self.seconds = gauge("run_seconds", "How long the run took.")
        self.last_run = gauge("last_run_timestamp_seconds", "When the run looked at the queue; epoch seconds.")
        self.exit_code = gauge("exit_code", f"Of the run: {IN_WORDS}.")

    def set_all(self, summary: Summary) -> None:
        for topic in summary.topics:
            self._set_topic(topic)
        self.malformed.set(summary.malformed_total)
        self.seconds.set(summary.seconds)
        self.last_run.set(summary.at_ms / 1000)
        self.exit_code.set(summary.exit_code)

    def _set_topic(self, topic: TopicSummary) -> None:
        name = topic.topic
        for term in Ledger.__struct_fields__:
            self.records.labels(name, term).set(getattr(topic.ledger, term))
        for category in Category:
            self.findings.labels(name, category).set(topic.findings.get(category, 0))
            self.fresh.labels(name, category).set(topic.fresh.get(category, 0))
        for state in State:
            self.state.labels(name, state).set(topic.state is state)
        if topic.closed_until_ms is not None:
            self.closed.labels(name).set(topic.closed_until_ms / 1000)
        self.open.labels(name).set(topic.ledger.pending)
        self.unauditable.labels(name).set(topic.ledger.unauditable)


def render_metrics(summary: Summary) -> bytes:
    """Prometheus' text format."""
    registry = CollectorRegistry()
    _Gauges(registry).set_all(summary)
    return generate_latest(registry)
