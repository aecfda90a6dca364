"""How large a topic's batches may be."""

from collections.abc import Mapping
from typing import Protocol

from mq.errors import QueueError

BATCH_BYTES_MAX = 1_048_588
"""Brokers' default (`message.max.bytes`); larger batches save nothing where topics would take them."""


class TopicConfigs(Protocol):
    """See `mq.kafka.admin.cluster.Cluster`."""

    def config(self, name: str, /) -> Mapping[str, str]: ...


class Limits:
    """Asks for a topic's limit once, and again after it was `refused`. One thread at a time."""

    def __init__(self, cluster: TopicConfigs) -> None:
        self._cluster = cluster
        self._known: dict[str, int] = {}  # bounded by the cluster's topics

    def of(self, topic: str) -> int:
        """In bytes, compression included. Blocks for a topic that is not known."""
        if topic not in self._known:
            try:
                asked = int(self._cluster.config(topic)["max.message.bytes"])
            except (QueueError, KeyError):  # we may not ask; the broker judges, and a refused batch is halved
                asked = BATCH_BYTES_MAX
            self._known[topic] = min(asked, BATCH_BYTES_MAX)
        return self._known[topic]

    def refused(self, topic: str) -> None:
        """A batch was too large all the same: the topic's limit has changed."""
        self._known.pop(topic, None)
