"""What a mutant is, and which modules there are mutants of."""

from typing import NamedTuple

(
    SHARD,
    TAKEOVER,
    RECORDS,
    SHAPES,
    FACTS,
    RULES_LOG,
    OPERATIONS,
    SERIES,
    DRAFT,
    MOVING,
    REGISTER,
    LOW_WATER,
    SKIPPING,
) = (
    "delay_service.shard",
    "delay_service.takeover",
    "delayline.buffer_record",
    "delayline.shapes",
    "delayline.buffer_facts",
    "delay_service.rules_log",
    "delay_service.operations",
    "delay_service.series",
    "delay_service.draft",
    "delay_service.moving",
    "delay_service.register",
    "delay_service.low_water",
    "delay_service.skipping",
)


class Mutant(NamedTuple):
    """`broken` says what the rule is that no longer holds; `changes` are (line, replacement) pairs. The hunt begins
    with the seed `first`: nothing but time is saved by it."""

    broken: str
    module: str
    changes: tuple[tuple[str, str], ...]
    first: int = 0


def one(broken: str, module: str, line: str, replacement: str, first: int = 0) -> Mutant:
    """A mutant that replaces one line."""
    return Mutant(broken, module, ((line, replacement),), first)
