"""Client: what the frontends append and read."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, Full, Queue
from threading import Event
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from delayline.clock import Clock
from delayline.errors import DelaylineError
from delayline.process import threads
from mq.contract import Append, LogRecord, Position
from mq.errors import CommitUnknown, OffsetOutOfRange, QueueError, QueueUnavailable
from mq.kafka.admin.cluster import Cluster, partition_number
from mq.kafka.admin.readers import Readers
from mq.kafka.data_path.finishing import Finisher
from mq.kafka.data_path.producer import WireTransactions
from mq.kafka.data_path.sends import Aborted, Send
from mq.kafka.ingress.claim import KafkaClaim
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.bodies import BATCH_OVERHEAD_BYTES, UNPLACED, parts_of, standing
from mq.kafka.librdkafka.producers import flush, see_partitions
from mq.kafka.librdkafka.renewed import Renewed
from mq.kafka.settings import KafkaSettings

POLL_S = 0.1
LEAVE_S = 10.0
WAITING_MAX = 1000
"""Appends of several records that wait for a transaction; more are refused."""
GROUP_MAX = 100
"""Appends that share a transaction."""


class Wanted(NamedTuple):
    """An append of several records, where each goes, and who waits for it."""

    records: Sequence[Append]
    partitions: Sequence[int]
    future: "Future[list[Position]]"


class KafkaClient:
    """Any thread may call it. A record alone goes by an idempotent producer; several are one transaction, so that all
    are stored or none. Threads: one serves the producer, one the transactions, one looks up unknown topics."""

    def __init__(
        self,
        settings: KafkaSettings,
        cluster: Cluster,
        readers: Readers,
        clock: Clock,
        finisher: Finisher,
        transactions: WireTransactions,
    ) -> None:
        self._settings, self._clock, self._finisher = settings, clock, finisher
        self.cluster = cluster
        self._readers = readers
        self.line = Renewed(
            lambda: Producer(settings.producer()),
            lambda old: flush(old, settings.transaction_timeout_s, clock),  # each waiting caller gets the error
            settings.adrift_s,
            clock,
        )
        self._transactions = transactions
        self._waiting: Queue[Wanted] = Queue(WAITING_MAX)
        self._lookups = ThreadPoolExecutor(1, thread_name_prefix="kafka-lookup")
        self.closing = Event()
        self._threads = [
            threads.lasting("kafka-send", self.serve, self.closing),
            threads.lasting("kafka-transact", self._transact, self.closing),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        if self.closing.is_set():
            return
        self.closing.set()
        self._lookups.shutdown(cancel_futures=True)
        for thread in self._threads:
            thread.join(LEAVE_S)
        self._transactions.close()
        flush(self.line.client, LEAVE_S, self._clock)
        while (wanted := self._next(0)) is not None:
            wanted.future.set_exception(QueueUnavailable("the queue is closed"))

    def trouble(self) -> str | None:
        """Why nothing can be appended, until a new producer lasts; None where nothing shows. Does not block."""
        found = self.line.trouble
        return None if found is None else f"nothing can be sent: {found}"

    def _check(self) -> None:
        if self.closing.is_set():
            raise QueueUnavailable("the queue is closed")

    # --- append

    def append(self, records: Sequence[Append]) -> "Future[list[Position]]":
        """Does not block: where a topic has not been seen lately, another thread asks for it."""
        future: Future[list[Position]] = Future()
        future.set_running_or_notify_cancel()
        if self.closing.is_set():
            future.set_exception(QueueUnavailable("the queue is closed"))
        elif not records:
            future.set_result([])
        elif all(self.cluster.known(topic) for topic in {record.topic for record in records}):
            self._append(records, future)
        else:
            self._lookups.submit(self._append, records, future)
        return future

    def _append(self, records: Sequence[Append], future: "Future[list[Position]]") -> None:
        try:
            numbers = [self._number(record.topic, record.partition) for record in records]
            if len(records) == 1:
                self.append_one(records[0], numbers[0], future)
            else:
                for record in records:
                    parts_of(record.body)  # what librdkafka would cut, its readers would not see whole
                self._waiting.put_nowait(Wanted(records, numbers, future))
        except DelaylineError as error:
            future.set_exception(error)
        except Full:
            future.set_exception(QueueUnavailable(f"{WAITING_MAX} appends are waiting already"))
        except Exception as error:  # noqa: BLE001 - whoever waits would wait for ever
            threads.noted("kafka-lookup", error)
            future.set_exception(QueueUnavailable(f"appending to {records[0].topic}: {error!r}"))

    def claim(self, transactional_id: str) -> "_Claim":
        """Raises QueueUnavailable."""
        self._check()
        return _Claim(KafkaClaim(self._settings, transactional_id, self._clock, self._finisher), self._number)

    def _number(self, topic: str, partition: str) -> int:
        """Raises TopicUnknown, PartitionUnknown."""
        return partition_number(partition, len(self.cluster.recall(topic).info.partitions), topic)

    def append_one(self, record: Append, number: int, future: "Future[list[Position]]") -> None:
        """Hot: once per message sent over HTTP. Raises QueueError, MalformedRecord."""
        key, value, headers = parts_of(record.body)
        producer = self.line.client

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            self.line.heard(error is None or not (trouble.local(error) or trouble.fatal(error)))
            if error is None and message.offset() is not None:
                future.set_result([_position(record, *standing(message))])
            elif error is None:
                future.set_exception(QueueUnavailable(f"appending to {record.topic}: {UNPLACED}"))
            else:
                self.cluster.forget(record.topic)
                self._note_fatal(producer, error)
                future.set_exception(trouble.queue_error(error, f"appending to {record.topic}"))

        produce = partial(
            producer.produce, record.topic, value, key, number, on_delivery=on_delivery, headers=headers
        )
        try:
            produce()
        except KafkaException as error:
            if trouble.cause(error).code() != KafkaError._UNKNOWN_PARTITION:
                raise self._refused(producer, record, error) from error
            self._lookups.submit(self._append_late, producer, record, produce, future)

    def _append_late(
        self, producer: Producer, record: Append, produce: Callable[[], None], future: "Future[list[Position]]"
    ) -> None:
        """The cluster has the partition, and the library would see it within five minutes by itself."""
        try:
            see_partitions(producer, record.topic, self._settings.request_timeout_s)
            produce()
        except KafkaException as error:
            future.set_exception(self._refused(producer, record, error))
        except Exception as error:  # noqa: BLE001 - whoever waits would wait for ever
            threads.noted("kafka-lookup", error)
            future.set_exception(QueueUnavailable(f"appending to {record.topic}: {error!r}"))

    def _refused(self, producer: Producer, record: Append, error: KafkaException) -> QueueError:
        self._note_fatal(producer, trouble.cause(error))
        return trouble.queue_error(trouble.cause(error), f"appending to {record.topic}")

    def _note_fatal(self, producer: Producer, error: KafkaError) -> None:
        if trouble.fatal(error):
            self.line.failed(producer, error.str())

    def serve(self) -> None:
        while not self.closing.is_set():
            producer = self.line.client
            try:
                producer.poll(POLL_S)
            except KafkaException as error:
                if not trouble.fatal(trouble.cause(error)):
                    raise
                self._note_fatal(producer, trouble.cause(error))
            self.line.mend()

    # --- several records at once

    def _transact(self) -> None:
        while not self.closing.is_set():
            first = self._next(POLL_S)
            if first is not None:
                self._carry_out([first, *self._more()])

    def _next(self, timeout_s: float) -> Wanted | None:
        try:
            return self._waiting.get(timeout=timeout_s) if timeout_s else self._waiting.get_nowait()
        except Empty:
            return None

    def _more(self) -> list[Wanted]:
        found: list[Wanted] = []
        while len(found) < GROUP_MAX - 1 and (wanted := self._next(0)) is not None:
            found.append(wanted)
        return found

    def _carry_out(self, group: Sequence[Wanted]) -> None:
        """One transaction for all; where it is refused, one for each, so that only the guilty one fails."""
        positions: list[list[Position | None]] = [[None] * len(wanted.records) for wanted in group]
        try:
            self._transactions.run(
                [send for wanted, found in zip(group, positions, strict=True) for send in _sends(wanted, found)]
            )
        except (Aborted, CommitUnknown, DelaylineError) as error:
            if len(group) > 1 and not isinstance(error, CommitUnknown):
                for wanted in group:
                    self._carry_out([wanted])
                return
            for wanted in group:
                wanted.future.set_exception(_refusal(error))
            return
        except Exception as error:
            for wanted in group:
                wanted.future.set_exception(QueueUnavailable(f"appending: {error!r}"))
            raise
        for wanted, found in zip(group, positions, strict=True):
            wanted.future.set_result([position for position in found if position is not None])

    # --- read

    def read(
        self, topic: str, partition: str, offset: int, records_max: int, bytes_max: int = 4 << 20
    ) -> list[LogRecord]:
        self._check()
        number = self._number(topic, partition)
        try:
            return self._readers.read(topic, number, offset, records_max, bytes_max)
        except OffsetOutOfRange:
            if (
                self.cluster.log_range(topic, number, readable=True)[1]
                < offset
                <= self.cluster.log_range(topic, number)[1]
            ):
                return []  # it is there, but a transaction is open before it
            raise

    def offsets(self, topic: str, partition: str) -> tuple[int, int]:
        """The end is that of what can be read: before the first transaction that is open."""
        self._check()
        return self.cluster.log_range(topic, self._number(topic, partition), readable=True)

    def wait(self, topic: str, positions: Mapping[str, int], timeout_s: float) -> bool:
        self._check()
        numbers = {self._number(topic, name): offset for name, offset in positions.items()}
        return self._readers.wait(topic, numbers, timeout_s)

    def is_stable(self, topic: str, partition: str, timeout_s: float) -> bool:
        """A transaction that is committed can be read when its marker is in the log, a moment after its end was
        acknowledged; one whose producer is dead hides what is behind it until its coordinator gives it up."""
        self._check()
        return self.cluster.is_stable(topic, self._number(topic, partition), timeout_s)

    def record_bytes_max(self, topic: str) -> int:
        self._check()
        return int(self.cluster.config(topic)["max.message.bytes"]) - BATCH_OVERHEAD_BYTES


class _Claim:
    """`mq.contract.Claim` by names of partitions."""

    def __init__(self, claim: KafkaClaim, number: Callable[[str, str], int]) -> None:
        self._claim, self._number = claim, number

    def append(self, records: Sequence[Append]) -> None:
        self._claim.write([(topic, self._number(topic, partition), body) for topic, partition, body in records])

    def close(self) -> None:
        self._claim.close()


def _position(record: Append, offset: int, stamped_at_ms: int) -> Position:
    """A buffer's time is the broker's; another topic's may be that of this machine, by its settings."""
    return Position(record.topic, record.partition, offset, stamped_at_ms)


def _sends(wanted: Wanted, found: list[Position | None]) -> list[Send]:
    """Each send notes its position in `found`."""

    def note(index: int, offset: int, stamped_at_ms: int) -> None:
        found[index] = _position(wanted.records[index], offset, stamped_at_ms)

    return [
        Send(record.topic, number, record.body, None, partial(note, index))
        for index, (record, number) in enumerate(zip(wanted.records, wanted.partitions, strict=True))
    ]


def _refusal(error: Exception) -> Exception:
    if isinstance(error, Aborted):
        return trouble.queue_error(error.error, "appending")
    if isinstance(error, CommitUnknown):
        return QueueUnavailable(str(error))
    return error
