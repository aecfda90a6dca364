"""What makes one run different from the next, and what a search over many must have met."""

from random import Random
from typing import NamedTuple

SITUATIONS = (
    "client transaction opened", "client transaction aborted", "broker clock jumped back", "log ended in a hole",
    "waited behind an open client transaction", "takeover waited behind an open client transaction", "trim",
    "record read while a commit was in flight", "disk full while reading", "disk lost",
    "run on the product's in-memory index",
    "disk fell back to an earlier state", "crash", "crash with a commit in flight", "commit over two shards",
    "commit aborted", "commit applied, answer lost", "commit lost", "commit late", "request fenced on its way",
    "zombie fenced", "claim failed or unknown", "claim fenced", "takeover without an index",
    "takeover with an index up to date", "takeover with an index that is behind", "takeover with an index too old",
    "takeover with the index of another topic", "decision record written", "re-append record written",
    "rules record written", "message delivered", "message expired", "dead letter written",
    "delivery refused by the target",
    "sent with a delay", "sent with a moment", "sent with a moment in the past", "sent with a level",
    "sent without a directive", "invalid directive", "contradictory directives", "beyond the horizon",
    "invalid retry", "malformed record", "forged header", "invalid operation",
    "cancel sent", "reschedule sent", "operation applied: cancelled", "operation applied: rescheduled",
    "operation unmatched: not-pending", "operation unmatched: version-mismatch",
    "sent with an own id", "sent to replace an own id", "sent with an idempotency key", "sent with a deadline",
    "sent with a time to live", "sent to repeat by a gap", "sent to repeat by a calendar",
    "sent to repeat without end", "operation on an own id", "operation on an occurrence",
    "operation under a condition", "pause sent", "resume sent", "purge sent",
    "operation applied: paused", "operation applied: resumed", "operation applied: purged",
    "duplicate: own-id", "duplicate: idempotency", "duplicate: idempotency-reused", "superseded: replaced",
    "superseded: scheduled", "superseded: missed", "expired: missed", "expired: deadline", "expired: late-max",
    "commit read back before its answer", "name looked up and found", "name looked up on its way to another record",
    "record of a later version", "range damaged", "range mended", "shard stalled", "skip asked", "skip refused",
    "skip written", "skip before it had caught up", "next owner passed over a range",
    "copy written for an undo", "message came back", "message came back behind its time",
    "message came back behind its deadline",
    "cancelled: purged", "occurrence left out", "series went on", "purge in stretches", "takeover while paused",
)  # fmt: skip
"""What a search must have met at least once: a situation that no longer occurs is no longer tested."""

_STEPS_AND_WEIGHTS = (
    ("produce", (16, 16, 12)),
    ("end_transaction", (6, 8, 6)),
    ("clock_advances", (18, 18, 16)),
    ("clock_jumps_back", (1, 6, 1)),
    ("fetch", (24, 22, 20)),
    ("take", (24, 24, 24)),
    ("finish", (24, 24, 24)),
    ("take_over", (10, 10, 24)),
    ("roll", (3, 3, 6)),
    ("disk_fills", (4, 4, 4)),
    ("flush", (3, 2, 3)),
    ("wire_arrives", (2, 2, 4)),
    ("rebalance", (2, 2, 5)),
    ("notice", (2, 2, 2)),
    ("crash", (2, 2, 5)),
    ("trim", (2, 2, 3)),
)
STEPS = tuple(name for name, _ in _STEPS_AND_WEIGHTS)
"""Methods of `world.World`."""

_WEATHER = tuple(zip(*(weights for _, weights in _STEPS_AND_WEIGHTS), strict=True))
"""Three kinds of weather, as weights of the steps: ordinary, a clock that jumps, owners that change all the time."""


class Habits(NamedTuple):
    """What makes one run different from the next."""

    steps: int
    records_max: tuple[int, ...]
    near_due_ms: int
    fault: float  # how often a commit does not simply succeed
    late_max_ms: int | None  # how late a message may be delivered
    operations: float  # how much of what clients send are operations on what they have sent
    controls: float  # how much are control records
    decided_max: int  # how much one commit decides
    strides_ms: tuple[int, ...]  # how far the clock advances in a step
    weights: tuple[int, ...]


def choose(rnd: Random) -> Habits:
    return Habits(
        steps=rnd.choice((30, 50, 80, 120)),
        records_max=rnd.choice(((1,), (1, 2, 3), (2, 1000), (1000,))),
        near_due_ms=rnd.choice((0, 40, 2000)),
        fault=rnd.choice((0.0, 0.15, 0.4)),
        late_max_ms=rnd.choice((None, None, None, 60)),
        operations=rnd.choice((0.0, 0.2, 0.5)),
        controls=rnd.choice((0.0, 0.0, 0.03, 0.12)),
        decided_max=rnd.choice((2, 3, 1000, 1000)),
        strides_ms=rnd.choice(((1, 5, 20, 50, 200), (1, 5, 20, 50, 200), (20, 200, 1000, 4000))),
        weights=rnd.choice(_WEATHER),
    )
