"""The plain consume-produce loop: what any program pays that moves records from one topic to another on this client,
under the same guarantee and in batches of the same size, with no delay and no index.

A transaction per batch, with the group's offsets in it. Records go out as they came, headers and all.
"""

from threading import Event, Thread
from uuid import uuid4

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from bench.on_kafka.broker import ANSWER_S
from bench.processes.child import answer_questions, arguments, report_ready

BATCH = 5000
_POLL_S = 0.1


def main(servers: str, source: str, target: str) -> None:
    """Copy until standard input ends."""
    stopping, assigned = Event(), Event()
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"copy-{uuid4()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": f"copy-{uuid4()}",
            "linger.ms": 5,
            "queue.buffering.max.messages": 100_000,
        }
    )
    producer.init_transactions(ANSWER_S)
    consumer.subscribe([source], on_assign=lambda *_: assigned.set())

    def run() -> None:
        while not stopping.is_set():
            messages = _batch(consumer)
            if messages:
                _copy(consumer, producer, target, messages)

    thread = Thread(target=run, name="copy")
    thread.start()
    if not assigned.wait(ANSWER_S):
        raise RuntimeError("no assignment")
    report_ready()
    answer_questions()
    stopping.set()
    thread.join()
    consumer.close()


def _batch(consumer: Consumer) -> list[Message]:
    """The first message as soon as there is one, and with it what has been fetched already."""
    first = consumer.poll(_POLL_S)
    if first is None:
        return []
    found = [first, *consumer.consume(BATCH - 1, 0)]
    return [message for message in found if message.error() is None]


def _copy(consumer: Consumer, producer: Producer, target: str, messages: list[Message]) -> None:
    producer.begin_transaction()
    offsets = _send(producer, target, messages)
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), ANSWER_S)
    producer.commit_transaction(ANSWER_S)


def _send(producer: Producer, target: str, messages: list[Message]) -> list[TopicPartition]:
    """Into the partition that each came from; the offsets behind them."""
    failed: list[object] = []

    def on_delivery(error: object, _: Message) -> None:
        if error is not None:
            failed.append(error)

    ends: dict[int, int] = {}
    topic = str(messages[0].topic())
    for message in messages:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        producer.produce(
            target, message.value(), message.key(), partition, on_delivery=on_delivery, headers=message.headers()
        )
        ends[partition] = offset + 1
    producer.poll(0)
    if failed:
        raise RuntimeError(f"not written: {failed[0]}")
    return [TopicPartition(topic, partition, end) for partition, end in ends.items()]


if __name__ == "__main__":
    main(**arguments())
