"""A worker over in-memory twins, turned by hand: no threads of its own, no waiting, a clock that moves when a test
advances it."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from prometheus_client import CollectorRegistry

from delay_service.core.history import History
from delay_service.core.shard_settings import ShardSettings
from delay_service.worker.decisions import Decisions
from delay_service.worker.loop import Worker
from delay_service.worker.metrics import WorkerMetrics
from delay_service.worker.owned import Owned
from delay_service.worker.settings import WorkerSettings
from delayline.clock import ManualClock
from delayline.names import Names
from delayline.records.message import Header, Shard
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.contract import Append, DispatchBatch, LogRecord, Sink, Source
from mq.memory import MemoryQueue
from store.memory import MemoryIndex

NAMES = Names("delayline")
ORDERS = Shard("orders", "0")


class FaultySink:
    """A sink that asks `fault` before each commit; what it returns is raised instead."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.fault: Callable[[DispatchBatch], Exception | None] = lambda _: None
        self.after: Callable[[DispatchBatch], Exception | None] = lambda _: None
        self.batches: list[DispatchBatch] = []

    def commit(self, batch: DispatchBatch) -> None:
        if (error := self.fault(batch)) is not None:
            raise error
        self.sink.commit(batch)
        self.batches.append(batch)
        if (error := self.after(batch)) is not None:
            raise error

    def close(self) -> None:
        self.sink.close()


class InLine(Executor):
    """Does at once what it is handed."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **named))
        except Exception as error:  # noqa: BLE001 - handed to the one who asked
            future.set_exception(error)
        return future


class Swappable(Executor):
    """Hands on what it is handed, to `to`, which may change. `last` is what was handed on last."""

    def __init__(self, to: Executor) -> None:
        self.to = to
        self.last: Future[Any] | None = None

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> "Future[Any]":
        self.last = self.to.submit(call, *args, **named)
        return self.last

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.to.shutdown(wait, cancel_futures=cancel_futures)


class Bench:
    """Queue, index, clock and one worker."""

    def __init__(
        self,
        *,
        rules: Rules = DEFAULT_RULES,
        batch_records_max: int = 100,
        near_bytes_max: int = 1 << 20,
        partitions: int = 1,
        topics: Sequence[str] = ("orders",),
        acquirer: Executor | None = None,
        in_front: Callable[[Source], Any] = lambda source: source,
        **shard: Any,
    ) -> None:
        """`shard` are further settings by topic, as in `mail={"rate_max": 5}`."""
        self.acquirer = Swappable(acquirer or InLine())
        self.in_front = in_front
        self.clock = ManualClock()
        self.queue = MemoryQueue(namespace="delayline", clock=self.clock, partitions=partitions)
        self.index = MemoryIndex()
        self.history = History(1000, 86_400_000)
        self.decisions = Decisions()
        for topic in topics:
            self.queue.ensure_buffer(topic, DEFAULT_RULES)
        self.settings = WorkerSettings(
            lambda topic: ShardSettings(rules, NAMES, **shard.get(topic, {})),
            "w1",
            batch_records_max=batch_records_max,
            near_bytes_max=near_bytes_max,
            poll_wait_max_s=0.0,
            commit_interval_s=0.0,
            status_interval_s=0.0,
        )
        self.start("w1")

    def start(self, writer: str) -> None:
        """A worker process begins: group member, index and memory of its own; `in_front` of its source may stand
        something."""
        source, sink = self.queue.open_worker(writer)
        self.source = self.in_front(source)
        self.committer = Swappable(ThreadPoolExecutor(1))
        self.sink = FaultySink(sink)
        self.registry = CollectorRegistry()
        self.metrics = WorkerMetrics(self.registry, self.history, self.decisions, self.clock)
        self.worker = Worker(
            self.source,
            self.sink,
            self.queue,
            self.index,
            self.clock,
            self.settings,
            self.metrics,
            self.acquirer,
            self.committer,
        )
        self.metrics.watch(lambda: self.worker.statuses)

    def owned(self, shard: Shard = ORDERS) -> Owned:
        found = self.worker.owned(shard)
        assert found is not None
        return found

    def send(self, value: bytes, *headers: Header, to: Shard = ORDERS) -> int:
        """Append a record to the buffer; its offset."""
        body = encode_body(None, value, headers)
        return self.queue.append([Append(NAMES.buffer(to.topic), to.partition, body)]).result()[0].offset

    def send_raw(self, body: bytes) -> int:
        return self.queue.append([Append(NAMES.buffer("orders"), "0", body)]).result()[0].offset

    def turn(self, times: int = 4) -> None:
        """Let the worker turn, waiting for each commit to end, so that every turn is the same every time."""
        for _ in range(times):
            self.worker.turn()
            self.worker.wait_for_commit()

    def delivered(self, topic: str = "orders", partition: str = "0") -> list[bytes | None]:
        return [decode_body(record.body).value for record in self.log(topic, partition)]

    def log(self, topic: str, partition: str = "0") -> Sequence[LogRecord]:
        return self.queue.read(topic, partition, 0, 10_000)
