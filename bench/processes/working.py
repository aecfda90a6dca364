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

from bench.processes.child import report_ready
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
from mq.contract import Queue
from store.rocks import RocksIndex

READY_POLL_S = 0.02
HISTORY_MESSAGES = 1_000_000
HISTORY_MS = 86_400_000


@contextmanager
def running(queue: Queue, namespace: str, shards: Sequence[Shard], folder: str) -> Iterator[Worker]:
    """The worker in a thread of its own: it reports when it starts to work, and when it has caught up with all
    `shards`. It closes the queue."""
    logs.configure("text", "warning")
    clock = SystemClock()
    for name in sorted({shard.topic for shard in shards}):
        queue.ensure_buffer(name, DEFAULT_RULES)
    writer = f"{namespace}-worker-{uuid4()}"
    index = RocksIndex.open(Path(folder), memory_bytes_max=256 << 20)
    source, sink = queue.open_worker(writer)
    metrics = WorkerMetrics(CollectorRegistry(), History(HISTORY_MESSAGES, HISTORY_MS), Decisions(), clock)
    settings = WorkerSettings(lambda _: ShardSettings(DEFAULT_RULES, Names(namespace)), writer)
    worker = Worker(source, sink, queue, index, clock, settings, metrics)
    thread = Thread(target=worker.run, name="worker")
    thread.start()
    set_up_interpreter()
    report_ready()
    while not worker.call(lambda: all(_caught_up(worker, shard) for shard in shards)).result():
        time.sleep(READY_POLL_S)
    report_ready()
    yield worker
    worker.stop()
    thread.join()
    queue.close()


def _caught_up(worker: Worker, shard: Shard) -> bool:
    core = worker.core(shard)
    return core is not None and core.is_authoritative
