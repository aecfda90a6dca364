"""A producer with one transaction at a time, and what can become of one."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from delayline import logs
from delayline.clock import Clock
from mq.errors import CommitUnknown, QueueUnavailable
from mq.kafka.bodies import UNPLACED, parts_of, standing
from mq.kafka.finishing import Finisher
from mq.kafka.settings import KafkaSettings
from mq.kafka.trouble import cause, local, old_generation, purged, timed_out

Delivered = Callable[[int, int], None]
"""Hears where a record stands, and its time there (epoch ms)."""

log = logs.get(__name__)

COMMIT_TIMEOUTS = 3
"""How many transaction timeouts a commit is insisted on: by then the coordinator has ended the transaction in one way
or the other. Whatever comes before may be given up sooner, because nothing is committed then."""

LATE_S = 1.0
"""What a call of the library may take beyond the timeout that it was given."""

RAISED = (KafkaException, SystemError)
"""What a producer's calls raise. SystemError: the producer has failed for good, mostly because another has taken its
id, and while the library had that exception in its hands it called Python for a log line or a delivery, which lost it
(confluent-kafka 2.16, `error_cb` and `log_cb` in confluent_kafka.c)."""


class Send(NamedTuple):
    """A body for a partition; `timestamp_ms` None is now. `delivered` hears where it stands, before the commit."""

    topic: str
    partition: int
    body: bytes
    timestamp_ms: int | None = None
    delivered: Delivered | None = None


class Bulk(NamedTuple):
    """Many records for one partition."""

    topic: str
    partition: int
    deliveries: Sequence[tuple[bytes, int | None]]


class Failure(NamedTuple):
    """A record that was refused, by topic and partition."""

    topic: str
    partition: int
    error: KafkaError


class Aborted(Exception):
    """For certain nothing was committed. `failures` are the records that were refused, if that is why."""

    def __init__(self, error: KafkaError, failures: Sequence[Failure] = ()) -> None:
        super().__init__(error.str())
        self.error = error
        self.failures = failures

    @property
    def silent(self) -> bool:
        """Nothing says who is at fault: there was no answer in time (too few replicas are waited for, too), or
        records were dropped with others."""
        errors = [failure.error for failure in self.failures] or [self.error]
        return all(purged(error) or timed_out(error) for error in errors)


LOOK_S = 5.0


def see_partitions(producer: Producer, topic: str, timeout_s: float) -> None:
    """Have the library look how many partitions the topic has: by itself it does so every five minutes, and takes no
    record for one that it has not seen. Raises KafkaException."""
    producer.list_topics(topic, timeout_s)


class Outgoing:
    """Records on their way in one go; remembers which were refused. It does not keep the producer alive."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self._looked: set[str] = set()

    def send(self, producer: Producer, send: Send | Bulk) -> None:
        """Raises MalformedRecord."""
        if isinstance(send, Bulk):
            self._produce(producer, send.topic, send.partition, send.deliveries, self._heard)
        else:
            heard = self._heard if send.delivered is None else partial(self._heard, delivered=send.delivered)
            delivery = (send.body, send.timestamp_ms)
            self._produce(producer, send.topic, send.partition, [delivery], heard)

    def _produce(
        self,
        producer: Producer,
        topic: str,
        partition: int,
        deliveries: Iterable[tuple[bytes, int | None]],
        heard: Callable[..., None],
    ) -> None:
        """Hot: once per record, which is why its arguments have no names."""
        produce = producer.produce
        for body, timestamp_ms in deliveries:
            key, value, headers = parts_of(body)
            stamp = 0 if timestamp_ms is None else max(1, timestamp_ms)  # 0 is now
            try:
                produce(topic, value, key, partition, heard, None, stamp, headers)
            except KafkaException as error:
                if not self._is_new(producer, topic, cause(error)):
                    self.failures.append(Failure(topic, partition, cause(error)))
                    continue
                try:
                    produce(topic, value, key, partition, heard, None, stamp, headers)
                except KafkaException as again:
                    self.failures.append(Failure(topic, partition, cause(again)))

    def _is_new(self, producer: Producer, topic: str, error: KafkaError) -> bool:
        """Whether the library may know more partitions of the topic now. It is asked to look once."""
        if error.code() != KafkaError._UNKNOWN_PARTITION or topic in self._looked:
            return False
        self._looked.add(topic)
        try:
            see_partitions(producer, topic, LOOK_S)
        except KafkaException:
            return False
        return True

    def _heard(self, error: KafkaError | None, message: Message, delivered: Delivered | None = None) -> None:
        """What became of a record. Hot."""
        if error is not None:
            self.failures.append(Failure(str(message.topic()), message.partition() or 0, error))
        elif delivered is None:
            return
        elif message.offset() is None:
            unplaced = KafkaError(KafkaError._FAIL, UNPLACED)
            self.failures.append(Failure(str(message.topic()), message.partition() or 0, unplaced))
        else:
            delivered(*standing(message))

    @property
    def culprits(self) -> tuple[Failure, ...]:
        """The records that were refused, without those that were dropped because of them."""
        return tuple(fail for fail in self.failures if not purged(fail.error)) or tuple(self.failures)


