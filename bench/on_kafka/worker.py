"""The real worker over the real adapter, as `delayline` runs it, in a process of its own.

Ready the first time when it starts to work, the second time when it has every shard and has caught up.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from uuid import uuid4

from prometheus_client import CollectorRegistry

from bench.on_kafka.broker import PARTITIONS
from bench.on_kafka.child import answer_questions, arguments, report_ready
from delay_service.core.history import History
from delay_service.core.shard_settings import ShardSettings
from delay_service.worker.decisions import Decisions
from delay_service.worker.interpreter import set_up_interpreter
from delay_service.worker.loop import Worker
from delay_service.worker.metrics import WorkerMetrics
from delay_service.worker.settings import WorkerSettings
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.process import logs
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.kafka.queue import KafkaQueue
from mq.kafka.settings import KafkaSettings
from store.rocks import RocksIndex

READY_POLL_S = 0.02
HISTORY_MESSAGES = 1_000_000
HISTORY_MS = 86_400_000


def main(servers: str, namespace: str, topic: str, folder: str, others: list[str]) -> None:
    """Work on `topic`, and on the `others`, until nobody asks any more. `folder` holds the index."""
    names = [topic, *others]
    with running(KafkaSettings(bootstrap_servers=servers, namespace=namespace), names, folder):
        answer_questions()


@contextmanager
def running(kafka: KafkaSettings, topics: Sequence[str], folder: str) -> Iterator[Worker]:
    """The worker in a thread of its own: it reports when it starts to work, and when it has caught up with all."""
    logs.configure("text", "warning")
    clock = SystemClock()
    queue = KafkaQueue(kafka, clock)
    for name in topics:
        queue.ensure_buffer(name, DEFAULT_RULES)
    writer = f"{kafka.namespace}-worker-{uuid4()}"
    index = RocksIndex.open(Path(folder), memory_bytes_max=256 << 20)
    source, sink = queue.open_worker(writer)
    metrics = WorkerMetrics(CollectorRegistry(), History(HISTORY_MESSAGES, HISTORY_MS), Decisions(), clock)
    settings = WorkerSettings(lambda _: ShardSettings(DEFAULT_RULES, Names(kafka.namespace)), writer)
    worker = Worker(source, sink, queue, index, clock, settings, metrics)
    thread = Thread(target=worker.run, name="worker")
    thread.start()
    set_up_interpreter()
    report_ready()
    shards = shards_of(topics)
    while not worker.call(lambda: all(_caught_up(worker, shard) for shard in shards)).result():
        time.sleep(READY_POLL_S)
    report_ready()
    yield worker
    worker.stop()
    thread.join()
    queue.close()


def shards_of(topics: Sequence[str]) -> list[Shard]:
    return [Shard(name, str(number)) for name in topics for number in range(PARTITIONS)]


def _caught_up(worker: Worker, shard: Shard) -> bool:
    core = worker.core(shard)
    return core is not None and core.is_authoritative


if __name__ == "__main__":
    main(**arguments())
