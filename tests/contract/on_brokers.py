"""A cluster of brokers as the suite sees a queue.

The suite speaks of topics called `orders` with partitions `0` to `3`, and of records that are any bytes, and looks
at once whether something has happened. Here every test has a namespace and topics of its own on the shared broker,
any bytes are the value of a record, topics are made by hand before their first use, and looking takes a moment.
Everything else is the adapter.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import uuid4

from delayline.buffer.cursor import Cursor
from delayline.clock import SystemClock
from delayline.names import Names, is_topic_name
from delayline.records.message import Shard
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import Rules
from mq.contract import (
    Append,
    AppendRequest,
    Assigned,
    Audited,
    Delivery,
    DispatchBatch,
    Event,
    Fetched,
    Handover,
    LogRecord,
    Lost,
    OutOfRange,
    Owner,
    Position,
    Revoked,
    TopicInfo,
    Unreadable,
)
from mq.each import append_each
from mq.errors import QueueError, TopicUnknown

NAMESPACE = "delayline"
PATIENCE_S = 60.0
"""How long something may take that must happen."""
QUIET_S = 0.5
"""How long nothing has to happen to be called nothing."""
SETTLED_S = 0.1
"""How long after an event the next one may come and still belong to the same answer."""

_numbers = count()


class Translation:
    """Names of the suite <-> names on the broker, whose partitions' names begin with `places`."""

    def __init__(self, places: str = "") -> None:
        self._places = places
        self._prefix = f"t{next(_numbers)}-{uuid4().hex[:6]}-"
        self.namespace = f"{self._prefix}{NAMESPACE}"

    def out(self, name: str) -> str:
        if not is_topic_name(name):
            return name
        target = Names(NAMESPACE).target(name)
        if target is not None:
            return Names(self.namespace).buffer(self.out(target))
        return self._prefix + name

    def back(self, name: str) -> str:
        target = Names(self.namespace).target(name)
        if target is not None:
            return Names(NAMESPACE).buffer(self.back(target))
        return name.removeprefix(self._prefix)

    def knows(self, name: str) -> bool:
        return name.startswith(self._prefix)

    def place_out(self, partition: str) -> str:
        return self._places + partition

    def place_back(self, partition: str) -> str:
        return partition.removeprefix(self._places)

    def shard_out(self, shard: Shard) -> Shard:
        return Shard(self.out(shard.topic), self.place_out(shard.partition))

    def shard_back(self, shard: Shard) -> Shard:
        return Shard(self.back(shard.topic), self.place_back(shard.partition))

    def writer_out(self, writer: str) -> str:
        """On Kafka a transactional id, of which a later user shuts out an earlier one: also that of another test."""
        return self._prefix + writer if writer else ""

    def cursor_out(self, cursor: Cursor) -> Cursor:
        return replace(cursor, writer=self.writer_out(cursor.writer))

    def cursor_back(self, cursor: Cursor | None) -> Cursor | None:
        return cursor and replace(cursor, writer=self.back(cursor.writer))

    def append_out(self, append: Append) -> Append:
        topic, partition, body = append
        return Append(self.out(topic), self.place_out(partition), wrap(body))


def wrap(raw: bytes) -> bytes:
    return encode_body(None, raw)


def unwrap(body: bytes) -> bytes:
    """Rules records and other whole bodies stay as they are."""
    key, value, headers = decode_body(body)
    return body if key or headers else value or b""


def record_in(record: tuple[int, int, bytes]) -> LogRecord:
    offset, appended_at_ms, body = record
    return LogRecord(offset, appended_at_ms, unwrap(body))


