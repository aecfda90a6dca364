"""What a worker does for its shards now and then: memory, old records, clocks, buffers, and their status."""

from collections.abc import Collection, Iterable, Iterator

from delay_service.worker.buffer_maintenance import BufferMaintenance
from delay_service.worker.owned import CLOCK_SKEW, Owned, ReadState, ShardStatus, backlog
from delay_service.worker.stalls import Stalls
from mq.contract import Source
from store.index import TimeIndex


class ShardMaintenance:
    """Called from the worker's thread."""

    def __init__(
        self,
        source: Source,
        index: TimeIndex,
        maintenance: BufferMaintenance,
        stalls: Stalls,
        near_bytes_max: int,
        clock_skew_max_ms: int,
    ) -> None:
        self._source = source
        self._index = index
        self._buffer_maintenance = maintenance
        self._stalls = stalls
        self._near_bytes_max = near_bytes_max
        self._clock_skew_max_ms = clock_skew_max_ms

    def tidy(self, shards: Collection[Owned], now_s: float) -> tuple[ShardStatus, ...]:
        """Everything but the buffers; how the shards stand afterwards."""
        for owned in shards:
            self._relieve(owned, now_s)
            self._roll(owned)
            self.compare_clock(owned)
        return tuple(self._status(owned, now_s) for owned in shards)

    def _relieve(self, owned: Owned, now_s: float) -> None:
        """Stop reading a shard whose near-due records fill their share of memory; go on with one that has room. One
        that may wait for what it has not read is never stopped: it takes no more into memory."""
        core = owned.core
        if core is None:
            return
        full = self._index.shard(owned.id).memory_bytes() > self._near_bytes_max
        core.spills = full and core.waits
        full = full and not core.waits
        if full and not owned.reading.is_fetch_paused:
            self._stalls.fill(owned)
            self._source.pause_fetch(owned.id)
        elif owned.reading.is_fetch_paused and not full and now_s >= owned.reading.retry_at_s:
            self._stalls.resume_reading(owned)
            self._source.resume_fetch(owned.id)

    def _roll(self, owned: Owned) -> None:
        """Only while the log is read: what is rolled leaves the index until its re-append has been read."""
        if owned.core is not None and owned.reading.state is ReadState.READING:
            owned.upkeep.roller.step(owned.core, self._index.shard(owned.id), self._source.now_ms(owned.id))

    def compare_clock(self, owned: Owned) -> None:
        """Beyond the limit it is unknown what is due: ahead, it is no matter of ours alone (clients name moments by
        clocks like this one); behind, messages are late and no metric shows it. Reading goes on, delivery waits
        until the clocks agree again."""
        owned.upkeep.clock = clock = self._source.clock_offset(owned.id)
        skewed = clock is not None and clock.beyond(self._clock_skew_max_ms)
        if clock is not None and skewed and not owned.upkeep.skewed:
            detail = f"our clock is {clock.middle_ms / 1000:+.3f} s off that of broker {clock.broker}"
            self._stalls.stalled(owned.id, CLOCK_SKEW, detail)
        elif owned.upkeep.skewed and not skewed:
            self._stalls.gone_on(owned.id, CLOCK_SKEW)
        owned.upkeep.skewed = skewed

    def recreated(self, shards: Iterable[Owned]) -> Iterator[Owned]:
        """Have buffers trimmed and looked at; those shards whose buffer topic is found to be another one than their
        cursor's."""
        for owned in shards:
            if owned.core is not None:
                found = self._buffer_maintenance.look_after(owned, owned.core.cursor)
                if found is None:
                    continue
                if found.topic_id != owned.core.cursor.topic_id:
                    yield owned
                else:
                    owned.core.partitions = found.partitions

    def _status(self, owned: Owned, now_s: float) -> ShardStatus:
        progress, reading = owned.progress, owned.reading
        again_s = max(progress.retry_at_s, reading.retry_at_s if reading.stalled else 0.0)
        core, retry_s = progress.core, max(0.0, again_s - now_s)
        if core is None:
            return ShardStatus(owned.id, False, progress.stalled, progress.detail, retry_s=retry_s)
        index, cursor, looked_after = self._index.shard(owned.id), core.cursor, owned.queue.looked_after
        return ShardStatus(
            owned.id,
            core.is_authoritative,
            owned.reason,
            progress.detail,
            pending=index.pending(),
            repeats=core.messages.repeats(),
            ingest_lag=max(0, self._source.log_end(owned.id) - core.position),
            oldest_due_ms=index.next_due_ms(),
            owner_epoch=cursor.owner_epoch,
            next_offset=cursor.next_offset,
            low_offset=cursor.low_offset,
            backlog=backlog(index, self._source.now_ms(owned.id)),
            low_appended_at_ms=None if looked_after is None else looked_after.appended_at_ms,
            clock=owned.upkeep.clock,
            retry_s=retry_s,
            rate_limited=owned.rate.limited,
            paused=cursor.paused,
            held=0 if looked_after is None else looked_after.held,
        )
