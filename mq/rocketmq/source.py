"""Source: the shards of the membership, each read by one pull at a time that waits at the end of its queue.

Pulls go over the connections that everything but sessions shares. The answer to a pull is dropped if its shard was
repositioned or released meanwhile.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Condition

from delayline.clock import Clock
from delayline.process import logs
from delayline.records.message import Shard
from mq.broker_clock import BrokerClock
from mq.clock_offset import ClockOffset
from mq.contract import Assigned, Event, Fetched, Lost, OutOfRange, Unreadable
from mq.errors import PartitionUnknown, QueueClosed, QueueError
from mq.rocketmq import trouble
from mq.rocketmq.body import to_body
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.gaps import deleted, gap_in
from mq.rocketmq.naming import place_of
from mq.rocketmq.settings import RocketmqSettings
from rocketmq.client.broker import BrokerRequests, Pulled, PullStatus
from rocketmq.errors import RocketmqError, WireError
from rocketmq.wire.bodies import Queue

RECORDS_AT_ONCE = 2000
"""That one poll returns at most: while the worker handles them, it does not see that a commit has ended, and the next
one waits."""
PULL_RECORDS = 1000
PULL_WAIT_S = 15.0
AGAIN_S = 0.2
"""From a pull that failed to the next one."""
TICK_S = 0.02
"""Between pulls at the end of a queue, those of all shards together: without it each message that arrives would be a
pull, and a turn of the worker. A message is read so much later at most."""

log = logs.get(__name__)
Record = tuple[int, int, bytes]


@dataclass(slots=True)
class _QueueReader:
    """How far an assigned shard is read. `offset`, of the next pull, is None before the first seek. `turn` counts the
    seeks: the answer to a pull of an earlier turn is dropped."""

    shard: Shard
    queue: Queue
    offset: int | None = None
    paused: bool = False
    turn: int = 0
    pulling: bool = False
    not_before_s: float = 0.0
    waiting: "deque[Record]" = field(default_factory=deque)
    end: int = 0

    @property
    def wants(self) -> bool:
        """Whether a pull is to be sent."""
        return self.offset is not None and not (self.paused or self.pulling or self.waiting)


class RocketmqSource:
    """Source of one worker."""

    def __init__(
        self,
        settings: RocketmqSettings,
        cluster: RocketmqCluster,
        requests: BrokerRequests,
        clock: Clock,
        broker_clock: BrokerClock,
        wait_readable: Callable[[str], object],
    ) -> None:
        """`wait_readable` waits until all that a broker has stored can be read."""
        self._wait_readable = wait_readable
        self._names = settings.wire_names
        self._cluster = cluster
        self._requests = requests
        self._clock = clock
        self._broker_clock = broker_clock
        self._changed = Condition()
        self._queued: deque[Event] = deque()  # for the next poll; bounded by changes of the group between two polls
        self._pulled: deque[Callable[[], Event | None]] = deque()  # one for each shard at most
        self._readers: dict[Shard, _QueueReader] = {}
        self._woken = False
        self._closed = False
        self.on_poll: Callable[[], None] = lambda: None
        self.on_release: Callable[[Sequence[Shard]], None] = lambda _: None
        self.on_close: Callable[[], None] = lambda: None

    def notify(self, event: Event) -> None:
        """The next poll returns the event. Any thread."""
        with self._changed:
            self._queued.append(event)
            self._changed.notify()

    # --- Source

    def poll(self, records_max: int, timeout_s: float) -> Sequence[Event]:
        if self._closed:
            raise QueueClosed("this source is closed")
        self.on_poll()
        until_s = self._clock.monotonic_s() + timeout_s
        while True:
            events = self._events(min(records_max, RECORDS_AT_ONCE))
            next_s = self._pull_all()
            with self._changed:
                now_s = self._clock.monotonic_s()
                if events or self._woken or self._closed or now_s >= until_s:
                    self._woken = False
                    return events
                self._changed.wait_for(self._stirred, max(0.0, min(until_s, next_s) - now_s))

    def _stirred(self) -> bool:
        return bool(self._queued or self._pulled or self._woken or self._closed)

    def _events(self, records_max: int) -> list[Event]:
        with self._changed:
            events, self._queued = list(self._queued), deque()
            pulled, self._pulled = list(self._pulled), deque()
        for event in events:
            self._heed(event)
        events += [seen for take in pulled if (seen := take()) is not None]
        return events + self._fetched(records_max)

    def _heed(self, event: Event) -> None:
        if isinstance(event, Assigned):
            for shard in event.shards:
                wire = self._names.out(self._names.names.buffer(shard.topic))
                self._readers[shard] = _QueueReader(shard, place_of(shard.partition, shard.topic).of(wire))
        elif isinstance(event, Lost):
            for shard in event.shards:
                self._readers.pop(shard, None)

    def _fetched(self, records_max: int) -> list[Event]:
        """At most so many of the records that were pulled, those of the shard first that has waited longest."""
        found: list[Event] = []
        for shard, reader in list(self._readers.items()):
            if records_max <= 0:
                break
            if reader.waiting and not reader.paused:
                count = min(records_max, len(reader.waiting))
                records = [reader.waiting.popleft() for _ in range(count)]
                records_max -= count
                found.append(Fetched(shard, records, records[-1][0] + 1))
                self._readers[shard] = self._readers.pop(shard)  # behind the others
        return found

    # --- pulls

    def _pull_all(self) -> float:
        """Where it is time; when to look again (monotonic seconds)."""
        now_s = self._clock.monotonic_s()
        next_s = now_s + AGAIN_S
        for reader in self._readers.values():
            if reader.wants and now_s >= reader.not_before_s:
                self._pull(reader)
            if reader.wants:
                next_s = min(next_s, reader.not_before_s)
        return next_s

    def _pull(self, reader: _QueueReader) -> None:
        assert reader.offset is not None
        reader.pulling = True
        try:
            future = self._requests.pull_later(
                reader.queue, reader.offset, messages_max=PULL_RECORDS, wait_s=PULL_WAIT_S
            )
        except RocketmqError as error:
            self._failed(reader, error)
            return
        future.add_done_callback(partial(self._arrived, reader, reader.turn))

    def _arrived(self, reader: _QueueReader, turn: int, future: "Future[Pulled]") -> None:
        """In the connection's thread."""
        with self._changed:
            self._pulled.append(partial(self._take, reader, turn, future))
            self._changed.notify()

    def _take(self, reader: _QueueReader, turn: int, future: "Future[Pulled]") -> Event | None:
        """The answer to a pull goes into its reader, unless the shard was repositioned or released meanwhile."""
        if reader.turn != turn or self._readers.get(reader.shard) is not reader:
            return None
        reader.pulling = False
        try:
            pulled = future.result()
        except WireError as error:
            reader.offset = None
            return Unreadable(reader.shard, f"{'.'.join(reader.shard)}: {error}")
        except RocketmqError as error:
            return self._refused(reader, error)
        reader.end = max(reader.end, pulled.max_offset)
        if pulled.status is PullStatus.OFFSET_MOVED:
            return self._moved(reader, pulled)
        assert reader.offset is not None
        gap = gap_in(reader.offset, pulled)
        # rule read-gap: accepted messages of the gap would be passed over: lost without a word.
        if gap is not None and gap.start == reader.offset:
            return self._out_of_range(reader, deleted(".".join(reader.shard), gap))
        if messages := pulled.messages[: None if gap is None else gap.start - reader.offset]:
            self._broker_clock.heard(reader.queue.broker, messages[-1].stored_ms)
            reader.waiting.extend((one.queue_offset, one.stored_ms, to_body(one)) for one in messages)
            reader.offset += len(messages)
            if reader.offset >= pulled.max_offset:
                reader.not_before_s = _next_tick_s(self._clock.monotonic_s())
        return None

    def _refused(self, reader: _QueueReader, error: RocketmqError) -> Event | None:
        """A broker that has no such queue (any more) will not have what waits there before it has the queue again."""
        if not isinstance(trouble.queue_error(error, ""), PartitionUnknown):
            self._failed(reader, error)
            return None
        return self._out_of_range(reader, f"{'.'.join(reader.shard)}: {error}")

    def _out_of_range(self, reader: _QueueReader, detail: str) -> OutOfRange:
        """Nothing is read before the next seek."""
        reader.offset = None
        return OutOfRange(reader.shard, detail)

    def _moved(self, reader: _QueueReader, pulled: Pulled) -> Event | None:
        """The broker does not have the offset; it may be stored, and not be readable yet."""
        assert reader.offset is not None
        try:
            self._wait_readable(reader.queue.broker)
            start, end = self._cluster.range(reader.queue)
        except QueueError as error:
            self._failed(reader, error)
            return None
        if start <= reader.offset <= end:
            return None
        return self._out_of_range(reader, f"{'.'.join(reader.shard)}: {reader.offset} is not within {start}..{end}")

    def _failed(self, reader: _QueueReader, error: Exception) -> None:
        reader.pulling = False
        reader.not_before_s = self._clock.monotonic_s() + AGAIN_S
        log.debug(
            "a shard cannot be read now", topic=reader.shard.topic, shard=reader.shard.partition, detail=str(error)
        )

    # --- Source: where to read

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify()

    def seek(self, shard: Shard, offset: int) -> None:
        if (reader := self._readers.get(shard)) is None:
            return
        self._drop(reader)
        reader.offset = offset
        low = self._cluster.low(reader.queue)
        if offset < low:
            reader.offset = None
            self.notify(OutOfRange(shard, f"{'.'.join(shard)}: {offset} was trimmed, the log starts at {low}"))

    def _drop(self, reader: _QueueReader) -> None:
        reader.turn += 1
        reader.pulling = False
        if reader.waiting:
            reader.offset = reader.waiting[0][0]
            reader.waiting.clear()

    def pause_fetch(self, shard: Shard) -> None:
        if (reader := self._readers.get(shard)) is not None:
            reader.paused = True

    def resume_fetch(self, shard: Shard) -> None:
        if (reader := self._readers.get(shard)) is not None:
            reader.paused = False

    def release(self, shards: Sequence[Shard]) -> None:
        for shard in shards:
            self._readers.pop(shard, None)
        self.on_release(shards)

    def log_end(self, shard: Shard) -> int:
        reader = self._readers.get(shard)
        return 0 if reader is None else reader.end

    def now_ms(self, shard: Shard) -> int:
        return self._broker_clock.now_ms(place_of(shard.partition, shard.topic).broker)

    def clock_offset(self, shard: Shard) -> ClockOffset | None:
        return self._broker_clock.offset(place_of(shard.partition, shard.topic).broker)

    def close(self) -> None:
        if not self._closed:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            self.on_close()


def _next_tick_s(now_s: float) -> float:
    return (now_s // TICK_S + 1) * TICK_S
