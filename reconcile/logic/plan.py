"""What a queue holds, and what a run reads of it.

First a part of the audit. Its rows are staged; the last low-water mark of each shard among them sets how far its
buffer is read. What a run leaves to the next one is its manifest (manifest.py); runs.py describes in which order all
that is written, and how a killed run is repeated.

A buffer is read up to its last mark's `next` and no further: every outcome of what is read is then in the part
of the audit that has been read. Outcomes of records behind that wait for the next run.
"""

from typing import NamedTuple

import msgspec

from reconcile.logic.partitions import Partitions

FORMAT_VERSION = 6
"""6: rows of an hour may have been dropped. 5: links have their own due time and deadline. 4: what is small is in one
file a run. 3: cells distinguish operations from other instructions, and rows what operations ask for. 2: cells hold
what links name, and manifests how many rows their runs have written."""


class Range(NamedTuple):
    """Offsets `[start, end)` of a partition."""

    start: int
    end: int


class Cluster(msgspec.Struct, frozen=True):
    """Whose ledger it is. `kind` is `kafka`, `rocketmq`, `embedded` or `parquet`; `id` the cluster's own."""

    kind: str
    id: str
    namespace: str


class Buffer(msgspec.Struct, frozen=True):
    """A buffer topic as it is now: what its partitions hold, and an identity that changes when the topic is deleted
    and made again."""

    topic_id: str
    shards: dict[int, Range]


class Held(msgspec.Struct, frozen=True):
    """What the queue holds at one moment: the audit was looked at before the buffers, so that no outcome is
    known of a record that is not. `buffers` by target topic; `brokers`: by which partitions are numbered
    (`logic.partitions`)."""

    at_ms: int
    audit_topic_id: str
    audit: dict[int, Range]
    buffers: dict[str, Buffer]
    brokers: list[str] = []

    @property
    def partitions(self) -> Partitions:
        return Partitions(tuple(self.brokers))


class Mark(msgspec.Struct, frozen=True):
    """A shard's low-water mark (schemas.AUDIT_RECORDS) with its place in the audit."""

    at_ms: int
    next: int
    low_ms: int
    pending: int | None
    audit_offset: int


class Skip(msgspec.Struct, frozen=True):
    """Offsets `[first, end)` that an operator has had passed over, with the place in the audit."""

    first: int
    end: int
    at_ms: int
    is_place: bool  # in the log; what was accepted at a takeover has no outcome row
    audit_offset: int


class Unreadable(NamedTuple):
    """Audit records of a partition, from this offset on, that cannot be read and may have outcome rows: of a topic,
    or, where not even that is known, of any."""

    partition: int
    topic: str | None
    first: int

    def may_hold_outcomes_of(self, topic: str, partition: int) -> bool:
        """`partition`: where the rows of the topic's shard stand."""
        return self.partition == partition and self.topic in (None, topic)


class Read(msgspec.Struct, frozen=True):
    """A part of one shard's buffer, and the rules in force where it begins (JSON as in a rules record, or None for
    the default ones). `skips`: all that are known of the shard."""

    topic: str
    shard: int
    start: int
    end: int
    rules: str | None = None
    skips: list[Skip] = []
