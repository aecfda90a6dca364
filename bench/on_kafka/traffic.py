"""A client of an endpoint, in a process of its own: one lap of producing or consuming, timed from within.

Ready when it is connected, and has sent a record to every partition, so that nothing is learned or made in the lap.
A word on its stdin begins the lap; it reports its times when that is over. Records are of 1 KiB, in librdkafka's own
batches.
"""

import json
import random
import sys
import time
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from bench.on_kafka.broker import ANSWER_S, PARTITIONS, Headers
from bench.processes.child import arguments, report_ready
from delayline.clock import SystemClock

RECORD_BYTES = 1024
DELAY: Headers = [("delay-ms", b"86400000")]
"""Long enough for none to be due while the bench runs: nobody delivers them anyway."""

DRAIN_S = 120.0
TICK_S = 0.002
_POLL_S = 0.1
_AT_ONCE = 2000
_CLOCK = SystemClock()


class Timed(NamedTuple):
    """How long it took, and half and 99 of 100 records from `produce` to their acknowledgement (0 for consumers)."""

    wall_s: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0


def produce(servers: str, topic: str, count: int, per_s: int, delayed_share: float) -> None:
    """`count` records, at full speed where `per_s` is 0; which of them are delayed is drawn by lot."""
    latencies_ms: list[float] = []
    failed: list[object] = []

    def on_delivery(error: object, message: Message) -> None:
        if error is not None:
            failed.append(error)
        else:
            latencies_ms.append(1000 * (message.latency() or 0.0))

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 50_000,
            "log_level": 4,
        }
    )
    dice = random.Random(7)
    made = [dice.randbytes(RECORD_BYTES) for _ in range(256)]

    def send(number: int, *, is_delayed: bool) -> None:
        headers = DELAY if is_delayed else []
        partition, value = number % PARTITIONS, made[number % len(made)]
        while True:
            try:
                producer.produce(topic, value, partition=partition, headers=headers, on_delivery=on_delivery)
            except BufferError:
                producer.poll(_POLL_S)
            else:
                return

    def settle() -> None:
        if producer.flush(DRAIN_S) or failed:
            raise RuntimeError(f"{topic}: not acknowledged: {failed[:1]}")

    for number in range(PARTITIONS):
        send(number, is_delayed=delayed_share > 0)
    settle()
    _wait_for_the_word()
    latencies_ms.clear()
    start_s = _CLOCK.monotonic_s()
    sent = 0
    while sent < count:
        wanted = count if per_s == 0 else min(count, int((_CLOCK.monotonic_s() - start_s) * per_s))
        for number in range(sent, wanted):
            send(number, is_delayed=dice.random() < delayed_share)
            if number % 500 == 0:
                producer.poll(0)
        sent = wanted
        producer.poll(0)
        if sent < count:
            time.sleep(TICK_S)
    settle()
    wall_s = _CLOCK.monotonic_s() - start_s
    latencies_ms.sort()
    _report(Timed(wall_s, latencies_ms[len(latencies_ms) // 2], latencies_ms[len(latencies_ms) * 99 // 100]))
    producer.poll(0)


def consume(servers: str, topic: str, count: int) -> None:
    """Read `count` records from the beginning: from the first that comes to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench-traffic",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 65_536,
        }
    )
    consumer.list_topics(topic, ANSWER_S)
    _wait_for_the_word()
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    until_s = _CLOCK.monotonic_s() + DRAIN_S
    start_s, found = _CLOCK.monotonic_s(), 0
    while found < count:
        messages = [one for one in consumer.consume(_AT_ONCE, _POLL_S) if one.error() is None]
        found += len(messages)
        if _CLOCK.monotonic_s() > until_s:
            raise RuntimeError(f"{topic}: {count - found:,} records are missing after {DRAIN_S:.0f} s")
    _report(Timed(_CLOCK.monotonic_s() - start_s))
    consumer.close()


def _wait_for_the_word() -> None:
    report_ready()
    sys.stdin.readline()


def _report(timed: Timed) -> None:
    sys.stdout.write(json.dumps(timed) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    given = arguments()
    role = given.pop("role")
    (produce if role == "produce" else consume)(**given)
