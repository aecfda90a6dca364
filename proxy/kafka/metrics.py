"""The proxy's own metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from delayline.process.accepted import accepted_counter
from delayline.schedule.unheeded import UnheededNames


class ProxyMetrics:
    """On the process' registry. `accepted` and `unheeded` may exist there already, made for HTTP: then they are
    handed in."""

    def __init__(
        self, registry: CollectorRegistry, accepted: Counter | None = None, unheeded: UnheededNames | None = None
    ) -> None:
        self.unheeded = unheeded or UnheededNames(registry)
        self.accepted = accepted or accepted_counter(registry)
        self.connections = Gauge(
            "delayline_kafka_proxy_connections", "Clients connected to the Kafka proxy.", registry=registry
        )
        received = Counter(
            "delayline_kafka_proxy_received_bytes",
            "Bytes from clients and from brokers.",
            ("side",),
            registry=registry,
        )
        self.from_clients = received.labels("client")
        self.from_servers = received.labels("broker")
        self.limited = Counter(
            "delayline_kafka_proxy_limited",
            "Connections ended, and requests refused, for a limit of the settings.",
            ("limit",),
            registry=registry,
        )
        self.held_bytes = Gauge(
            "delayline_kafka_proxy_held_bytes",
            "Held of clients' requests, and decompressed records of theirs.",
            registry=registry,
        )
        self.recoveries = Counter(
            "delayline_kafka_proxy_recoveries",
            "Producers' states read back from a target topic, after a connection was lost.",
            registry=registry,
        )
        self.refused_batches = Counter(
            "delayline_kafka_proxy_refused_batches",
            "Batches refused for their directives, their size, or because there is no buffer.",
            registry=registry,
        )
        self.refused_requests = Counter(
            "delayline_kafka_proxy_refused_requests",
            "Requests that named a topic of Delayline's own.",
            registry=registry,
        )
        self.undrained = Counter(
            "delayline_kafka_proxy_undrained",
            "Connections whose client had gone before its last requests were carried out, within drain_max.",
            registry=registry,
        )
