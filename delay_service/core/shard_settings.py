"""The part of the configuration that a shard needs."""

from dataclasses import dataclass

from delay_service.core.due import NEVER_MS
from delayline.names import Names
from delayline.schedule.rules import Rules


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """What the configuration says about the shards of a topic. `timestamp` is `delivery`, `due` or `accepted`."""

    rules: Rules
    names: Names
    near_due_ms: int = 5000
    timestamp: str = "delivery"
    late_max_ms: int = NEVER_MS
    rate_max: int | None = None  # deliveries of the whole topic per second: the worker keeps to it
    low_water_interval_ms: int = 30_000
    idempotency_retention_ms: int = 86_400_000
