"""The contract of a back end: where topics, records and cursors lie."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from mq.contract import LogRecord
from mq.local.group import Group
from mq.local.topic import Partition


class StoredPartition(NamedTuple):
    """A partition as it was found: first offset held, offset behind the last, the cursor of the shard, if it is one,
    and the offset that the next record gets: more than `end` where records were lost."""

    start: int
    end: int
    cursor: bytes | None
    next_offset: int


class StoredTopic(NamedTuple):
    """A topic as it was found."""

    number: int
    name: str
    topic_id: bytes
    partitions: tuple[StoredPartition, ...]


class Storage(Protocol):
    """`write` is called by one thread at a time, `read` by any."""

    def load(self) -> Iterable[StoredTopic]:
        """Everything an earlier process left. Raises QueueFormat."""

    def write(self, group: Group) -> None:
        """Make the group durable, wholly or not at all. After any exception nothing more may be written: what the
        disk holds is unknown (a failed fsync drops dirty pages, and a second one would lie)."""

    def read(self, partition: Partition, offset: int, end: int, records_max: int, bytes_max: int) -> list[LogRecord]:
        """Records from `offset` on and below `end`, both within what the partition holds; the first one however
        large, the rest within `bytes_max` bytes of bodies. May give fewer; none only where a trim has overtaken the
        reader. Raises QueueUnavailable: what should are there does not, or cannot be read."""

    def identity(self) -> str:
        """Of this storage, and of no other one, for ever."""

    def trouble(self) -> str | None:
        """What is damaged, as far as reading has shown; None where nothing is. It does not pass by itself."""

    def full(self) -> str | None:
        """Why clients' records cannot be taken right now: one sentence; None where they can."""

    def close(self) -> None:
        """Let go of everything held."""
