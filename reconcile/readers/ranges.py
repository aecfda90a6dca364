"""Planned ranges against what is held."""

from typing import NamedTuple

from reconcile.errors import CannotJudge
from reconcile.logic.plan import Range


class TopicRange(NamedTuple):
    """What one task reads: offsets `[start, end)`."""

    topic: str
    partition: int
    start: int
    end: int


def check_held(what: str, planned: Range, held: Range) -> None:
    """Raises CannotJudge where some of what is planned is not held."""
    if planned.start < held.start:
        raise CannotJudge(f"{what}: it begins at {held.start} now, {planned.start} was to be read")
    if planned.end > held.end:
        raise CannotJudge(f"{what}: it ends at {held.end}, and was to be read up to {planned.end}")


def parts(whole: Range, records_max: int) -> list[Range]:
    """The range in pieces of so many offsets at most."""
    starts = range(whole.start, whole.end, records_max)
    return [Range(start, min(start + records_max, whole.end)) for start in starts]
