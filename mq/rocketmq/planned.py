"""Reading planned parts of queues, for the reconcile job: those offsets and no others, all of them or an error.

The offsets of a queue have no gaps. Where some are lacking, the broker has deleted them: by age, and whole files at
a time (`CleanCommitLogService`); then a pull is answered with a later message, or with the queue's new beginning.
"""

from collections.abc import Callable, Iterator, Sequence
from threading import Event

from delayline.buffer.cursor import Cursor
from delayline.clock import Clock
from delayline.records.message import Shard
from mq.contract import LogRecord
from mq.errors import OffsetOutOfRange, QueueError, QueueUnavailable
from mq.rocketmq.body import to_body
from mq.rocketmq.cluster import RocketmqCluster, TopicOnBrokers
from mq.rocketmq.gaps import deleted, gap_in
from mq.rocketmq.journal import Journals
from mq.rocketmq.naming import place_of
from mq.rocketmq.settings import RocketmqSettings
from rocketmq.client.broker import Pulled
from rocketmq.client.client import Client
from rocketmq.wire.bodies import Queue

CHUNK = 1000
"""Messages asked for at once. A broker hands out fewer, up to `maxTransferCountOnMessageInMemory` (32) and 256 KiB,
so that a chunk is all that a task holds."""
PATIENCE_S = 60.0
"""Without progress: a broker that starts again, or that has not shown yet what it has stored, takes less."""
PAUSE_S = 0.2


class PlannedReads:
    """Called by one thread. `close` it. Each method raises QueueError."""

    def __init__(
        self,
        settings: RocketmqSettings,
        clock: Clock,
        rest: Callable[[float], object] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Sends no request yet. `rest` waits so many seconds."""
        self._wire_names = settings.wire_names
        self._clock, self._rest, self._patience_s = clock, rest or Event().wait, patience_s
        self._client = Client(settings.client())
        self.cluster = RocketmqCluster(settings, self._client, clock)
        self._journals = Journals(self.cluster, self._client.broker)
        self._translated_errors = self.cluster.translated_errors

    def close(self) -> None:
        self.cluster.close()
        self._client.close()

    # --- what there is

    def buffers(self) -> dict[str, TopicOnBrokers]:
        """By target topic."""
        return {target: self.cluster.describe(name) for target, name in sorted(self.cluster.buffers().items())}

    def range(self, topic: str, partition: str) -> tuple[int, int]:
        """(first offset held, offset behind the last). Raises TopicUnknown, PartitionUnknown as well."""
        return self.cluster.range(self.cluster.queue(topic, partition))

    def since(self, topic: str, partition: str, stored_ms: int) -> int:
        """The offset of the first record that was stored then or later; behind the last one where there is none."""
        queue = self._queue(topic, partition)
        with self._translated_errors(f"looking for a time in {queue.topic}"):
            return self._client.broker.offset_at(queue, stored_ms)

    def is_compacted(self, found: TopicOnBrokers) -> bool:
        """Whether a broker keeps the topic's last message of each key alone (RIP-48)."""
        with self._translated_errors(f"asking for attributes of {found.wire}"):
            found_on = [self._client.admin.topic_attributes(found.wire, broker) for broker in found.brokers]
        return any(one.get("cleanup.policy", "").upper() == "COMPACTION" for one in found_on)

    def cursor(self, shard: Shard) -> Cursor | None:
        """The committed one, as far as the journal alone shows. Raises UnknownFormat."""
        journal = place_of(shard.partition, shard.topic).of(self._wire_names.journal(shard.topic))
        data = self._journals.state(journal).known_cursor
        return None if data is None else Cursor.decode(data)

    # --- records

    def _queue(self, topic: str, partition: str) -> Queue:
        """Whether there is one is not asked: of a broker that starts again there is no route."""
        return place_of(partition, topic).of(self._wire_names.out(topic))

    def read(self, topic: str, partition: str, start: int, end: int) -> Iterator[Sequence[LogRecord]]:
        """The records with offsets in `[start, end)`, in chunks. What fails is asked again for `patience_s`. Raises
        OffsetOutOfRange where some are not held any more, or the queue ends before `end`."""
        what, queue = f"{topic}, partition {partition}", self._queue(topic, partition)
        offset, give_up_s = start, self._clock.monotonic_s() + self._patience_s
        while offset < end:
            failure: QueueError = OffsetOutOfRange(f"{what}: it ends at {offset}, before {end}")
            try:
                records = _whole(what, offset, self._pull(queue, offset, min(CHUNK, end - offset)))
            except QueueUnavailable as error:
                records, failure = [], error
            if records:
                yield records
                offset, give_up_s = records[-1].offset + 1, self._clock.monotonic_s() + self._patience_s
            elif self._clock.monotonic_s() > give_up_s:
                raise failure
            else:
                self._rest(PAUSE_S)

    def _pull(self, queue: Queue, offset: int, records_max: int) -> Pulled:
        """Raises QueueUnavailable: a broker that starts again is not in any route."""
        try:
            with self._translated_errors(f"reading {queue.topic}, {queue.broker}:{queue.queue_id}"):
                return self._client.broker.pull(queue, offset, messages_max=records_max)
        except QueueError as error:
            raise QueueUnavailable(str(error)) from error


def _whole(what: str, offset: int, pulled: Pulled) -> list[LogRecord]:
    """From `offset` on; nothing where the broker shows nothing there yet. Raises OffsetOutOfRange for a gap."""
    if (gap := gap_in(offset, pulled)) is not None:
        raise OffsetOutOfRange(deleted(what, gap))
    return [LogRecord(one.queue_offset, one.stored_ms, to_body(one)) for one in pulled.messages]
