"""What can be set of a queue on brokers, whichever kind it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from delayline.names import Names, installation
from mq.group_topic_limit import GROUP_TOPICS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """`address` is where the worker's process answers questions about its shards; others learn it from the queue.
    Raises ConfigError."""

    namespace: str = "delayline"
    topics_create: bool = True
    group_topics_max: int = GROUP_TOPICS_MAX  # made in an hour, for what comes from one topic
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # the client's own, with passwords
    address: str = ""
    discovery_interval_s: float = 2.0
    tend_interval_s: float = 30.0  # between two looks at what buffer topics should be
    request_timeout_s: float = 10.0
    poll_interval_max_s: float = 45.0  # a worker that has not polled for so long gives its shards up; Kafka's brokers
    # wait as long for members of a rebalance, even for those that are gone

    def __post_init__(self) -> None:
        installation(self.namespace)

    @property
    def names(self) -> Names:
        return Names(self.namespace)
