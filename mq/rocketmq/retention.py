"""Whether messages wait longer than their broker keeps them.

RocketMQ deletes records by age alone, after `fileReservedTime` hours, even if they are pending. When a shard's oldest
pending record reaches two thirds of that age, a warning in the log names the shard and the remedy. When the record is
deleted, the shard stalls.
"""

from collections.abc import Iterable

from delayline.clock import Clock
from delayline.process import logs
from mq.errors import QueueError
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.ownership import Holding
from rocketmq.wire.bodies import Queue

LOOK_S = 60.0
WARN_AGAIN_S = 3600.0
SHARE_MAX = 2 / 3

log = logs.get(__name__)


class RetentionWatch:
    """Of one worker. One thread at a time."""

    def __init__(self, cluster: RocketmqCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._looked_s = float("-inf")
        self._warned_s: dict[Queue, float] = {}  # by queue of a buffer; bounded by the shards

    def look(self, holdings: Iterable[Holding]) -> None:
        """At all of them, once a minute."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        for holding in holdings:
            try:
                self._look_at(holding, now_s)
            except QueueError as error:
                log.debug("a shard's retention is not known", shard=holding.shard.partition, detail=str(error))

    def _look_at(self, holding: Holding, now_s: float) -> None:
        queue = self._cluster.buffer_queue(holding.shard)
        age_s, kept_s = self._age_s(holding, queue), self._cluster.kept_s(queue.broker)
        is_repeat = now_s - self._warned_s.get(queue, float("-inf")) < WARN_AGAIN_S
        if age_s > kept_s * SHARE_MAX and not is_repeat:
            self._warned_s[queue] = now_s
            log.warning(
                "messages wait nearly as long as their broker keeps them: raise fileReservedTime",
                topic=holding.shard.topic,
                shard=holding.shard.partition,
                waiting_h=round(age_s / 3600, 1),
                kept_h=round(kept_s / 3600, 1),
            )

    def _age_s(self, holding: Holding, queue: Queue) -> float:
        """Since the oldest record that may be pending was stored; 0 where there is none."""
        last = holding.last
        low = 0 if last is None else last.low_offset
        start, end = self._cluster.range(queue)
        records = self._cluster.read(queue, max(start, low), 1, 1) if low < end else []
        return (self._clock.now_ms() - records[0].appended_at_ms) / 1000 if records else 0.0
