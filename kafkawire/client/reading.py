"""What reading a buffer brings."""

from collections.abc import Sequence
from typing import NamedTuple


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
