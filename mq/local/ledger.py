"""The ledger: what exists, who owns what, and what readers may see."""

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Protocol

from delayline.buffer.cursor import Cursor
from delayline.names import Names
from mq.errors import QueueClosed, TopicUnknown
from mq.local.group import Group
from mq.local.storage import StoredTopic
from mq.local.topic import Partition, Topic


class Worker(Protocol):
    """The reading end that the ledger notifies about its shards; always under the ledger's lock."""

    def assign(self, partitions: Sequence[Partition]) -> None:
        """These are the worker's from now on."""

    def lose(self) -> None:
        """Nothing is the worker's any more."""

    def unassign(self, partitions: Sequence[Partition]) -> None:
        """These are gone: their topic is deleted."""

    def grown(self, partition: Partition) -> None:
        """There is more to read."""

    def stir(self) -> None:
        """Something changed that a waiting poll has to look at."""


class Ledger:
    """One lock guards everything that readers see. What is not public yet (offsets, owners) belongs to the caller
    that places steps: one thread at a time."""

    def __init__(self, names: Names) -> None:
        self.lock = Lock()
        self.names = names
        self.topics: dict[str, Topic] = {}
        self.cursors: dict[Partition, bytes] = {}
        self.worker: Worker | None = None
        self.failure: str | None = None
        self._owners: dict[Partition, tuple[int, str]] = {}
        self._last_number = 0

    def restore(self, stored: Iterable[StoredTopic], last_number: int = 0) -> None:
        """Take in what an earlier process left; topics had numbers up to `last_number`."""
        self._last_number = last_number
        for row in stored:
            self._last_number = max(self._last_number, row.number)
            topic = self._topic(row.number, row.name, row.topic_id, len(row.partitions))
            self.topics[row.name] = topic
            for partition, found in zip(topic.partitions, row.partitions, strict=True):
                partition.start, partition.end = found.start, found.end
                partition.next_offset = found.next_offset
                if found.cursor is not None:
                    self.cursors[partition] = found.cursor

    def _topic(self, number: int, name: str, topic_id: bytes, partitions: int) -> Topic:
        return Topic(number, name, topic_id, partitions, self.names.target(name), self.lock)

    def topic(self, name: str) -> Topic:
        """Raises TopicUnknown."""
        try:
            return self.topics[name]
        except KeyError:
            raise TopicUnknown(f"there is no topic {name!r}") from None

    def check(self) -> None:
        """Raises QueueClosed where the queue has failed or is closed: it will not come back by itself."""
        if self.failure is not None:
            raise QueueClosed(self.failure)

    # --- placing: one thread at a time

    def new_topic(self, name: str, topic_id: bytes, partitions: int) -> Topic:
        self._last_number += 1
        return self._topic(self._last_number, name, topic_id, partitions)

    def accepts(self, partition: Partition, cursor: Cursor, *, claim: bool) -> bool:
        """The epoch rule. An owner goes on under the epoch it has, a claim raises it by one. The writer is compared
        as well: it distinguishes two that claimed the same epoch from the same handover."""
        epoch, writer = self._owner(partition)
        if cursor.owner_epoch == epoch and epoch > 0:
            return cursor.writer == writer
        return claim and cursor.owner_epoch == epoch + 1

    def place_cursor(self, group: Group, partition: Partition, cursor: Cursor) -> None:
        self._owners[partition] = (cursor.owner_epoch, cursor.writer)
        group.cursors[partition] = cursor.encode()

    def _owner(self, partition: Partition) -> tuple[int, str]:
        """Epoch and writer of the last cursor placed; (0, "") where there is none. Raises UnknownFormat."""
        if partition not in self._owners:
            data = self.cursors.get(partition)
            cursor = None if data is None else Cursor.decode(data)
            self._owners[partition] = (0, "") if cursor is None else (cursor.owner_epoch, cursor.writer)
        return self._owners[partition]

    # --- what readers see

    def publish(self, group: Group) -> None:
        """The group is durable: show it."""
        with self.lock:
            for topic in group.deletes:
                self._forget(topic)
            self.topics.update(group.topics)
            self.cursors.update(group.cursors)
            for partition, batch in group.batches.items():
                partition.end = batch.base_offset + len(batch.bodies)
            self._announce(group)

    def _forget(self, topic: Topic) -> None:
        del self.topics[topic.name]
        for partition in topic.partitions:
            self.cursors.pop(partition, None)
            self._owners.pop(partition, None)
        topic.grown.notify_all()
        if topic.target is not None and self.worker is not None:
            self.worker.unassign(topic.partitions)

    def _announce(self, group: Group) -> None:
        for topic in group.topics.values():
            if topic.target is not None and self.worker is not None:
                self.worker.assign(topic.partitions)
        for partition in group.batches:
            partition.topic.grown.notify_all()
            if partition.shard is not None and self.worker is not None:
                self.worker.grown(partition)

    def fail(self, reason: str) -> None:
        """Nothing is served any more, and everybody who waits hears it. The first reason stays."""
        with self.lock:
            self.failure = self.failure or reason
            for topic in self.topics.values():
                topic.grown.notify_all()
            if self.worker is not None:
                self.worker.stir()

    def hand_over(self, worker: Worker) -> None:
        """Every shard is `worker`'s now. The steps of an earlier one are fenced from this moment on."""
        with self.lock:
            if self.worker is not None:
                self.worker.lose()
            self.worker = worker
            worker.assign([part for topic in self.topics.values() if topic.target for part in topic.partitions])

    def trim(self, partition: Partition, low_offset: int) -> bool:
        """Hide everything below `low_offset`; whether anything was there."""
        with self.lock:
            if low_offset <= partition.start:
                return False
            partition.start = low_offset
            return True
