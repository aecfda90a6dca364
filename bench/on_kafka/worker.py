"""The worker on Kafka; see `bench.processes.working`."""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from bench.on_kafka.broker import PARTITIONS
from bench.processes import working
from bench.processes.child import answer_questions, arguments
from delay_service.worker.loop import Worker
from delayline.clock import SystemClock
from delayline.records.message import Shard
from mq.kafka.queue import KafkaQueue
from mq.kafka.settings import KafkaSettings


def main(servers: str, namespace: str, topic: str, folder: str, others: list[str]) -> None:
    """Work on `topic`, and on the `others`, until standard input ends. `folder` holds the index."""
    names = [topic, *others]
    with running(KafkaSettings(bootstrap_servers=servers, namespace=namespace), names, folder):
        answer_questions()


def running(kafka: KafkaSettings, topics: Sequence[str], folder: str) -> AbstractContextManager[Worker]:
    """It works on all partitions of `topics`."""
    return working.running(KafkaQueue(kafka, SystemClock()), kafka.namespace, shards_of(topics), folder)


def shards_of(topics: Sequence[str]) -> list[Shard]:
    return [Shard(name, str(number)) for name in topics for number in range(PARTITIONS)]


if __name__ == "__main__":
    main(**arguments())
