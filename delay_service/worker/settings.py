"""Settings of a worker, for its whole life."""

from collections.abc import Callable
from dataclasses import dataclass

from delay_service.core.shard_settings import ShardSettings


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Bounds and intervals of one worker."""

    shard_settings_of: Callable[[str], ShardSettings]  # by topic
    writer: str
    poll_records_max: int = 5000
    batch_records_max: int = 5000
    batch_bytes_max: int = 4 << 20
    near_bytes_max: int = 64 << 20
    poll_wait_max_s: float = 0.2
    commit_interval_s: float = 0.005  # between the starts of two commits: many small ones cost more than they gain
    checkpoint_interval_s: float = 1.0
    trim_interval_s: float = 10.0
    status_interval_s: float = 0.5
    clock_skew_max_ms: int = 5000  # beyond it what is due is unknown
    hold_max_ms: int = 86_400_000  # what the reconcile job has not read is kept for so long; 0: for no moment
    stall_max_s: float = 0.0  # a target that refuses for longer has its due messages dead-lettered; 0: never
