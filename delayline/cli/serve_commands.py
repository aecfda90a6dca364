"""`delayline serve`: every room in one process, wired here and nowhere else."""

import os
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics

import api.server
from api.app import create_app
from api.services import ApiSettings, Services
from delay_service.history import History
from delay_service.inquiry import WorkerInquiry
from delay_service.metrics import WorkerMetrics
from delay_service.shard import ShardSettings
from delay_service.worker import Worker, WorkerSettings
from delayline import __version__, logs
from delayline.cli.options import ConfigPath
from delayline.clock import Clock, SystemClock
from delayline.config import Settings, load_settings
from delayline.names import Names
from mq.embedded.queue import EmbeddedQueue
from store.rocks import RocksIndex

STOP_WITHIN_S = 4.0

log = logs.get(__name__)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(serve)


def serve(
    config: ConfigPath = None,
    host: Annotated[str | None, typer.Option(help="Instead of api.host.")] = None,
    port: Annotated[int | None, typer.Option(help="Instead of api.port.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Instead of data_dir.")] = None,
) -> None:
    """Run everything in one process on the embedded queue."""
    flags = {"api.host": host, "api.port": port, "data_dir": data_dir}
    given = {name: value for name, value in flags.items() if value is not None}
    settings = load_settings(config, given, os.environ, Path.cwd())
    logs.configure(settings.log.format, settings.log.level)
    with assembled(settings, SystemClock()) as assembly:
        api.server.serve(
            assembly.app, settings.api.host, settings.api.port, on_started=lambda: typer.echo(_welcome(settings))
        )
    if assembly.failure is not None:
        raise assembly.failure


@dataclass
class Assembly:
    """The parts of a running process."""

    app: Any
    worker: Worker
    thread: threading.Thread
    failure: BaseException | None = None


@contextmanager
def assembled(settings: Settings, clock: Clock) -> Iterator[Assembly]:
    """Open the queue and the index, start the worker; on the way out, stop it cleanly and close both."""
    names = Names(settings.namespace)
    queue = EmbeddedQueue.open(
        settings.data_dir / "queue",
        namespace=settings.namespace,
        clock=clock,
        disk_free_min_bytes=settings.store.disk_free_min,
    )
    with _closing(queue):
        index = RocksIndex.open(
            settings.data_dir / "index",
            memory_bytes_max=settings.store.memory_bytes_max,
            disk_free_min_bytes=settings.store.disk_free_min,
        )
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        history = History(settings.history.messages_max, settings.history.retention)
        metrics = WorkerMetrics(registry, history, clock)
        writer = f"{settings.namespace}-worker-{uuid.uuid4()}"
        source, sink = queue.open_worker(writer)
        worker = Worker(source, sink, queue, index, clock, _worker_settings(settings, writer), metrics)
        metrics.watch(lambda: worker.statuses)
        Gauge("delayline_build_info", "Always 1", ["version"], registry=registry).labels(__version__).set(1)
        services = Services(
            settings=_api_settings(settings),
            client=queue,
            admin=queue,
            owners=WorkerInquiry(worker, queue, names, history),
            clock=clock,
            registry=registry,
            readiness=lambda: _readiness(worker),
        )
        assembly = Assembly(create_app(services), worker, threading.Thread(name="worker", daemon=True))
        assembly.thread = threading.Thread(target=_work, args=(assembly,), name="worker", daemon=True)
        assembly.thread.start()
        try:
            yield assembly
        finally:
            worker.stop()
            assembly.thread.join(STOP_WITHIN_S)


def _work(assembly: Assembly) -> None:
    """The worker's thread. A worker that ends by itself takes the process with it: better dead than deaf."""
    try:
        assembly.worker.run()
    except BaseException as error:
        assembly.failure = error
        log.critical("the worker ended", error=repr(error), exc_info=True)
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _closing(queue: EmbeddedQueue) -> Iterator[None]:
    try:
        yield
    finally:
        with suppress(Exception):
            queue.close()


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
    )


def _welcome(settings: Settings) -> str:
    url = f"http://{settings.api.host}:{settings.api.port}"
    return f"""
Delayline {__version__} listens on {url} (embedded queue, data in {settings.data_dir})

Watch a topic, in another terminal:
  .venv/bin/delayline tail orders
Send a message that arrives in five seconds:
  curl -s {url}/v1/topics/orders/messages -H 'content-type: application/json' \\
    -d '{{"value": {{"order": 7}}, "schedule": {{"delay": "5s"}}}}'
"""
