"""Names of topics and partitions, as Delayline and as RocketMQ have them.

RocketMQ's topics have no full stops (`TopicValidator`): those in names of our own are percent signs there, which
topics of users cannot have here. `delayline.buffer.orders` is `delayline%buffer%orders`.
A partition is a queue of a broker: `<broker>:<queue id>`.
"""

import re
from typing import NamedTuple

from delayline.names import Names, is_topic_name
from mq.errors import PartitionUnknown, TopicUnknown
from rocketmq.wire.bodies import Queue

TOPIC_CHARS_MAX = 127
"""`TopicValidator.TOPIC_MAX_LENGTH`."""

_BROKER = re.compile(r"[a-zA-Z0-9_-]{1,100}")
_ID = re.compile(r"0|[1-9][0-9]{0,4}", re.ASCII)
_SYSTEM = frozenset(
    {
        *("TBW102", "BenchmarkTest", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX"),
        "TRANS_CHECK_MAX_TIME_TOPIC",
    }
)


def is_broker_name(name: str) -> bool:
    """Whether a broker of this name can have shards: message ids hold its name between full stops."""
    return _BROKER.fullmatch(name) is not None


class Place(NamedTuple):
    """Where a partition is, as its name has it."""

    broker: str
    queue_id: int

    @property
    def name(self) -> str:
        return f"{self.broker}:{self.queue_id}"

    def of(self, wire_topic: str) -> Queue:
        return Queue(wire_topic, self.broker, self.queue_id)


def place_of(name: str, topic: str) -> Place:
    """Raises PartitionUnknown for what is no name of a partition."""
    broker, _, number = name.rpartition(":")
    if not is_broker_name(broker) or not _ID.fullmatch(number):
        raise PartitionUnknown(f"{topic} has no partition {name!r}")
    return Place(broker, int(number))


class WireNames:
    """Of one installation."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._own = names.namespace.replace(".", "%") + "%"

    def out(self, topic: str) -> str:
        """The name in RocketMQ. Raises TopicUnknown for what cannot be a name there."""
        if not is_topic_name(topic):
            raise TopicUnknown(f"{topic!r} cannot be a topic: 1 to {TOPIC_CHARS_MAX} of a-z A-Z 0-9 _ -")
        wire = topic.replace(".", "%") if self.names.is_own(topic) else topic
        if "." in wire or len(wire) > TOPIC_CHARS_MAX:
            raise TopicUnknown(f"{topic!r} cannot be a topic of RocketMQ: {TOPIC_CHARS_MAX} of a-z A-Z 0-9 _ -")
        if _is_system(wire):
            raise TopicUnknown(f"{topic!r} is a topic of RocketMQ's own")
        return wire

    def back(self, wire: str) -> str:
        """The name in Delayline."""
        return wire.replace("%", ".") if wire.startswith(self._own) else wire

    @property
    def marks(self) -> str:
        """The topic, as RocketMQ names it, that every broker has: for marks, and to reach a broker by."""
        return self.out(self.names.cursor)

    def journal(self, topic: str) -> str:
        """The topic, as RocketMQ names it, of the journals (`journal`) of the shards of `topic`."""
        return self.out(f"{self.names.cursor}.{topic}")

    def claim(self, name: str) -> str:
        """The topic, as RocketMQ names it, of the journals of the claim of `name`: a queue on each broker."""
        return self.out(f"{self.names.namespace}.claim.{name}")

    def is_delivered_to(self, wire: str) -> bool:
        """Whether consumers read the topic: it is a user's, or a group's."""
        return not self.names.is_hidden(self.back(wire))

    def is_users(self, wire: str) -> bool:
        """Whether the topic is neither ours nor RocketMQ's own."""
        return is_topic_name(wire) and not _is_system(wire)


def _is_system(wire: str) -> bool:
    """`TopicValidator.isSystemTopic`, and replies."""
    return wire in _SYSTEM or wire.lower().startswith("rmq_sys_") or wire.endswith("_REPLY_TOPIC")
