"""What the ledger asks of a queue, or of an archive."""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession

from reconcile.logic.plan import Cluster, Held, Range, Read


class Audit(NamedTuple):
    """A part of the audit topic: its records by `schemas.AUDIT_RECORDS`, the rows in them by `DONE`. Lazy: each reads
    it anew."""

    records: DataFrame
    done: DataFrame


class Reader(Protocol):
    """Called by the driver. Nothing is ever skipped silently: a range that the queue no longer holds is an error of
    the read, and what an open transaction hides is behind `Held`'s ends. Raises ReconcileError."""

    def close(self) -> None: ...

    def cluster(self) -> Cluster: ...

    def number_by(self, brokers: Sequence[str]) -> None:
        """The brokers by which the ledger numbers partitions so far (`logic.partitions`); `held` may find more. To be
        called first. No matter for a queue whose partitions have numbers."""

    def held(self) -> Held:
        """What may be read now."""

    def rules(self, topic: str, shards: Sequence[int]) -> Mapping[int, str]:
        """The rules in force at the beginning of what is held of these shards, JSON; those that have the default
        ones, or unknown ones, are left out."""

    def waits_since_ms(self, topic: str, shard: int, part: Range) -> int | None:
        """When the first record of this part of the topic's buffer that is still there was appended (epoch ms); None
        where there is none."""

    def audit(self, spark: SparkSession, ranges: Mapping[int, Range]) -> Audit: ...

    def accepted(self, spark: SparkSession, reads: Sequence[Read]) -> DataFrame:
        """Rows by `schemas.ACCEPTED`. In the place of what a read skips stands one row (`rows.skipped`)."""

    def is_empty(self, topic: str | None, partition: int, part: Range) -> bool:
        """Whether no record is in this part of a topic's buffer, or of the audit (None), as the driver sees it
        without Spark: logs have holes where transactions end. For a caller that has been given no rows of it."""

    def delivered(self, spark: SparkSession, topics: Sequence[str], since_ms: int) -> DataFrame:
        """Rows by `schemas.DELIVERED`: what is in these topics now, from records of `since_ms` on."""

    def kept_since_ms(self, topic: str) -> Mapping[int, int]:
        """By partition, since when all that was delivered into it is there still; those of which nothing was ever
        deleted are left out. Raises CannotJudge for a topic that is compacted, or gone: what is not there any more
        may have been delivered."""

    def hidden(self, topics: Set[str]) -> Mapping[str, Sequence[int]]:
        """Partitions of which a part that exists now cannot be read yet (`delivered` would lack it), after a while of
        waiting; topics without any are left out."""

    def commit(self, positions: Mapping[str, Mapping[int, int]], audit: Mapping[int, int], at_ms: int) -> None:
        """Record in the queue how far the buffers have been read (topic -> shard -> offset to be read next), and the
        audit by partition, so that it keeps what has not been for a while (`audit.hold_max`). What is not named is
        new, and is kept whole."""
