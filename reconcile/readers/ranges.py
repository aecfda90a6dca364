"""Planned ranges: against what is held, and as the tasks that read them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reconcile.errors import CannotJudge
from reconcile.logic.plan import Range, Read

AUDIT_TASK_RECORDS = 20_000
"""Audit records in one task: up to 20 million outcomes."""

DELIVERED_TASK_RECORDS = 500_000


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


def audit_tasks(topic: str, ranges: Mapping[int, Range]) -> list[TopicRange]:
    """What is to be read of the audit, by partition."""
    return _tasks(topic, ranges, AUDIT_TASK_RECORDS)


def delivered_tasks(topic: str, ranges: Mapping[int, Range]) -> list[TopicRange]:
    """What is to be read of a target, by partition."""
    return _tasks(topic, ranges, DELIVERED_TASK_RECORDS)


def _tasks(topic: str, ranges: Mapping[int, Range], records_max: int) -> list[TopicRange]:
    return [
        TopicRange(topic, partition, *part)
        for partition, whole in ranges.items()
        for part in parts(whole, records_max)
    ]


def by_topic(reads: Sequence[Read]) -> dict[str, dict[int, Range]]:
    """What is to be read of buffers, by target topic and shard."""
    found: dict[str, dict[int, Range]] = {}
    for read in reads:
        found.setdefault(read.topic, {})[read.shard] = Range(read.start, read.end)
    return found
