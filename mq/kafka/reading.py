"""How buffers are read: the end of a source that fetches, whoever does it.

Two readers keep this contract: `library.py` on a consumer of librdkafka, and `direct/reader.py`, which speaks the
protocol itself.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class At(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Part(NamedTuple):
    """Committed records of a partition, `(offset, append time in epoch ms, body)`, offsets ascending. Everything
    below `next_offset` has been read, also where there are no records."""

    at: At
    records: Sequence[tuple[int, int, bytes]]
    next_offset: int


class Gone(NamedTuple):
    """The log does not hold the offset to be read next; the partition is not assigned any more."""

    at: At
    detail: str


class Spoilt(NamedTuple):
    """What stands at the offset to be read next cannot be read; the partition is not assigned any more."""

    at: At
    detail: str


Read = Part | Gone | Spoilt


class BufferReader(Protocol):
    """One thread, except `wake`. What was fetched under one assignment never comes out under another one."""

    def assign(self, at: At, offset: int) -> None:
        """Read the partition, which is not assigned yet, from `offset` on."""

    def unassign(self, at: At) -> None:
        """Read no more of the partition."""

    def read(self, records_max: int, wait_s: float) -> Sequence[Read]:
        """What has been fetched, at most `records_max` records; waits up to `wait_s` seconds where there is nothing.
        Returns early, perhaps empty, on `wake`. Raises QueueUnavailable."""

    def wake(self) -> None:
        """Let a `read` that waits return, or the next one. Any thread may call it; it is never lost."""

    def log_end(self, at: At) -> int:
        """The high watermark, as the last fetch has shown it; 0 where that is unknown."""

    def close(self) -> None:
        """Let go."""