def initialised(settings: KafkaSettings, transactional_id: str, timeout_s: float) -> Producer:
    """A producer that may begin a transaction. Those before it with its id are fenced, and what they left open is
    aborted. `timeout_s` is for each step. Raises KafkaException.

    A client that looks for its coordinator before it is connected to a broker looks again half a second later, and
    that can be half a takeover (librdkafka 2.16, `rd_kafka_txn_coord_timer_start`). So it asks for something else
    first: the first answer tells it the brokers' names, the second comes from one of those."""
    producer = Producer(settings.transactional(transactional_id))
    for _ in range(2):
        producer.list_topics(settings.names.cursor, timeout_s)
    producer.init_transactions(timeout_s)
    return producer


def flush(producer: Producer, timeout_s: float, clock: Clock) -> int:
    """How many records were not heard of in time. One that meets a fatal error raises it once, in the middle of what
    it has to tell; who waits must be told all the same."""
    give_up_s = clock.monotonic_s() + timeout_s
    while True:
        try:
            return producer.flush(max(0.0, give_up_s - clock.monotonic_s()))
        except RAISED as error:
            log.warning("a producer failed while it was flushed", detail=str(error))
            if clock.monotonic_s() >= give_up_s:
                return len(producer)


def insist(call: Callable[[float], object], timeouts: int, settings: KafkaSettings, clock: Clock) -> None:
    """Repeat what may be repeated, for so many transaction timeouts. Raises KafkaException."""
    give_up_s = clock.monotonic_s() + timeouts * settings.transaction_timeout_s
    while True:
        try:
            call(settings.request_timeout_s / 2)
            return
        except KafkaException as error:
            if not cause(error).retriable() or clock.monotonic_s() > give_up_s:
                raise


class Transactions(Protocol):
    """One transaction after the other, under one transactional id. One thread at a time."""

    def open(self) -> None:
        """Be ready: aborts what an earlier producer of this id has left open. Raises Aborted."""

    def close(self) -> None:
        """Let go; what is open is left to its timeout, or to the next producer of this id."""

    def run(
        self, sends: Iterable[Send | Bulk], offsets: Sequence[TopicPartition] = (), metadata: bytes | None = None
    ) -> None:
        """Write the records and commit the group's offsets, all or nothing; `metadata` is the group's member as
        librdkafka describes it. Raises Aborted, CommitUnknown."""


