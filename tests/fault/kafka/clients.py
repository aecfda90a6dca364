"""Clients that send, and write down what they know: what was sent, when it must arrive, and what they were answered.

A message's value is its tag, which no other message has. Three kinds of sender share one ledger:

    Stream    straight into buffer topics, as a proxy writes: one idempotent producer, any number in flight
    Groups    transactions over several buffers, some of them aborted
    Posts     batches over HTTP
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from random import Random
from threading import Event, Thread
from typing import Any, NamedTuple

import httpx
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mq.kafka.librdkafka.bodies import Headers

TICK_S = 0.01
FLUSH_S = 60.0
COMMIT_S = 10.0
"""How long a client asks for its transaction's end."""
GROUP_MAX = 20
POST_MAX = 40
HOLD_MAX_S = 0.2
"""How long a client's transaction stays open at most: what lies behind it waits, for us and for every reader."""


class Fate(Enum):
    """What a client knows about its message. UNKNOWN -> one of the others, or for ever."""

    UNKNOWN = "unknown"  # no answer came: it may be stored or not
    ACKNOWLEDGED = "acknowledged"  # it must end, once
    ABORTED = "aborted"  # its transaction was aborted: it must not be seen


class Place(NamedTuple):
    """Where an acknowledged message stands in its buffer, and when it was accepted (epoch ms)."""

    partition: int
    offset: int
    at_ms: int


@dataclass(slots=True)
class Sent:
    """One message as its sender knows it. `payload` is what must arrive: key, value and the headers that stay."""

    tag: bytes
    topic: str
    payload: tuple[Any, ...]
    delay_ms: int = 0
    deliver_at_ms: int | None = None
    undeliverable: bool = False
    fate: Fate = Fate.UNKNOWN
    place: Place | None = None
    committed_ms: int | None = None  # when its client heard that its transaction is committed (epoch ms)

    def due_ms(self, accepted_at_ms: int) -> int:
        return accepted_at_ms + self.delay_ms if self.deliver_at_ms is None else self.deliver_at_ms

    def acknowledge(self, place: Place) -> None:
        self.fate, self.place = Fate.ACKNOWLEDGED, place


@dataclass
class Ledger:
    """Everything that was sent, by tag. Adding is atomic enough for several threads: each has tags of its own."""

    sent: dict[bytes, Sent] = field(default_factory=dict)

    def count(self, fate: Fate) -> int:
        return sum(sent.fate is fate for sent in list(self.sent.values()))


@dataclass(frozen=True)
class Mix:
    """What is sent: delays are drawn up to `delay_max_ms`, so many of a thousand messages are out of the ordinary."""

    topics: Sequence[str]
    partitions: int
    delay_max_ms: int = 4000
    wrong_permille: int = 5
    past_permille: int = 20


class Writer:
    """Makes messages, each with a tag of its own."""

    def __init__(self, name: str, seed: int, mix: Mix, ledger: Ledger) -> None:
        self.rnd = Random(f"{seed} {name}")
        self.mix = mix
        self._name = name
        self._count = 0
        self._ledger = ledger

    def message(self) -> tuple[Sent, Headers]:
        """The next one, and the headers that make it what it is."""
        rnd = self.rnd
        self._count += 1
        tag = f"{self._name}-{self._count}".encode()
        key = tag if rnd.random() < 0.5 else None
        kept: Headers = [("src", b"web")] if rnd.random() < 0.3 else []
        sent = Sent(tag, rnd.choice(self.mix.topics), ())
        directive = self._directive(sent)
        stay = [*kept, directive] if sent.undeliverable else kept
        sent.payload = (key, tag, tuple((name.encode(), value) for name, value in stay))
        self._ledger.sent[tag] = sent
        return sent, [*kept, directive]

    def _directive(self, sent: Sent) -> tuple[str, bytes]:
        rnd, mix = self.rnd, self.mix
        drawn = rnd.randrange(1000)
        if drawn < mix.wrong_permille:
            sent.undeliverable = True
            return "delay-ms", b"soon"
        if drawn < mix.wrong_permille + mix.past_permille:
            sent.deliver_at_ms = now_ms() - rnd.randrange(5000)
        elif drawn < 200:
            sent.deliver_at_ms = now_ms() + rnd.randrange(mix.delay_max_ms)
        elif drawn < 300:
            sent.delay_ms = 1000
            return "delay-level", b"1"
        else:
            sent.delay_ms = rnd.randrange(mix.delay_max_ms)
            return "delay-ms", b"%d" % sent.delay_ms
        return "deliver-at", b"%d" % sent.deliver_at_ms

    def partition(self) -> int:
        return self.rnd.randrange(self.mix.partitions)


class Sender(Thread):
    """Sends about `rate` messages per second until it is stopped. `failure` is what it could not go on after."""

    def __init__(self, name: str, writer: Writer, rate: float) -> None:
        super().__init__(name=name, daemon=True)
        self.rate = rate
        self.failure: str | None = None
        self._writer = writer
        self._stopping = Event()

    def run(self) -> None:
        owed, before_s = 0.0, time.monotonic()
        try:
            while not self._stopping.wait(TICK_S):
                now_s = time.monotonic()
                owed = min(owed + self.rate * (now_s - before_s), 2 * self.rate)
                before_s = now_s
                owed -= self.send(int(owed))
            self.finish()
        except Exception as error:
            self.failure = repr(error)
            raise

    def send(self, count: int) -> int:
        """Send about so many; how many it really were."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait for the answers that are still to come."""

    def stop(self) -> None:
        self._stopping.set()


