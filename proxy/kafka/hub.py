"""What all connections of one proxy share."""

import asyncio
import ssl
from dataclasses import dataclass

from delayline.access.ledger import Ledger
from delayline.clock import Clock
from delayline.questions.pending import Full
from mq.contract import Admin
from proxy.kafka.limits import THREADS_MAX
from proxy.kafka.metrics import ProxyMetrics
from proxy.kafka.produce.buffer_topics import BufferTopics
from proxy.kafka.produce.screen import Screen
from proxy.kafka.produce.unnamed import Unnamed
from proxy.kafka.settings import ProxySettings
from proxy.kafka.upstream.backend import Backend
from proxy.kafka.view.rewrite import Hidden, View
from proxy.kafka.view.topology import Topology
from proxy.limits import Budget


@dataclass(frozen=True, slots=True)
class Hub:
    """Belongs to one event loop. Made by `open_hub`."""

    settings: ProxySettings
    clock: Clock
    metrics: ProxyMetrics
    topology: Topology
    view: View
    screen: Screen
    backend: Backend
    buffer_topics: BufferTopics
    budget: Budget
    looking: asyncio.Semaphore  # at records, beside the event loop
    full: Full
    ledger: Ledger | None = None  # of what clients use; None without quotas

    def unnamed(self) -> Unnamed:
        """What looks at batches for topics without delays, for a new connection."""
        settings = self.settings
        aliases, refuse = settings.rules_for("").aliases, settings.refuse_unknown
        return Unnamed(self.metrics.unheeded, aliases, self._is_users, refuse=refuse)

    def _is_users(self, topic: str) -> bool:
        return not topic.startswith("__") and not self.settings.names.is_own(topic)

    @property
    def relayed_tls(self) -> ssl.SSLContext | None:
        """Of clients' connections to brokers."""
        return self.settings.access.relayed_tls

    def close(self) -> None:
        self.buffer_topics.close()
        self.backend.close()


def open_hub(
    settings: ProxySettings,
    admin: Admin,
    metrics: ProxyMetrics,
    clock: Clock,
    full: Full,
    ledger: Ledger | None = None,
) -> Hub:
    topology = Topology(settings)
    backend = Backend(settings, topology, clock)
    buffer_topics = BufferTopics(settings, backend, admin, clock)
    names, mark = settings.names, f"{settings.names.namespace}.".encode()
    hidden = Hidden(names.is_hidden, mark, buffer_topics.hidden_ids, names.group_prefixes)
    screen = Screen(
        settings.rules_for,
        settings.horizon_max_ms,
        unheeded=metrics.unheeded,
        refuse_unknown=settings.refuse_unknown,
    )
    view, limits = View(topology.advertise, hidden), settings.limits
    budget = Budget(limits.held_bytes_max, metrics.held_bytes)
    looking = asyncio.Semaphore(THREADS_MAX)
    return Hub(
        settings, clock, metrics, topology, view, screen, backend, buffer_topics, budget, looking, full, ledger
    )
