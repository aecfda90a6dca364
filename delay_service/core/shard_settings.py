"""The part of the configuration that a shard needs."""

from dataclasses import dataclass

from delayline.names import Names
from delayline.schedule.rules import Rules

NEVER_MS = 1 << 62
"""Later than this no message can be."""


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The configuration of the shards of a topic. `timestamp` is `delivery`, `due` or `accepted`."""

    rules: Rules
    names: Names
    near_due_ms: int = 5000
    timestamp: str = "delivery"
    late_max_ms: int = NEVER_MS
    rate_max: int | None = None  # deliveries of the whole topic per second: the worker keeps to it
    low_water_interval_ms: int = 30_000
    idempotency_retention_ms: int = 86_400_000