class SuiteSource:
    def __init__(self, source: Any, names: Translation) -> None:
        self._source = source
        self._names = names

    def poll(self, records_max: int, timeout_s: float) -> list[Event]:
        """With no time to wait: what happens soon, as one answer."""
        if timeout_s:
            return self._seen(self._source.poll(records_max, timeout_s))
        return self._look(records_max, PATIENCE_S)

    def quiet(self, records_max: int) -> list[Event]:
        """For those who expect nothing."""
        return self._look(records_max, QUIET_S)

    def _look(self, records_max: int, wait_s: float) -> list[Event]:
        clock = SystemClock()
        events: list[Event] = []
        until_s = clock.monotonic_s() + wait_s
        while records_max > 0 and (left_s := until_s - clock.monotonic_s()) > 0:
            found = self._seen(self._source.poll(records_max, left_s))
            records_max -= sum(len(event.records) for event in found if isinstance(event, Fetched))
            if found:
                events += found
                until_s = clock.monotonic_s() + SETTLED_S
        return _merged(events)

    def _seen(self, events: Sequence[Event]) -> list[Event]:
        return [seen for event in events if (seen := self._event(event)) is not None]

    def _event(self, event: Event) -> Event | None:
        match event:
            case Fetched(shard, records, next_offset):
                back = self._names.shard_back(shard)
                return Fetched(back, [record_in(record) for record in records], next_offset) if records else None
            case OutOfRange(shard, detail) | Unreadable(shard, detail):
                return type(event)(self._names.shard_back(shard), detail)
            case Assigned(shards) | Revoked(shards) | Lost(shards):
                return type(event)(tuple(self._names.shard_back(shard) for shard in shards))

    def wake(self) -> None:
        self._source.wake()

    def seek(self, shard: Shard, offset: int) -> None:
        self._source.seek(self._names.shard_out(shard), offset)

    def pause_fetch(self, shard: Shard) -> None:
        self._source.pause_fetch(self._names.shard_out(shard))

    def resume_fetch(self, shard: Shard) -> None:
        self._source.resume_fetch(self._names.shard_out(shard))

    def release(self, shards: Sequence[Shard]) -> None:
        self._source.release([self._names.shard_out(shard) for shard in shards])

    def log_end(self, shard: Shard) -> int:
        return int(self._source.log_end(self._names.shard_out(shard)))

    def now_ms(self, shard: Shard) -> int:
        return int(self._source.now_ms(self._names.shard_out(shard)))

    def clock_offset(self, shard: Shard) -> Any:
        return self._source.clock_offset(self._names.shard_out(shard))

    def close(self) -> None:
        self._source.close()


def _merged(events: list[Event]) -> list[Event]:
    """Records of a shard that came in several pieces, as one."""
    merged: dict[Any, Event] = {}
    for number, event in enumerate(events):
        if isinstance(event, Fetched) and (before := merged.get(event.shard)) is not None:
            assert isinstance(before, Fetched)
            merged[event.shard] = Fetched(event.shard, [*before.records, *event.records], event.next_offset)
        else:
            merged[event.shard if isinstance(event, Fetched) else number] = event
    return list(merged.values())


class SuiteSink:
    def __init__(self, sink: Any, names: Translation) -> None:
        self._sink = sink
        self._names = names

    def commit(self, batch: DispatchBatch) -> None:
        try:
            self._sink.commit([self._part(part) for part in batch])
        except Exception as error:
            self._translate(error)
            raise

    def _part(self, part: Any) -> Any:
        return replace(
            part,
            shard=self._names.shard_out(part.shard),
            cursor=self._names.cursor_out(part.cursor),
            deliveries=[Delivery(wrap(body), at_ms) for body, at_ms in part.deliveries],
            cross_partition=[self._names.append_out(append) for append in part.cross_partition],
            **{name: [wrap(body) for body in getattr(part, name)] for name in ("appends", "audit", "dead")},
        )

    def _translate(self, error: Any) -> None:
        if hasattr(error, "shards"):
            error.shards = [self._names.shard_back(shard) for shard in error.shards]
        if hasattr(error, "shard"):
            error.shard = self._names.shard_back(error.shard)

    def close(self) -> None:
        self._sink.close()


class SuiteClaim:
    def __init__(self, claim: Any, names: "Translation") -> None:
        self._claim, self._names = claim, names

    def append(self, records: Sequence[Append]) -> None:
        self._claim.append([self._names.append_out(record) for record in records])

    def close(self) -> None:
        self._claim.close()


