"""The mirror: the compacted topic `<ns>.cursor`, which has every cursor that was committed, in the same transaction.

What was read of it is kept, so that only what came since is read again. Its log is compacted in small segments
(`mq.kafka.admin.buffers.CURSOR`), and thus read from the start in a fraction of a second.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import spread
from delayline.clock import Clock
from delayline.records.message import Shard
from mq.errors import QueueUnavailable
from mq.kafka.admin.cluster import Cluster
from mq.kafka.admin.readers import Readers
from mq.kafka.settings import KafkaSettings

FRESH_S = 0.5
"""What was read is used for as long: shards are taken over several at a time. No coordinator dies, and is back with
what it has not lost, within that."""

HIDDEN_S = 2.0
"""How long an open transaction may hide the end of it; the caller tries again later."""


def shard_key(shard: Shard) -> bytes:
    return ".".join(shard).encode()


@dataclass(frozen=True, slots=True)
class _Seen:
    """The topic as far as it was read: by partition the next offset, and the last value of each key."""

    topic_id: bytes
    read_at_s: float | None
    positions: Mapping[int, int]
    values: Mapping[tuple[int, bytes], bytes | None]


class Mirror:
    """Any thread may call it: what was seen is replaced, and never changed."""

    def __init__(self, settings: KafkaSettings, cluster: Cluster, readers: Readers, clock: Clock) -> None:
        self._topic = settings.names.cursor
        self._cluster = cluster
        self._readers = readers
        self._clock = clock
        self._seen = _nothing(b"")

    def cursor(self, shard: Shard, *, whole: bool = False) -> Cursor | None:
        """The shard's last one that can be read now. `whole`: that is in the log now, however long another
        worker's transaction hides some of it. Raises QueueUnavailable, also where that does not end in time,
        or where brokers have lost some of it, UnknownFormat, and TopicUnknown where there is no such topic."""
        seen, numbers = self._so_far()
        number, now_s = spread(shard, len(numbers)), self._clock.monotonic_s()
        if whole:
            seen = self._read_on(seen, self._cluster.log_ends(self._topic, [number]))
        elif seen.read_at_s is None or now_s - seen.read_at_s > FRESH_S:
            ends = self._cluster.log_ends(self._topic, numbers, readable=True)
            seen = replace(self._read_on(seen, ends), read_at_s=now_s)
        self._seen = seen
        value = seen.values.get((number, shard_key(shard)))
        return None if value is None else Cursor.decode(value)

    def prepare(self) -> None:
        """Read what there is, with a reader that is connected from then on, so that a first takeover waits for
        neither. Raises QueueUnavailable, TopicUnknown."""
        seen, numbers = self._so_far()
        self._seen = self._read_on(seen, self._cluster.log_ends(self._topic, numbers, readable=True), anyway=True)

    def _so_far(self) -> tuple[_Seen, range]:
        """What was read of the topic that there is now, and its partitions."""
        info = self._cluster.recall(self._topic).info
        seen = self._seen if self._seen.topic_id == info.topic_id else _nothing(info.topic_id)
        return seen, range(len(info.partitions))

    def _read_on(self, seen: _Seen, ends: Mapping[int, int], *, anyway: bool = False) -> _Seen:
        """`anyway`: also where there is nothing to read."""
        at = seen.positions
        if any(at.get(number, 0) > end for number, end in ends.items()):
            raise QueueUnavailable(f"{self._topic} ends before what was read of it: at {ends}, and not {at}")
        behind = {number for number, end in ends.items() if anyway or at.get(number, 0) < end}
        if not behind:
            return seen
        known = {**self._starts(behind - at.keys()), **at}
        starts = {number: known[number] for number in behind}
        messages, positions = self._readers.onwards(self._topic, starts, ends, HIDDEN_S)
        news = {(message.partition() or 0, message.key() or b""): message.value() for message in messages}
        return replace(seen, positions={**at, **positions}, values={**seen.values, **news})

    def _starts(self, unread: Collection[int]) -> dict[int, int]:
        """Asked here: a new reader that is to begin at the beginning learns half a second later where that is
        (librdkafka 2.16), and a takeover waits for it."""
        return self._cluster.log_starts(self._topic, sorted(unread)) if unread else {}


def _nothing(topic_id: bytes) -> _Seen:
    return _Seen(topic_id, None, {}, {})
