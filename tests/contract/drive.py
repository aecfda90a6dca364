"""Short words for what the suite does again and again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any

import msgspec

from delayline.buffer.cursor import Cursor
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.audited import decode_metadata
from mq.contract import Append, Assigned, Event, Fetched, LogRecord, Position, Queue, ShardBatch, Sink, Source
from mq.embedded import EmbeddedQueue
from mq.local.queue import LocalQueue
from mq.memory import MemoryQueue

JOIN_S = 10.0
"""How long a thread may take that should be done at once."""


def append(queue: LocalQueue, topic: str, partition: str, *bodies: bytes) -> list[Position]:
    """Where transactions leave holes in a log, one after the other: offsets then follow without a gap. Each is waited
    for: of a record that had to be sent again while a later one was stored, librdkafka does not report the offset."""
    records = [Append(topic, partition, body) for body in bodies]
    groups = [[record] for record in records] if getattr(queue, "holes", False) else [records]
    return [position for group in groups for position in queue.append(group).result(JOIN_S)]


def bodies(queue: LocalQueue, topic: str, partition: str = "0", offset: int = 0) -> list[bytes]:
    return [record.body for record in queue.read(topic, partition, offset, 10_000, 1 << 30)]


def buffer(queue: LocalQueue, topic: str = "orders") -> str:
    """The name of the topic's buffer, made where it is missing."""
    return queue.ensure_buffer(topic, DEFAULT_RULES).name


def commit_audited(queue: Any, shard: Shard, offset: int, metadata: str) -> None:
    """What the reconcile job leaves behind. `metadata` is JSON, as beside a committed offset."""
    if isinstance(queue, MemoryQueue):
        queue.audit_positions[shard] = decode_metadata(offset, metadata)
    elif isinstance(queue, EmbeddedQueue):
        positions = {"positions": {shard.topic: {shard.partition: offset}}}
        file = queue._folder.path.with_name("reconcile.json")
        file.with_name("new").write_bytes(msgspec.json.encode(msgspec.json.decode(metadata) | positions))
        file.with_name("new").rename(file)
    else:
        queue.commit_audited(shard, offset, metadata)


def in_thread(call: Any, *args: Any) -> Thread:
    thread = Thread(target=call, args=args, daemon=True)
    thread.start()
    return thread


@dataclass
class Worker:
    """A worker that owns every shard of `orders`."""

    queue: Queue
    name: str
    source: Source
    sink: Sink
    cursors: dict[Shard, Cursor]

    def commit(self, shard: Shard, **parts: Any) -> None:
        self.sink.commit([ShardBatch(shard, self.cursors[shard], **parts)])

    def poll(self, records_max: int = 10_000) -> dict[Shard, list[LogRecord]]:
        """What one poll fetches, by shard."""
        return fetched(self.source.poll(records_max, 0))

    def quiet(self) -> bool:
        """Whether nothing can be fetched."""
        return not fetched(nothing(self.source))

    def seek_all(self) -> None:
        for shard in self.cursors:
            self.source.seek(shard, 0)


def fetched(events: Sequence[Event]) -> dict[Shard, list[LogRecord]]:
    found: dict[Shard, list[LogRecord]] = {}
    for event in events:
        if isinstance(event, Fetched):
            found.setdefault(event.shard, []).extend(map(LogRecord._make, event.records))
    return found


def nothing(source: Source) -> Sequence[Event]:
    """What happens where nothing is expected to."""
    look = getattr(source, "quiet", None)
    return look(10) if look else source.poll(10, 0)


def assigned(events: Sequence[Event]) -> list[Shard]:
    return [shard for event in events if isinstance(event, Assigned) for shard in event.shards]


def start_worker(queue: LocalQueue, name: str = "first", topic: str = "orders") -> Worker:
    """Open a worker and claim every shard of the topic."""
    buffer(queue, topic)
    source, sink = queue.open_worker(name)
    shards = assigned(source.poll(1, 0))
    cursors = {shard: next_claim(queue, shard, name) for shard in shards}
    sink.commit([ShardBatch(shard, cursor) for shard, cursor in cursors.items()])
    return Worker(queue, name, source, sink, cursors)


def next_claim(queue: LocalQueue, shard: Shard, writer: str) -> Cursor:
    handover = queue.takeover(shard)
    last = handover.cursor or Cursor(topic_id=handover.topic_id)
    return replace(last, owner_epoch=last.owner_epoch + 1, writer=writer)
