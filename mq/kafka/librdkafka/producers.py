"""librdkafka's producers, which append, claim and fence, and the records that they were refused."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from delayline.clock import Clock
from delayline.process import logs
from mq.kafka.librdkafka.bodies import parts_of
from mq.kafka.librdkafka.trouble import cause, purged
from mq.kafka.settings import KafkaSettings

log = logs.get(__name__)

COMMIT_TIMEOUTS = 3
"""How many transaction timeouts a commit is insisted on: by then the coordinator has ended the transaction in one way
or the other. Whatever comes before may be given up sooner, because nothing is committed then."""

RAISED = (KafkaException, SystemError)
"""What a producer's calls raise. SystemError: the producer has failed for good, mostly because another has taken its
id, and while the library had that exception in its hands it called Python for a log line or a delivery, which lost it
(confluent-kafka 2.16, `error_cb` and `log_cb` in confluent_kafka.c)."""


class Failure(NamedTuple):
    """A record that was refused, by topic and partition."""

    topic: str
    partition: int
    error: KafkaError


LOOK_S = 5.0


def see_partitions(producer: Producer, topic: str, timeout_s: float) -> None:
    """Have the library look how many partitions the topic has: by itself it does so every five minutes, and takes no
    record for one that it has not seen. Raises KafkaException."""
    producer.list_topics(topic, timeout_s)


class Outgoing:
    """Records on their way in one go, by librdkafka; remembers which were refused. It does not keep the producer
    alive."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self._looked: set[str] = set()

    def send(self, producer: Producer, topic: str, partition: int, body: bytes) -> None:
        """Raises MalformedRecord."""
        key, value, headers = parts_of(body)
        produce = partial(producer.produce, topic, value, key, partition, on_delivery=self._heard, headers=headers)
        try:
            try:
                produce()
            except KafkaException as error:
                if not self._is_new(producer, topic, cause(error)):
                    raise
                produce()
        except KafkaException as error:
            self.failures.append(Failure(topic, partition, cause(error)))

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

    def _heard(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(Failure(str(message.topic()), message.partition() or 0, error))

    @property
    def culprits(self) -> tuple[Failure, ...]:
        """The records that were refused, without those that were dropped because of them."""
        return tuple(fail for fail in self.failures if not purged(fail.error)) or tuple(self.failures)


def initialised(settings: KafkaSettings, transactional_id: str, timeout_s: float) -> Producer:
    """A producer that may begin a transaction. Those before it with its id are fenced, and what they left open is
    aborted. `timeout_s` is for each step. Raises KafkaException.

    A client that looks for its coordinator before it is connected to a broker looks again half a second later, and
    that can be half a takeover (librdkafka 2.16, `rd_kafka_txn_coord_timer_start`). So it asks for something else
    first: the first answer has the brokers' names, the second comes from one of those."""
    producer = Producer(settings.transactional(transactional_id))
    for _ in range(2):
        producer.list_topics(settings.names.cursor, timeout_s)
    producer.init_transactions(timeout_s)
    return producer


def flush(producer: Producer, timeout_s: float, clock: Clock) -> int:
    """How many records were not heard of in time. One that meets a fatal error raises it once, in the middle of its
    reports; every waiting caller must get its result all the same."""
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
