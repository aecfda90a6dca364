"""A client that sends and writes down what it knows, as a process: `python -m tests.fault.proxy.producer ...`.

Arguments: library, servers, topic, partitions, name, seed, rate per second, codec, longest delay in ms (0: one hour),
file whose appearance ends it, "idempotent" or "transactional" (librdkafka only). Record n has the value `name-n`, and
the share of delayed ones changes every two seconds. Lines on standard output, before the thing itself happens for the
first kind, after it for the others:

    s n partition delay_ms    sent; -1: not delayed
    a n                       acknowledged, or its transaction committed
    f n error                 the library has given it up
    x n                       its transaction was aborted
    # text                    a remark
    e                         everything was answered, the process ends

A process of its own, because a library may take its process with it when brokers go.
"""

import asyncio
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

DELAYED_PERMILLE = (20, 100, 0, 500, 1000, 0)
PHASE_S = 2.0
TICK_S = 0.05
HOUR_MS = 3_600_000
FLUSH_S = 120.0


class Next(NamedTuple):
    """A record to be sent."""

    number: int
    partition: int
    value: bytes
    headers: list[tuple[str, bytes]]


@dataclass
class Plan:
    """The arguments."""

    servers: str
    topic: str
    partitions: int
    name: str
    seed: int
    rate: int
    codec: str
    delay_max_ms: int
    stop: Path
    transactional: bool
    rnd: Random = field(init=False)
    _count: int = 0
    _started_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.rnd = Random(f"{self.seed} {self.name}")

    @property
    def stopping(self) -> bool:
        return self.stop.exists()

    def take(self, count: int) -> Iterator[Next]:
        for _ in range(count):
            yield self._next()

    def _next(self) -> Next:
        number, self._count = self._count, self._count + 1
        partition = self.rnd.randrange(self.partitions)
        phase = int((time.monotonic() - self._started_s) / PHASE_S)
        delay_ms = -1
        if self.rnd.randrange(1000) < DELAYED_PERMILLE[phase % len(DELAYED_PERMILLE)]:
            delay_ms = 1 + self.rnd.randrange(self.delay_max_ms) if self.delay_max_ms else HOUR_MS
        emit(f"s {number} {partition} {delay_ms}")
        headers = [("delay-ms", b"%d" % delay_ms)] if delay_ms >= 0 else []
        return Next(number, partition, f"{self.name}-{number}".encode(), headers)


def emit(line: str) -> None:
    sys.stdout.write(line + "\n")


def report(number: int, error: object) -> None:
    emit(f"a {number}" if error is None else f"f {number} {error!r}".replace("\n", " "))


class Library(ABC):
    """One library's producer."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @abstractmethod
    def run(self) -> None:
        """Send until it is over, and until everything is answered."""


class Threaded(Library):
    """A library that sends in a thread of its own."""

    @abstractmethod
    def send(self, record: Next) -> None:
        """Returns before it is answered; the answer is printed."""

    @abstractmethod
    def finish(self) -> None:
        """Until everything is answered."""

    def run(self) -> None:
        while not self.plan.stopping:
            for record in self.plan.take(int(self.plan.rate * TICK_S)):
                self.send(record)
            sys.stdout.flush()
            time.sleep(TICK_S)
        self.finish()


class Librdkafka(Threaded):
    def __init__(self, plan: Plan) -> None:
        from confluent_kafka import Producer

        super().__init__(plan)
        own = {"transactional.id": plan.name, "transaction.timeout.ms": 10_000} if plan.transactional else {}
        self._make: Callable[[], Any] = lambda: Producer(
            {
                "bootstrap.servers": plan.servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.num.messages": 40,
                "compression.type": plan.codec,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **own,
            }
        )
        self._producer: Any = None if plan.transactional else self._make()

    def send(self, record: Next) -> None:
        self._produce(record, lambda error, _: report(record.number, error))
        self._producer.poll(0)

    def _produce(self, record: Next, on_delivery: Any) -> None:
        self._producer.produce(
            self.plan.topic,
            value=record.value,
            partition=record.partition,
            headers=record.headers,
            on_delivery=on_delivery,
        )

    def finish(self) -> None:
        self._producer.flush(FLUSH_S)

    def run(self) -> None:
        if not self.plan.transactional:
            super().run()
            return
        from confluent_kafka import KafkaException

        while not self.plan.stopping:
            try:
                self._transact()
            except KafkaException as error:
                emit(f"# {error!r}")
                self._producer = None  # the next one begins under the same id, which ends what this one left
            sys.stdout.flush()

    def _transact(self) -> None:
        plan = self.plan
        if self._producer is None:
            self._producer = self._make()
            self._producer.init_transactions(30)
        self._producer.begin_transaction()
        group = []
        for record in plan.take(plan.rnd.randint(1, max(1, plan.rate // 5))):
            group.append(record.number)
            self._produce(record, None)
        sys.stdout.flush()
        time.sleep(plan.rnd.random() * 2 * TICK_S)
        if plan.rnd.randrange(4):
            self._producer.commit_transaction(30)
            mark = "a"
        else:
            self._producer.abort_transaction(30)
            mark = "x"
        for number in group:
            emit(f"{mark} {number}")


class KafkaPython(Threaded):
    def __init__(self, plan: Plan) -> None:
        from kafka import KafkaProducer

        super().__init__(plan)
        codec = None if plan.codec == "none" else plan.codec
        self._producer = KafkaProducer(
            bootstrap_servers=plan.servers,
            compression_type=codec,
            linger_ms=5,
            enable_idempotence=True,
            reconnect_backoff_max_ms=200,
        )

    def send(self, record: Next) -> None:
        future = self._producer.send(
            self.plan.topic, record.value, partition=record.partition, headers=record.headers
        )
        future.add_callback(lambda _: report(record.number, None))
        future.add_errback(lambda error: report(record.number, error))

    def finish(self) -> None:
        self._producer.flush(FLUSH_S)
        self._producer.close(FLUSH_S)


class Aiokafka(Library):
    """Has a loop instead of a thread."""

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from aiokafka import AIOKafkaProducer

        plan = self.plan
        producer = AIOKafkaProducer(
            bootstrap_servers=plan.servers,
            compression_type=None if plan.codec == "none" else plan.codec,
            linger_ms=5,
            enable_idempotence=True,
        )
        await producer.start()
        while not plan.stopping:
            for record in plan.take(int(plan.rate * TICK_S)):
                sent = await producer.send(
                    plan.topic, record.value, partition=record.partition, headers=record.headers
                )
                sent.add_done_callback(lambda done, number=record.number: report(number, done.exception()))
            sys.stdout.flush()
            await asyncio.sleep(TICK_S)
        await _within(FLUSH_S, producer.stop())


async def _within(limit_s: float, work: Coroutine[Any, Any, Any]) -> None:
    async with asyncio.timeout(limit_s):
        await work


LIBRARIES: dict[str, type[Library]] = {
    "librdkafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


def main(arguments: list[str]) -> None:
    library, servers, topic, partitions, name, seed, rate, codec, delay_max_ms, stop, kind = arguments
    plan = Plan(
        servers,
        topic,
        int(partitions),
        name,
        int(seed),
        int(rate),
        codec,
        int(delay_max_ms),
        Path(stop),
        kind == "transactional",
    )
    LIBRARIES[library](plan).run()
    emit("e")
    sys.stdout.flush()
    os._exit(0)  # threads of a library that has lost its broker must not keep what has ended


if __name__ == "__main__":
    main(sys.argv[1:])
