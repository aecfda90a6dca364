"""The parts of a process, wired here and nowhere else: queue, index, worker, HTTP API."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from api.app import DelaylineApi, create_app, create_worker_app
from cli.api_parts import (
    access_files,
    acts,
    identity_provider,
    ledgers,
    metrics_app,
    metrics_callers,
    pending_limits,
    services,
)
from cli.data_dir import keep_private, make_private
from cli.http_limits import api_hosts, api_limits
from cli.owner_rpc import address_of, all_owners, answering, internal_port
from cli.proxies import Shared, is_wanted, proxy
from cli.queues import Watch, open_queue
from cli.storage import held, stored
from cli.worker_thread import WorkerThread
from delay_service.core.history import History
from delay_service.core.shard_settings import NEVER_MS, ShardSettings
from delay_service.query.inquiry import WorkerInquiry
from delay_service.query.owners.listener import Listener
from delay_service.worker.decisions import Decisions
from delay_service.worker.loop import Worker
from delay_service.worker.metrics import WorkerMetrics
from delay_service.worker.settings import WorkerSettings
from delay_service.worker.timer_metrics import TimerMetrics
from delayline import __version__
from delayline.access.ledger import Ledgers
from delayline.clock import Clock
from delayline.config import Settings
from delayline.names import Names
from delayline.process import logs, threads
from delayline.process.watched import Watcher
from delayline.questions.inquiry import Owners
from delayline.questions.pending import Full
from mq.contract import Admin, Queue
from store.rocks import RocksIndex

if TYPE_CHECKING:
    from cli.proxy_thread import ProxyThread

log = logs.get(__name__)


class ThreadFailures(Collector):
    """What `delayline.process.threads` has counted."""

    def collect(self) -> Iterator[Metric]:
        text = "Errors that a thread has met and survived"
        family = CounterMetricFamily("delayline_thread_failures", text, labels=["thread"])
        for thread, count in threads.failures().items():
            family.add_metric([thread], count)
        yield family


@dataclass(frozen=True, slots=True)
class Process:
    """A running process: its HTTP API, and where it has them the port for metrics beside it, its worker, the worker's
    port and its proxy."""

    app: DelaylineApi
    metrics_app: DelaylineApi | None = None
    worker: WorkerThread | None = None
    proxy: "ProxyThread | None" = None
    listener: Listener | None = None

    def raise_failure(self) -> None:
        """Raise what ended one of the threads, if that was not us."""
        for thread in (self.worker, self.proxy, self.listener):
            if thread is not None and thread.failure is not None:
                raise thread.failure


@contextmanager
def everything(settings: Settings, clock: Clock, watcher: Watcher, *, accept_loss: bool = False) -> Iterator[Process]:
    """The HTTP API and a worker in one process; `accept_loss` starts an embedded queue although acknowledged records
    are missing. Raises QueueError, StoreError, CannotListen."""
    registry = _registry()
    with (
        _asked_worker(settings, registry, clock, watcher, accept_loss=accept_loss) as (queue, thread, here, listener),
        all_owners(settings, queue, clock, watcher, here) as owners,
        acts(settings, queue, clock, registry) as act_log,
        access_files(settings, watcher, registry, act_log) as access,
        identity_provider(settings, clock, registry) as provider,
        ledgers(settings, access, watcher, registry, clock) as quotas,
    ):
        parts: list[WorkerThread | ProxyThread] = [thread]
        ready = partial(readiness_of, queue, parts)
        handed = services(settings, queue, owners, clock, registry, ready, access, provider, act_log, quotas)
        app = create_app(handed)
        beside = metrics_app(settings, handed, app)
        with _proxying(settings, queue, owners, registry, app, clock, handed.full, watcher, quotas) as proxying:
            if proxying is not None:
                parts.append(proxying)
            yield Process(app, beside, thread, proxying, listener)


@contextmanager
def api_alone(settings: Settings, clock: Clock, watcher: Watcher) -> Iterator[Process]:
    """The HTTP API for messages that workers in other processes deliver. Raises QueueError, ConfigError."""
    registry = _registry()
    with (
        held(open_queue(settings, clock)) as queue,
        Watch(queue) as watch,
        all_owners(settings, queue, clock, watcher) as owners,
        acts(settings, queue, clock, registry) as act_log,
        access_files(settings, watcher, registry, act_log) as access,
        identity_provider(settings, clock, registry) as provider,
        ledgers(settings, access, watcher, registry, clock) as quotas,
    ):
        ready = watch.readiness
        handed = services(settings, queue, owners, clock, registry, ready, access, provider, act_log, quotas)
        app = create_app(handed)
        yield Process(app, metrics_app(settings, handed, app))


@contextmanager
def worker_alone(settings: Settings, clock: Clock, watcher: Watcher) -> Iterator[Process]:
    """A worker, and a port for health and metrics. Raises QueueError, StoreError, CannotListen."""
    registry = _registry()
    with _asked_worker(settings, registry, clock, watcher) as (_, thread, _, listener):
        app = _worker_app(settings, registry, thread.readiness, clock)
        yield Process(app, worker=thread, listener=listener)


@contextmanager
def _asked_worker(
    settings: Settings, registry: CollectorRegistry, clock: Clock, watcher: Watcher, *, accept_loss: bool = False
) -> Iterator[tuple[Queue, WorkerThread, WorkerInquiry, Listener | None]]:
    """A worker at work, and who answers for it, to this process and to others."""
    make_private()
    with (
        internal_port(settings) as bound,
        stored(settings, registry, clock, address_of(bound, settings), accept_loss=accept_loss) as (queue, index),
    ):
        keep_private(settings.data_dir)
        history, decisions = _history(settings), Decisions()
        thread = _worker_thread(settings, queue, index, registry, history, decisions, clock)
        here = WorkerInquiry(thread, queue, Names(settings.namespace), history, decisions)
        with _working(thread), here, answering(bound, here, settings, clock, registry, watcher) as listener:
            yield queue, thread, here, listener


@contextmanager
def proxy_alone(settings: Settings, clock: Clock, watcher: Watcher) -> Iterator[Process]:
    """A proxy, and a port for health and metrics. Raises QueueError, ConfigError, CannotListen."""
    registry = _registry()
    with (
        held(open_queue(settings, clock)) as queue,
        all_owners(settings, queue, clock, watcher) as owners,
        ledgers(settings, None, watcher, registry, clock) as quotas,
    ):
        readiness: list[Callable[[], tuple[bool, str]]] = []
        app = _worker_app(settings, registry, lambda: readiness[0](), clock)
        full = pending_limits(settings, owners, clock).full
        with _proxying(settings, queue, owners, registry, app, clock, full, watcher, quotas) as proxying:
            assert proxying is not None, "the command checks that there is a port"
            readiness.append(proxying.readiness)
            yield Process(app, proxy=proxying)


@contextmanager
def _proxying(
    settings: Settings,
    queue: Queue,
    owners: Owners,
    registry: CollectorRegistry,
    app: DelaylineApi,
    clock: Clock,
    full: Full,
    watcher: Watcher,
    quotas: Ledgers | None,
) -> "Iterator[ProxyThread | None]":
    """A proxy where the settings have a port for it."""
    if not is_wanted(settings):
        yield None
        return
    metrics = app.metrics
    shared = Shared(queue, owners, registry, metrics.accepted, metrics.unheeded, clock, full, watcher, quotas)
    thread = proxy(settings, shared)
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()


def _worker_app(
    settings: Settings, registry: CollectorRegistry, readiness: Callable[[], tuple[bool, str]], clock: Clock
) -> DelaylineApi:
    hosts, callers = api_hosts(settings, settings.worker.host), metrics_callers(settings, clock)
    return create_worker_app(__version__, registry, readiness, api_limits(settings), hosts, callers)


@contextmanager
def _working(thread: WorkerThread) -> Iterator[None]:
    thread.start()
    try:
        yield
    finally:
        thread.stop()


def _worker_thread(
    settings: Settings,
    queue: Queue,
    index: RocksIndex,
    registry: CollectorRegistry,
    history: History,
    decisions: Decisions,
    clock: Clock,
) -> WorkerThread:
    metrics = WorkerMetrics(registry, history, decisions, clock)
    if settings.mq.kind == "rocketmq":
        TimerMetrics(registry, metrics.families)

    def open_worker() -> Worker:
        writer = Names(settings.namespace).worker(str(uuid.uuid4()))
        source, sink = queue.open_worker(writer)
        return Worker(source, sink, queue, index, clock, _worker_settings(settings, writer), metrics)

    thread = WorkerThread(open_worker)
    metrics.watch(lambda: thread.statuses)
    return thread


def readiness_of(queue: Admin, parts: "Sequence[WorkerThread | ProxyThread]") -> tuple[bool, str]:
    """Of a process with these, the worker first: ready when all are. Then the text is the worker's, about its
    shards."""
    if (trouble := queue.trouble()) is not None:
        return False, trouble
    answers = [part.readiness() for part in parts]
    return next((answer for answer in answers if not answer[0]), answers[0])


def _history(settings: Settings) -> History:
    return History(settings.history.messages_max, settings.history.retention)


def _registry() -> CollectorRegistry:
    disable_created_metrics()  # type: ignore[no-untyped-call]
    registry = CollectorRegistry()
    registry.register(ThreadFailures())
    Gauge("delayline_build_info", "Always 1", ["version"], registry=registry).labels(__version__).set(1)
    return registry


def _worker_settings(settings: Settings, writer: str) -> WorkerSettings:
    dispatch, store = settings.dispatch, settings.store
    return WorkerSettings(
        shard_settings_of=lambda topic: _shard_settings(settings, topic),
        writer=writer,
        batch_records_max=dispatch.batch_records_max,
        batch_bytes_max=dispatch.batch_bytes_max,
        near_bytes_max=store.near_bytes_max,
        clock_skew_max_ms=dispatch.clock_skew_max,
        hold_max_ms=settings.audit.hold_max,
        stall_max_s=dispatch.stall_max / 1000,
        checkpoint_interval_s=min(1.0, settings.audit.low_water_interval / 1000),  # a mark needs a commit
    )


def _shard_settings(settings: Settings, topic: str) -> ShardSettings:
    rule = settings.rule_for(topic)
    return ShardSettings(
        rules=settings.rules_for(topic),
        names=Names(settings.namespace),
        near_due_ms=settings.store.near_due,
        timestamp=settings.dispatch.timestamp,
        late_max_ms=NEVER_MS if rule.late_max is None else rule.late_max,
        rate_max=rule.rate_max,
        low_water_interval_ms=settings.audit.low_water_interval,
        idempotency_retention_ms=settings.history.retention,
    )
