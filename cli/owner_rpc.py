"""How the processes of an installation ask each other: the port of one that has a worker, and the way to others'.

The embedded queue lives in one process, so there is neither.
"""

import contextlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from cli.certificates import answering_tls, asking_tls
from cli.http_limits import internal_limits
from cli.worker_thread import end_process
from delay_service.query.inquiry import WorkerInquiry
from delay_service.query.owners.alone import LoneWorker
from delay_service.query.owners.directory import Directory
from delay_service.query.owners.listener import Listener, OwnerRequestHandler
from delay_service.query.owners.signing import Signer
from delayline.clock import Clock
from delayline.config import Settings
from delayline.http.guard import Guard
from delayline.process.listening import listen
from delayline.process.watched import Watcher
from delayline.questions.inquiry import Owners
from mq.contract import Queue

BACKLOG = 1024


@contextmanager
def internal_port(settings: Settings) -> Iterator[socket.socket | None]:
    """Bound before there is a worker, because the workers' group publishes its address. Raises
    CannotListen."""
    if settings.mq.kind == "embedded":
        yield None
        return
    internal = settings.internal
    in_use = "choose another with internal.port, or 0 for any free one"
    with contextlib.closing(listen(internal.host, internal.port, backlog=BACKLOG, in_use=in_use)) as bound:
        yield bound


def address_of(bound: socket.socket | None, settings: Settings) -> str:
    """Where other processes reach it; empty where there is none."""
    if bound is None:
        return ""
    host = settings.internal.reached_at
    return f"{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"


@contextmanager
def answering(
    bound: socket.socket | None,
    here: WorkerInquiry,
    settings: Settings,
    clock: Clock,
    registry: CollectorRegistry,
    watcher: Watcher,
) -> Iterator[Listener | None]:
    """Other processes are answered on the port. Raises ConfigError."""
    if bound is None:
        yield None
        return
    desk = OwnerRequestHandler(here, _signer(settings, clock), clock)
    guard = Guard(internal_limits(settings), registry, "delayline_internal")
    tls = answering_tls(settings, watcher)
    with Listener(bound, desk, on_failure=end_process, guard=guard, tls=tls) as listener:
        yield listener


@contextmanager
def all_owners(
    settings: Settings, queue: Queue, clock: Clock, watcher: Watcher, here: WorkerInquiry | None = None
) -> Iterator[Owners]:
    """The worker of this process, `here`, if there is one, and all others. Raises ConfigError."""
    if settings.mq.kind == "embedded":
        assert here is not None, "the commands check that there is a worker"
        with LoneWorker(here, clock) as alone:
            yield alone
        return
    from delay_service.query.owners.routed import RoutedOwners  # here: it takes 60 ms, for httpx

    tls = asking_tls(settings, watcher)
    with (
        Directory(queue, clock) as directory,
        RoutedOwners(directory, _signer(settings, clock), queue, clock, here, end_process, tls) as routed,
    ):
        yield routed


def _signer(settings: Settings, clock: Clock) -> Signer:
    return Signer(settings.internal.secret.get_secret_value(), clock)