def _produce(producer: Producer, buffer: str, sent: Sent, headers: Headers, partition: int, on_delivery: Any) -> None:
    key, value = sent.payload[:2]
    while True:
        try:
            producer.produce(buffer, value, key, partition, headers=headers, on_delivery=on_delivery)
            return
        except BufferError:  # the brokers do not answer: the library holds no more
            producer.poll(0.1)


class Stream(Sender):
    """One record after the other through an idempotent producer."""

    def __init__(self, name: str, writer: Writer, rate: float, servers: str, buffer: Callable[[str], str]) -> None:
        super().__init__(name, writer, rate)
        self._buffer = buffer
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "message.timeout.ms": int(FLUSH_S * 1000),
                "linger.ms": 5,
                "log_level": 0,
            }
        )

    def send(self, count: int) -> int:
        for _ in range(count):
            sent, headers = self._writer.message()
            acknowledge = _acknowledged_to(sent)
            _produce(self._producer, self._buffer(sent.topic), sent, headers, self._writer.partition(), acknowledge)
        self._producer.poll(0)
        return count

    def finish(self) -> None:
        self._producer.flush(FLUSH_S)


def _acknowledged_to(sent: Sent) -> Callable[[KafkaError | None, Message], None]:
    """An error leaves its fate unknown: the record may have been written before the answer was lost."""

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            sent.acknowledge(_place(message))

    return delivered


def _place(message: Message) -> Place:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return Place(partition, offset, message.timestamp()[1])


class Groups(Sender):
    """Transactions of some records over several buffers; every fourth is aborted."""

    def __init__(self, name: str, writer: Writer, rate: float, servers: str, buffer: Callable[[str], str]) -> None:
        super().__init__(name, writer, rate)
        self._buffer = buffer
        self._config = {
            "bootstrap.servers": servers,
            "transactional.id": name,
            "transaction.timeout.ms": 5000,
            "linger.ms": 5,
            "log_level": 0,
        }
        self._producer: Producer | None = None
        self.aborted = 0
        self.committed = 0

    def send(self, count: int) -> int:
        if count < GROUP_MAX:
            return 0
        try:
            self._transact()
        except KafkaException:
            self._producer = None  # the next one begins anew under the same id, which ends what this one left
        return GROUP_MAX

    def _transact(self) -> None:
        if self._producer is None:
            producer = Producer(self._config)
            producer.init_transactions(10)
            self._producer = producer
        producer, rnd = self._producer, self._writer.rnd
        group: list[tuple[Sent, list[Place]]] = []
        producer.begin_transaction()
        for _ in range(rnd.randint(1, GROUP_MAX)):
            sent, headers = self._writer.message()
            places: list[Place] = []
            group.append((sent, places))
            note = _noted_in(places)
            _produce(producer, self._buffer(sent.topic), sent, headers, self._writer.partition(), note)
        producer.flush(10)
        self._stopping.wait(rnd.random() * HOLD_MAX_S)
        self._end(producer, group, abort=rnd.random() < 0.25)

    def _end(self, producer: Producer, group: Sequence[tuple[Sent, list[Place]]], *, abort: bool) -> None:
        if abort:
            producer.abort_transaction(10)
            self.aborted += 1
            for sent, _ in group:
                sent.fate = Fate.ABORTED
            return
        producer.commit_transaction(COMMIT_S)
        self.committed += 1
        for sent, (place,) in group:
            sent.acknowledge(place)
            sent.committed_ms = now_ms()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _noted_in(places: list[Place]) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            places.append(_place(message))

    return delivered


class Posts(Sender):
    """Atomic batches over HTTP. An answer that did not come, or 503, leaves the batch's fate unknown."""

    def __init__(self, name: str, writer: Writer, rate: float, url: str) -> None:
        super().__init__(name, writer, rate)
        self._url = url
        self._http = httpx.Client(timeout=20)
        self.answered = 0

    def send(self, count: int) -> int:
        if count < POST_MAX:
            return 0
        rnd = self._writer.rnd
        topic = rnd.choice(self._writer.mix.topics)
        batch = [sent for _ in range(rnd.randint(2, POST_MAX)) if not (sent := self._message(topic)).undeliverable]
        body = {"atomic": True, "messages": [_as_json(sent) for sent in batch]}
        try:
            answer = self._http.post(f"{self._url}/v1/topics/{topic}/messages", json=body)
        except httpx.TransportError:
            self._stopping.wait(0.2)
            return POST_MAX
        if answer.status_code == 201:
            self._note(batch, answer.json()["results"])
        elif answer.status_code < 500:
            raise AssertionError(f"{answer.status_code}: {answer.text}")
        return POST_MAX

    def _message(self, topic: str) -> Sent:
        """Headers that stay cannot be distinguished from directives here: none are sent. Nor is a delay of nothing,
        which goes straight to the topic and has no id."""
        sent, _ = self._writer.message()
        sent.topic = topic
        sent.delay_ms = max(1, sent.delay_ms)
        sent.payload = (*sent.payload[:2], ())
        return sent

    def _note(self, batch: Sequence[Sent], results: Sequence[dict[str, Any]]) -> None:
        self.answered += 1
        for sent, result in zip(batch, results, strict=True):
            _, partition, offset, _ = result["message"]["message_id"].rsplit(".", 3)
            at_ms = round(datetime.fromisoformat(result["message"]["accepted_at"]).timestamp() * 1000)
            sent.acknowledge(Place(int(partition), int(offset), at_ms))


def _as_json(sent: Sent) -> dict[str, Any]:
    key, value = (None if part is None else part.decode() for part in sent.payload[:2])
    schedule = {"delay_ms": sent.delay_ms} if sent.deliver_at_ms is None else {"deliver_at": sent.deliver_at_ms}
    return {"key": key, "value": value, "schedule": schedule}
