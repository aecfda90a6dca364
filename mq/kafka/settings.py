"""What can be set, and how every kind of client is configured."""

import logging
from dataclasses import dataclass, field
from typing import Any

from delayline.errors import ConfigError
from delayline.records.set_aside import RAW_BYTES_MAX
from kafkawire.security.oauth.tokens import Tokens
from mq.broker_settings import BrokerSettings
from mq.kafka.properties import for_library, refuse_unspoken, tokens_of

OURS = frozenset(
    {
        *(
            "bootstrap.servers",
            "metadata.broker.list",
            "group.id",
            "client.id",
            "transactional.id",
            "group.instance.id",
        ),
        *("group.protocol", "group.remote.assignor", "partition.assignment.strategy"),
        *("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms", "transaction.timeout.ms"),
        *("isolation.level", "auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store"),
        *("enable.partition.eof", "enable.idempotence", "acks", "request.required.acks", "allow.auto.create.topics"),
        *("message.timeout.ms", "delivery.timeout.ms", "topic.metadata.refresh.interval.ms"),
        *("delivery.report.only.error",),
    }
)
"""Properties that a promise hangs on. `properties.py` documents the others."""

ADRIFT_SESSIONS = 5
"""A client of the library that hears nothing, or that the group has dropped, is made anew after so many sessions."""

LOGGER = logging.getLogger("librdkafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings(BrokerSettings):
    """Raises ConfigError."""

    bootstrap_servers: str
    session_timeout_s: float = 6.0
    transaction_timeout_s: float = 10.0  # what an open transaction of a dead process can hold up
    tend_interval_s: float = 30.0  # between two looks at what buffer topics should be
    set_aside_bytes_max: int = RAW_BYTES_MAX  # of a batch that cannot be taken apart, in its dead letter

    tokens: Tokens | None = field(init=False, repr=False, compare=False)  # of everything that logs in by them

    def __post_init__(self) -> None:
        if not self.bootstrap_servers:
            raise ConfigError("mq.bootstrap_servers is empty")
        BrokerSettings.__post_init__(self)  # `super()` knows nothing of the class that `slots` makes
        if taken := sorted(OURS & self.properties.keys()):
            raise ConfigError(f"mq.properties: {', '.join(taken)} cannot be set, Delayline's promises hang on it")
        refuse_unspoken(self.properties)
        object.__setattr__(self, "tokens", tokens_of(self.properties))

    @property
    def offsets_timeout_s(self) -> float:
        """For the group's coordinator to take the offsets of a transaction: much less than the transaction may last,
        so that a worker is back soon after an outage."""
        return min(self.request_timeout_s, self.transaction_timeout_s) / 2

    @property
    def adrift_s(self) -> float:
        """ADRIFT_SESSIONS in seconds."""
        return ADRIFT_SESSIONS * self.session_timeout_s

    @property
    def group(self) -> str:
        return f"{self.namespace}-worker"

    @property
    def reconcile_group(self) -> str:
        """The group whose committed offsets show how far the buffers have been audited. It has no members."""
        return f"{self.namespace}-reconcile"

    # --- how clients are configured; each raises QueueUnavailable where there is no token to log in with

    def _common(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "socket.keepalive.enable": True,
            "reconnect.backoff.ms": 10,  # also waited for before the first connection that is not the bootstrap's
            "reconnect.backoff.max.ms": 2000,
            **for_library(self.properties, self.tokens),
            "logger": LOGGER,
        }

    def admin(self) -> dict[str, Any]:
        """Its questions go to the controller, or to the broker that answers for it. Without topics of its own
        the library does not notice that this one is gone before it looks at the cluster again, every five minutes."""
        return {
            **self._common(),
            "topic.metadata.refresh.interval.ms": int(self.discovery_interval_s * 1000),
            "allow.auto.create.topics": False,
        }

    def member(self, client_id: str) -> dict[str, Any]:
        """A member of the worker group that never fetches. Heartbeats are frequent, because members learn from them
        that a member has come or gone."""
        return {
            **self._common(),
            "group.id": self.group,
            "client.id": client_id,
            "group.protocol": "classic",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": int(self.session_timeout_s * 1000),
            "heartbeat.interval.ms": int(self.session_timeout_s * 1000 / 30),
            "max.poll.interval.ms": int(max(self.poll_interval_max_s, self.session_timeout_s) * 1000),
            "topic.metadata.refresh.interval.ms": int(self.discovery_interval_s * 1000),
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "allow.auto.create.topics": False,
        }

    def reader(self) -> dict[str, Any]:
        """Reads from given offsets, committed records only. It is no member, the name is for access control."""
        return {
            "queued.max.messages.kbytes": 16 << 10,
            "fetch.wait.max.ms": 100,
            **self._common(),
            "group.id": self.group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "allow.auto.create.topics": False,
        }

    def producer(self) -> dict[str, Any]:
        """Idempotent and acknowledged by all. Its callers bound its queue; brokers judge
        sizes, not the library."""
        return {
            "linger.ms": 1,
            "retry.backoff.ms": 10,
            "queue.buffering.max.messages": 0,
            "queue.buffering.max.kbytes": 2_000_000,
            "message.max.bytes": 1_000_000_000,
            "topic.metadata.propagation.max.ms": 2000,
            **self._common(),
            "topic.metadata.refresh.interval.ms": int(self.discovery_interval_s * 1000),  # for added partitions
            "enable.idempotence": True,
            "message.timeout.ms": int(self.transaction_timeout_s * 1000),
            "allow.auto.create.topics": False,
        }

    def transactional(self, transactional_id: str) -> dict[str, Any]:
        return {
            **self.producer(),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(self.transaction_timeout_s * 1000),
        }
