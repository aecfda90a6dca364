"""kafka-python: see ../programs.py for what a program is asked."""

import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

PATIENCE_S = 20.0
ANSWER_S = 60.0


def _producer(servers: str) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True, linger_ms=2)


def _print(n: int, sent: object) -> None:
    try:
        print(f"acked {n} {sent.get(ANSWER_S).offset}")  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - whatever its user gets
        print(f"failed {n} {error!r}")


def _produce(servers: str, topic: str, count: int) -> None:
    producer = _producer(servers)
    headers = [("delay", b"1s")]
    sent = [
        producer.send(topic, b"%d" % n, key=b"%d" % n, headers=headers if n % 3 == 0 else []) for n in range(count)
    ]
    for n, one in enumerate(sent):
        _print(n, one)
    producer.close()


def _refused(servers: str, topic: str) -> None:
    producer = _producer(servers)
    for n, delay in enumerate((b"soon", b"1s")):  # one after the other's answer: else they share a batch and its end
        _print(n, producer.send(topic, b"%d" % n, headers=[("delay", delay)], partition=0))
    producer.close()


def _consume(servers: str, topic: str, count: int) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed", group_id=None
    )
    consumer.assign([TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic)])
    values: set[bytes] = set()
    last = time.monotonic()
    while len(values) < count and time.monotonic() - last < PATIENCE_S:
        for records in consumer.poll(200).values():
            for one in records:
                print(f"read {one.partition} {one.offset} {one.value.decode()}")
                values.add(one.value)
                last = time.monotonic()
    consumer.close()


if __name__ == "__main__":
    what, servers, topic, *rest = sys.argv[1:]
    if what == "refused":
        _refused(servers, topic)
    else:
        {"produce": _produce, "consume": _consume}[what](servers, topic, int(rest[0]))
