"""What one atomic write holds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mq.local.topic import Partition, Topic


class Placed(NamedTuple):
    """Where a run of records begins, and when it was appended (epoch ms)."""

    base_offset: int
    appended_at_ms: int


@dataclass(slots=True)
class Batch:
    """The records that one group appends to one partition, from `base_offset` on without a gap.

    All of them are appended at the same moment. `times_ms` is None where that is each record's own time, too.
    """

    base_offset: int
    appended_at_ms: int
    bodies: list[bytes] = field(default_factory=list)
    times_ms: list[int] | None = None

    def extend(self, bodies: Sequence[bytes], times_ms: Sequence[int | None] | None) -> None:
        if times_ms is not None or self.times_ms is not None:
            now_ms = self.appended_at_ms
            own = [now_ms] * len(self.bodies) if self.times_ms is None else self.times_ms
            own += [now_ms if time_ms is None else time_ms for time_ms in times_ms or [None] * len(bodies)]
            self.times_ms = own
        self.bodies.extend(bodies)


@dataclass(slots=True)
class Group:
    """Filled step by step, then written as one. `full` is the reason why clients' records cannot be taken, if they
    cannot."""

    now_ms: int
    full: str | None = None
    topics: dict[str, Topic] = field(default_factory=dict)
    deletes: list[Topic] = field(default_factory=list)
    batches: dict[Partition, Batch] = field(default_factory=dict)
    cursors: dict[Partition, bytes] = field(default_factory=dict)
    trims: dict[Partition, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.topics or self.deletes or self.batches or self.cursors or self.trims)

    def append(
        self, partition: Partition, bodies: Sequence[bytes], times_ms: Sequence[int | None] | None = None
    ) -> Placed:
        """Give `bodies` the next offsets of the partition."""
        batch = self.batches.get(partition)
        if batch is None:
            batch = self.batches[partition] = Batch(partition.next_offset, self.now_ms)
        placed = Placed(partition.next_offset, batch.appended_at_ms)
        batch.extend(bodies, times_ms)
        partition.next_offset += len(bodies)
        return placed