class LibraryTransactions:
    """By librdkafka. A producer that has failed is replaced with the next transaction."""

    def __init__(self, settings: KafkaSettings, transactional_id: str, clock: Clock, finisher: Finisher) -> None:
        self._settings = settings
        self._id = transactional_id
        self._clock = clock
        self._finisher = finisher
        self._producer: Producer | None = None

    def open(self) -> None:
        """Be ready: aborts what an earlier producer of this id has left open. Raises Aborted."""
        if self._producer is None:
            try:
                self._finisher.settle(self._id)
            except QueueUnavailable as error:
                raise Aborted(KafkaError(KafkaError._TRANSPORT, str(error))) from error
            try:
                self._producer = initialised(self._settings, self._id, self._settings.request_timeout_s)
            except RAISED as error:
                raise Aborted(_why(error)) from error

    def close(self) -> None:
        self._producer = None

    def run(
        self, sends: Iterable[Send | Bulk], offsets: Sequence[TopicPartition] = (), metadata: bytes | None = None
    ) -> None:
        """Write the records and commit the group's offsets, all or nothing. Raises Aborted, CommitUnknown.

        First the records, until the last is acknowledged, and then the offsets. Brokers take nothing of a transaction
        before the one before it has all its markers; so what an outage cuts off here has either never been heard of,
        and must not be when they come back, or stands behind a transaction that is complete."""
        self.open()
        assert self._producer is not None
        outgoing = Outgoing()
        try:
            self._producer.begin_transaction()
            for send in sends:
                outgoing.send(self._producer, send)
            left = self._producer.flush(self._settings.transaction_timeout_s)
            if not left and not outgoing.failures and offsets:
                self._send_offsets(list(offsets), metadata)
        except RAISED as error:
            why = _why(error, outgoing.culprits)
            self._abort(why)
            raise Aborted(why, outgoing.culprits) from error
        except BaseException:
            self._abort()
            raise
        if outgoing.failures or left:
            failures = outgoing.culprits
            why = failures[0].error if failures else KafkaError(KafkaError._TIMED_OUT)
            self._abort(why)
            raise Aborted(why, failures)
        self._commit()

    def _send_offsets(self, offsets: list[TopicPartition], metadata: bytes | None) -> None:
        """The library waits for a group coordinator that it has lost sight of for ever, whatever its timeout says
        (librdkafka 2.16, its issues 5456 and 5511). So it is called in a thread of its own, and where it does not
        return, producer and thread are left to themselves: the next producer of the same id fences this one.
        Raises KafkaException, Aborted."""
        within_s = self._settings.offsets_timeout_s
        done: Future[None] = Future()
        arguments = (self._producer, offsets, metadata, within_s, done)
        Thread(target=_send_offsets, args=arguments, name="kafka-offsets", daemon=True).start()
        del arguments
        try:
            done.result(within_s + LATE_S)
        except TimeoutError:
            self._producer = None
            raise Aborted(KafkaError(KafkaError._TIMED_OUT, "the group's coordinator does not answer")) from None

    def _commit(self) -> None:
        assert self._producer is not None
        try:
            insist(self._producer.commit_transaction, COMMIT_TIMEOUTS, self._settings, self._clock)
        except RAISED as error:
            found = _why(error)
            if found.txn_requires_abort():
                self._abort(found)
                raise Aborted(found) from error
            self._replace()
            raise CommitUnknown(f"the transaction's end is not known: {found.str()}") from error

    def _abort(self, why: KafkaError | None = None) -> None:
        """Whether or not the answer comes: without a commit the coordinator aborts in the end.

        A producer that the brokers do not answer is given up at once, and is gone with the last reference to it: what
        it still has to say must not be heard when they are back. The next producer begins anew under the same id,
        which ends what this one has left open.

        So is, after its abort, one whose offsets were refused for an old generation: in the next transaction it was
        seen to skip numbers."""
        producer, self._producer = self._producer, None
        if producer is None or (why is not None and local(why)):
            return
        with suppress(*RAISED):
            insist(producer.abort_transaction, 0, self._settings, self._clock)
            if why is None or not old_generation(why):
                self._producer = producer

    def _replace(self) -> None:
        """End the transaction whose fate is unknown, if the coordinator can be reached: until then its offsets cannot
        be read. Else it ends by its timeout."""
        self._producer = None
        try:
            self.open()
        except Aborted:
            self._producer = None


def _send_offsets(
    producer: Producer, offsets: list[TopicPartition], metadata: bytes | None, timeout_s: float, done: "Future[None]"
) -> None:
    try:
        producer.send_offsets_to_transaction(offsets, metadata, timeout_s)
    except BaseException as error:  # noqa: BLE001 - handed to the one who waits, without what would keep the producer
        done.set_exception(error.with_traceback(None))
    else:
        done.set_result(None)


def _why(error: KafkaException | SystemError, culprits: Sequence[Failure] = ()) -> KafkaError:
    """What was raised; where the library lost it, what the first record that was refused says."""
    if isinstance(error, KafkaException):
        return cause(error)
    return culprits[0].error if culprits else KafkaError(KafkaError._FATAL, str(error))
