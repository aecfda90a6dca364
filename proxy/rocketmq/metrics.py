"""The proxy's own metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from delayline.process.accepted import accepted_counter
from delayline.schedule.unheeded import UnheededNames


class RocketmqProxyMetrics:
    """On the process' registry. `accepted` and `unheeded` may exist there already, made for HTTP: then they are
    handed in."""

    def __init__(
        self, registry: CollectorRegistry, accepted: Counter | None = None, unheeded: UnheededNames | None = None
    ) -> None:
        self.unheeded = unheeded or UnheededNames(registry)
        self.accepted = accepted or accepted_counter(registry)
        self.connections = Gauge(
            "delayline_rocketmq_proxy_connections", "Clients connected to the RocketMQ proxy.", registry=registry
        )
        received = Counter(
            "delayline_rocketmq_proxy_received_bytes",
            "Bytes from clients and from servers.",
            ("side",),
            registry=registry,
        )
        self.from_clients = received.labels("client")
        self.from_servers = received.labels("server")
        self.limited = Counter(
            "delayline_rocketmq_proxy_limited",
            "Connections ended, and requests refused, for a limit of the settings.",
            ("limit",),
            registry=registry,
        )
        self.held_bytes = Gauge(
            "delayline_rocketmq_proxy_held_bytes", "Held of clients' requests.", registry=registry
        )
        self.refused_sends = Counter(
            "delayline_rocketmq_proxy_refused_sends",
            "Sends refused here, by the code of the answer.",
            ("code",),
            registry=registry,
        )
        self.recalls = Counter(
            "delayline_rocketmq_proxy_recalls",
            "Recalls of messages that Delayline holds, by the code of the answer.",
            ("code",),
            registry=registry,
        )