class SuiteQueue:
    """See the module docstring."""

    def __init__(self, queue: Any, names: Translation) -> None:
        self._queue = queue
        self._names = names
        self._sources: list[SuiteSource] = []

    def _make(self, name: str) -> None:
        """Make a topic of users, of this name on the broker, by hand; another thread of the test may have made it."""
        raise NotImplementedError

    def open_worker(self, writer: str) -> tuple[SuiteSource, SuiteSink]:
        source, sink = self._queue.open_worker(self._names.writer_out(writer))
        self._sources.append(SuiteSource(source, self._names))
        return self._sources[-1], SuiteSink(sink, self._names)

    def close(self) -> None:
        for source in self._sources:
            source.close()
        self._queue.close()

    # --- Client

    def append(self, records: Sequence[Append]) -> "Future[list[Position]]":
        translated: Future[list[Position]] = Future()

        def done(future: "Future[list[Position]]") -> None:
            if (error := future.exception()) is not None:
                translated.set_exception(error)
            else:
                translated.set_result([self._back(at) for at in future.result()])

        self._queue.append([self._names.append_out(record) for record in records]).add_done_callback(done)
        return translated

    def append_each(self, requests: Sequence[AppendRequest]) -> None:
        append_each(self.append, requests)

    def _back(self, at: Position) -> Position:
        return at._replace(topic=self._names.back(at.topic), partition=self._names.place_back(at.partition))

    def claim(self, name: str) -> "SuiteClaim":
        return SuiteClaim(self._queue.claim(name), self._names)

    def read(
        self, topic: str, partition: str, offset: int, records_max: int, bytes_max: int = 4 << 20
    ) -> list[LogRecord]:
        at = self._names.out(topic), self._names.place_out(partition)
        self._settle(*at)
        records = self._queue.read(*at, offset, records_max, bytes_max)
        return [record_in(record) for record in records]

    def _settle(self, topic: str, partition: str) -> None:
        """What has been committed is seen a moment later: when the transaction's marker stands in the log."""
        with suppress(QueueError):  # the read itself will report what is wrong
            self._queue.is_stable(topic, partition, PATIENCE_S)

    def offsets(self, topic: str, partition: str) -> tuple[int, int]:
        return self._queue.offsets(self._names.out(topic), self._names.place_out(partition))

    def wait(self, topic: str, positions: Mapping[str, int], timeout_s: float) -> bool:
        return self._queue.wait(
            self._names.out(topic),
            {self._names.place_out(name): offset for name, offset in positions.items()},
            timeout_s,
        )

    def is_stable(self, topic: str, partition: str, timeout_s: float) -> bool:
        return self._queue.is_stable(self._names.out(topic), self._names.place_out(partition), timeout_s)

    def record_bytes_max(self, topic: str) -> int:
        return self._queue.record_bytes_max(self._names.out(topic))

    # --- Admin

    def topics(self) -> list[str]:
        return [self._names.back(name) for name in self._queue.topics() if self._names.knows(name)]

    def topic(self, name: str) -> TopicInfo:
        return self._info(self._queue.topic(self._names.out(name)))

    def ensure_topic(self, name: str) -> TopicInfo:
        try:
            return self._info(self._queue.ensure_topic(self._names.out(name)))
        except TopicUnknown:
            if not is_topic_name(name) or Names(self._names.namespace).is_own(self._names.out(name)):
                raise
            self._make(self._names.out(name))
            return self._info(self._appeared(self._names.out(name)))

    def _appeared(self, name: str) -> TopicInfo:
        """A broker hears of a new topic a moment later than its maker."""
        clock = SystemClock()
        until_s = clock.monotonic_s() + PATIENCE_S
        while True:
            try:
                return self._queue.ensure_topic(name)
            except TopicUnknown:
                if clock.monotonic_s() > until_s:
                    raise

    def ensure_own(self) -> None:
        self._queue.ensure_own()

    def ensure_buffer(self, name: str, rules: Rules) -> TopicInfo:
        self.ensure_topic(name)
        return self._info(self._queue.ensure_buffer(self._names.out(name), rules))

    def _info(self, info: TopicInfo) -> TopicInfo:
        partitions = tuple(map(self._names.place_back, info.partitions))
        return info._replace(name=self._names.back(info.name), partitions=partitions)

    def takeover(self, shard: Shard) -> Handover:
        handover: Handover = self._queue.takeover(self._names.shard_out(shard))
        return handover._replace(cursor=self._names.cursor_back(handover.cursor))

    def log_range(self, shard: Shard) -> tuple[int, int]:
        return self._queue.log_range(self._names.shard_out(shard))

    def trim(self, shard: Shard, low_offset: int) -> None:
        self._queue.trim(self._names.shard_out(shard), low_offset)

    def identity(self) -> str:
        return self._queue.identity()

    def read_cursor_unfenced(self, shard: Shard) -> Cursor | None:
        return self._names.cursor_back(self._queue.read_cursor_unfenced(self._names.shard_out(shard)))

    def audited(self, shard: Shard) -> Audited | None:
        return self._queue.audited(self._names.shard_out(shard))

    def buffer(self, shard: Shard) -> TopicInfo:
        return self._info(self._queue.buffer(self._names.shard_out(shard)))

    def reach(self) -> None:
        self._queue.reach()

    def target_trouble(self, shard: Shard) -> str | None:
        return self._queue.target_trouble(self._names.shard_out(shard))

    def owners(self) -> dict[Shard, Owner]:
        return {
            self._names.shard_back(shard): owner._replace(writer=self._names.back(owner.writer))
            for shard, owner in self._queue.owners().items()
        }

    def appended_at_ms(self, shard: Shard, offset: int) -> int | None:
        return self._queue.appended_at_ms(self._names.shard_out(shard), offset)
