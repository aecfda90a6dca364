"""Every room in one process, wired here and nowhere else: queue, index, worker, HTTP door."""

import os
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics

from api.app import DelaylineApi, create_app
from api.services import ApiSettings, Services
from delay_service.history import History
from delay_service.inquiry import WorkerInquiry
from delay_service.metrics import WorkerMetrics
from delay_service.shard import ShardSettings
from delay_service.worker import Worker, WorkerSettings
from delayline import __version__, logs
from delayline.clock import Clock
from delayline.config import Settings
from delayline.names import Names
from mq.embedded.queue import EmbeddedQueue
from store.rocks import RocksIndex

STOP_WITHIN_S = 4.0
"""What the worker gets for its last commit. A longer one is cut off, as by a crash, and nothing is lost by that."""

log = logs.get(__name__)


@dataclass
class Assembly:
    """A running process: its door, its worker, and what ended the worker if that was not us."""

    app: DelaylineApi
    worker: Worker
    failure: BaseException | None = None
    _stopping: bool = False
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._work, name="worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the worker to end cleanly, and wait for it."""
        self._stopping = True
        self.worker.stop()
        self._thread.join(STOP_WITHIN_S)
        if self._thread.is_alive():
            log.warning("the worker did not end in time, the next start will catch up", seconds=STOP_WITHIN_S)

    def _work(self) -> None:
        """A worker that ends by itself takes the process with it: better dead than deaf."""
        try:
            self.worker.run()
        except BaseException as error:
            self.failure = error
            log.critical("the worker ended", error=repr(error), exc_info=True)
            if not self._stopping:
                _end_process()


def _end_process() -> None:
    """The server hears SIGTERM and ends, and `serve` raises the failure. Where it does not listen yet, SIGTERM would
    end the process as if somebody had asked for it (143), and a supervisor would not start it again."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        os._exit(1)
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def assembled(settings: Settings, clock: Clock) -> Iterator[Assembly]:
    """Open the queue and the index, start the worker; on the way out, stop it cleanly and close both.
    Raises QueueError, StoreError."""
    queue = EmbeddedQueue.open(
        settings.data_dir / "queue",
        namespace=settings.namespace,
        clock=clock,
        disk_free_min_bytes=settings.store.disk_free_min,
    )
    try:
        assembly = _assemble(settings, queue, clock)
        assembly.start()
        try:
            yield assembly
        finally:
            assembly.stop()
    finally:
        _close(queue)


def _close(queue: EmbeddedQueue) -> None:
    try:
        queue.close()
    except Exception as error:  # noqa: BLE001 - whatever RocksDB says now, what was acknowledged is on disk
        log.warning("the queue was not closed cleanly", error=str(error))


def _assemble(settings: Settings, queue: EmbeddedQueue, clock: Clock) -> Assembly:
    # Half of what the queue keeps free: what the queue has accepted must still find its place in the index.
    index = RocksIndex.open(
        settings.data_dir / "index",
        memory_bytes_max=settings.store.memory_bytes_max,
        disk_free_min_bytes=settings.store.disk_free_min // 2,
    )
    history = History(settings.history.messages_max, settings.history.retention)
    registry = _registry()
    metrics = WorkerMetrics(registry, history, clock)
    writer = f"{settings.namespace}-worker-{uuid.uuid4()}"
    source, sink = queue.open_worker(writer)
    worker = Worker(source, sink, queue, index, clock, _worker_settings(settings, writer), metrics)
    metrics.watch(lambda: worker.statuses)
    services = Services(
        settings=_api_settings(settings),
        client=queue,
        admin=queue,
        owners=WorkerInquiry(worker, queue, Names(settings.namespace), history),
        clock=clock,
        registry=registry,
        readiness=lambda: _readiness(worker),
    )
    return Assembly(create_app(services), worker)


def _registry() -> CollectorRegistry:
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    Gauge("delayline_build_info", "Always 1", ["version"], registry=registry).labels(__version__).set(1)
    return registry


def _readiness(worker: Worker) -> tuple[bool, str]:
    if worker.ready:
        return True, "ready"
    behind = [status for status in worker.statuses if not status.ready]
    if not behind:
        return False, "starting"
    first = behind[0]
    return False, f"{len(behind)} shards are catching up, {'.'.join(first.id)}: {first.detail or 'reading'}"


def _worker_settings(settings: Settings, writer: str) -> WorkerSettings:
    dispatch, store = settings.dispatch, settings.store
    return WorkerSettings(
        shard=ShardSettings(settings.rules(), store.near_due, dispatch.timestamp),
        writer=writer,
        batch_records_max=dispatch.batch_records_max,
        batch_bytes_max=dispatch.batch_bytes_max,
        near_bytes_max=store.near_bytes_max,
    )


def _api_settings(settings: Settings) -> ApiSettings:
    return ApiSettings(
        namespace=settings.namespace,
        version=__version__,
        guarantee="exactly once",
        topics_on_first_use=True,
        body_bytes_max=settings.api.body_bytes_max,
        batch_messages_max=settings.api.batch_messages_max,
        is_delay_enabled=settings.is_delay_enabled,
        rules=settings.rules(),
        horizon_max_ms=settings.delay.horizon_max,
    )
