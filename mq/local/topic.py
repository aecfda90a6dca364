"""Topics and partitions as this process knows them."""

from dataclasses import dataclass
from threading import Condition, Lock

from delayline.records.message import Shard
from mq.contract import TopicInfo
from mq.errors import PartitionUnknown


@dataclass(slots=True, eq=False)
class Partition:
    """One log. Readers see `[start, end)`, which change under the ledger's lock; `next_offset` belongs to
    the thread that places steps, and runs ahead while a group is being written."""

    topic: "Topic"
    number: int
    name: str
    shard: Shard | None  # of a buffer topic's partition
    start: int = 0
    end: int = 0
    next_offset: int = 0


class Topic:
    """A topic; `target` is the topic whose messages wait here, None where this is no buffer topic."""

    def __init__(
        self, number: int, name: str, topic_id: bytes, partitions: int, target: str | None, lock: Lock
    ) -> None:
        self.number = number
        self.name = name
        self.topic_id = topic_id
        self.target = target
        self.partitions = tuple(self._partition(index) for index in range(partitions))
        self.grown = Condition(lock)
        self.deleted = False
        """Set when the deletion is placed: nothing is placed behind it, although readers may still see the topic."""
        self._by_name = {partition.name: partition for partition in self.partitions}

    def _partition(self, index: int) -> Partition:
        name = str(index)
        return Partition(self, index, name, None if self.target is None else Shard(self.target, name))

    def partition(self, name: str) -> Partition:
        """Raises PartitionUnknown."""
        try:
            return self._by_name[name]
        except KeyError:
            raise PartitionUnknown(f"{self.name} has no partition {name!r}") from None

    @property
    def info(self) -> TopicInfo:
        return TopicInfo(self.name, tuple(self._by_name), self.topic_id)
