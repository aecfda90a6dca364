"""A broker for a bench, and the real worker on it."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bench.on_kafka.broker import Place, quiet_broker
from bench.processes.child import Child, child
from bench.report import Report
from tests.brokers.distribution import Unavailable

LOG_BYTES = 5e9
"""What a bench writes at most, unless it sets another bound."""


def on_broker(report: Report, measure: Callable[[str], None], *, log_bytes: float = LOG_BYTES) -> Report:
    """The report with what `measure` adds, given the broker's address; or without it, and with the reason why."""
    try:
        with quiet_broker(log_bytes) as servers:
            measure(servers)
    except Unavailable as reason:
        report.notes.append(f"skipped: {reason}")
    return report


@contextmanager
def working(place: Place, *, caught_up: bool = True, others: Sequence[Place] = ()) -> Iterator[Child]:
    """The worker in a process of its own, with an empty index: at work, and `caught_up` or not yet. It works on the
    topics of `others`, too, which are in the same namespace."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="delayline-bench-"))
        given: dict[str, object] = {
            "servers": place.servers,
            "namespace": place.namespace,
            "topic": place.topic,
            "folder": folder,
        }
        given |= {"others": [other.topic for other in others]}
        worker = stack.enter_context(child("on_kafka.worker", **given))
        worker.wait_ready()
        if caught_up:
            worker.wait_ready()
        yield worker
