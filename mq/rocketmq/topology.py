"""What brokers have of topics, those that are down among them.

Name servers forget a broker's topics with the broker. Its shards are there all the same: what waits in them is
delivered when it is back, and until then it must be missed, and numbers of partitions must not move. So what a broker
was seen to have counts until it is registered again, with all that it has then. A process that is started while a
broker is down does not know of it.
"""

from collections.abc import Set
from typing import NamedTuple

from delayline.clock import Clock
from mq.rocketmq.naming import is_broker_name
from rocketmq.client.client import Client
from rocketmq.errors import TopicMissing
from rocketmq.wire.bodies import QueueRange
from rocketmq.wire.headers.admin import Permission

DOWN_S = 1.0
"""So long a broker that was not registered counts as down without another question about it."""


class TopicOnBroker(NamedTuple):
    """A topic on one broker. `is_writable`: by its permissions, which name servers take from a topic whose master is
    gone, and that is no trouble of the topic's. Without `has_master` the broker takes nothing now."""

    queues: int
    is_writable: bool
    sys_flag: int
    has_master: bool = True


class Topology:
    """Any thread. Each method raises RocketmqError."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._seen: dict[str, dict[str, TopicOnBroker]] = {}  # by wire name; bounded by the topics there ever were
        self._down_s: dict[str, float] = {}  # when brokers were last seen to be down; bounded by the brokers

    @property
    def seen(self) -> Set[str]:
        """Wire names of topics that have been asked for, and were there."""
        return self._seen.keys()

    def masters(self) -> set[str]:
        """Names of brokers that take writes."""
        return {name for name in self._client.admin.brokers() if is_broker_name(name)}

    def held(self, wire: str) -> dict[str, TopicOnBroker]:
        """By broker; nothing where there is no such topic."""
        seen, found = self._seen.get(wire, {}), self._routed(wire)
        if gone := seen.keys() - found.keys():
            down = self._down(gone)
            if down != gone:  # the others came after the route was asked for, or have the topic no more
                self._client.names.forget(wire)
                found = self._routed(wire)
            # rule down-kept: what waits on a broker that is down would be missed by no list, and own ids be free.
            found |= {broker: seen[broker]._replace(has_master=False) for broker in down}
        found = {broker: _with_queues_of(seen.get(broker, one), one) for broker, one in found.items()}
        if found:
            self._seen[wire] = found
        else:
            self._seen.pop(wire, None)
        return found

    def _down(self, brokers: set[str]) -> set[str]:
        """Those that have no registered master, or had none a moment ago."""
        now_s = self._clock.monotonic_s()
        unsure = {broker for broker in brokers if now_s - self._down_s.get(broker, float("-inf")) > DOWN_S}
        if unsure:
            down = unsure - self.masters()
            self._down_s.update(dict.fromkeys(down, now_s))
            unsure -= down
        return brokers - unsure

    def _routed(self, wire: str) -> dict[str, TopicOnBroker]:
        """By name servers alone."""
        try:
            route = self._client.names.route(wire)
        except TopicMissing:
            return {}
        return {
            one.broker: _held(one, route.master_of(one.broker) is not None)
            for one in route.queues
            if is_broker_name(one.broker)
        }


def _with_queues_of(seen: TopicOnBroker, now: TopicOnBroker) -> TopicOnBroker:
    """A replica without its master may not know of the last ones yet."""
    return now if now.has_master else now._replace(queues=max(now.queues, seen.queues))


def _held(one: QueueRange, has_master: bool) -> TopicOnBroker:
    writable = bool(one.permission & Permission.WRITE) or not has_master
    queues = min(one.readable, one.writable) if writable else one.readable
    return TopicOnBroker(queues, writable, one.topic_sys_flag, has_master)
