"""Source: the member's shards, read by a reader of its own, from given offsets.

Seek, pause and release are all the same to that reader: a partition is unassigned, or assigned at an offset.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event as Flag
from threading import Lock

from delayline.clock import Clock
from delayline.records.message import Shard
from kafkawire.client.reader import WireReader
from kafkawire.client.reading import At, Gone, Part, Spoilt
from mq.broker_clock import BrokerClock
from mq.clock_offset import ClockOffset
from mq.contract import Assigned, Event, Fetched, Lost, OutOfRange, Unreadable
from mq.errors import QueueClosed
from mq.kafka.admin.cluster import Cluster
from mq.kafka.settings import KafkaSettings
from mq.kafka.worker.membership import Membership

RECORDS_AT_ONCE = 2000
"""What one poll brings at most: the next commit waits until the worker, busy with these, sees that one has ended."""


@dataclass(slots=True)
class _Place:
    """Where reading of an assigned shard stands; `offset` is None before its first seek."""

    shard: Shard
    at: At
    offset: int | None = None
    paused: bool = False
    fetching: bool = False


class KafkaSource:
    """Source of one worker. It closes the reader that it is given."""

    def __init__(
        self,
        settings: KafkaSettings,
        cluster: Cluster,
        writer: str,
        clock: Clock,
        brokers: BrokerClock,
        reader: WireReader,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._clock = clock
        self._brokers = brokers
        self._reader = reader
        self._lock = Lock()
        self._pending: deque[Event] = deque()  # bounded by rebalances between two polls
        self._woken = Flag()
        self._places: dict[Shard, _Place] = {}
        self._by_partition: dict[At, _Place] = {}
        self._closed = False
        self.membership = Membership(settings, writer, clock, self._notify)

    def _notify(self, event: Event) -> None:
        with self._lock:
            self._pending.append(event)
        self._reader.wake()

    def _events(self) -> list[Event]:
        """The member's events since the last call, applied."""
        with self._lock:
            events, self._pending = list(self._pending), deque()
        for event in events:
            if isinstance(event, Assigned):
                self._add(event.shards)
            elif isinstance(event, Lost):
                self._drop(event.shards)
        return events

    def _add(self, shards: Sequence[Shard]) -> None:
        for shard in shards:
            place = _Place(shard, At(self._settings.names.buffer(shard.topic), int(shard.partition)))
            self._places[shard] = self._by_partition[place.at] = place

    def _drop(self, shards: Sequence[Shard]) -> None:
        for shard in shards:
            if (place := self._places.pop(shard, None)) is not None:
                self._stop(place)
                del self._by_partition[place.at]

    # --- Source

    def poll(self, records_max: int, timeout_s: float) -> Sequence[Event]:
        if self._closed:
            raise QueueClosed("this source is closed")
        self.membership.alive()
        until_s = self._clock.monotonic_s() + timeout_s
        while True:
            events = self._events()
            left_s = until_s - self._clock.monotonic_s()
            wait_s = 0.0 if events or self._woken.is_set() else max(0.0, left_s)
            events += self._read(min(records_max, RECORDS_AT_ONCE), wait_s)
            if events or left_s <= 0 or self._woken.is_set():
                self._woken.clear()
                return events

    def _read(self, records_max: int, wait_s: float) -> list[Event]:
        events: list[Event] = []
        for found in self._reader.read(records_max, wait_s):
            place = self._by_partition[found.at]
            shard = place.shard
            match found:
                case Part(at, records, next_offset):
                    place.offset = next_offset
                    if records:
                        self._brokers.heard(self._cluster.leader(*at), records[-1][1])
                    events.append(Fetched(shard, records, next_offset))
                case Gone(_, detail):
                    place.offset, place.fetching = None, False
                    events.append(OutOfRange(shard, f"{'.'.join(shard)}: {detail}"))
                case Spoilt(_, detail):
                    place.offset, place.fetching = None, False
                    events.append(Unreadable(shard, f"{'.'.join(shard)}: {detail}"))
        return events

    def wake(self) -> None:
        self._woken.set()
        self._reader.wake()

    def seek(self, shard: Shard, offset: int) -> None:
        if (place := self._places.get(shard)) is not None:
            self._stop(place)
            place.offset = offset
            self._start(place)

    def pause_fetch(self, shard: Shard) -> None:
        if (place := self._places.get(shard)) is not None:
            place.paused = True
            self._stop(place)

    def resume_fetch(self, shard: Shard) -> None:
        if (place := self._places.get(shard)) is not None:
            place.paused = False
            self._start(place)

    def _start(self, place: _Place) -> None:
        if not place.fetching and not place.paused and place.offset is not None:
            self._reader.assign(place.at, place.offset)
            place.fetching = True

    def _stop(self, place: _Place) -> None:
        if place.fetching:
            self._reader.unassign(place.at)
            place.fetching = False

    def release(self, shards: Sequence[Shard]) -> None:
        self._drop(shards)
        self.membership.release(shards)

    def log_end(self, shard: Shard) -> int:
        place = self._places.get(shard)
        return 0 if place is None else self._reader.log_end(place.at)

    def now_ms(self, shard: Shard) -> int:
        return self._brokers.now_ms(self._leader(shard))

    def clock_offset(self, shard: Shard) -> ClockOffset | None:
        return self._brokers.offset(self._leader(shard))

    def _leader(self, shard: Shard) -> int:
        return self._cluster.leader(self._settings.names.buffer(shard.topic), int(shard.partition))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.membership.close()
            self._reader.close()
