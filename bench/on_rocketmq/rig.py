"""A broker for a bench, the real worker on it, and messages for both."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict

from bench.on_rocketmq.place import Place
from bench.processes.child import Child, child
from bench.report import Report
from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import RocketMq


def on_broker(report: Report, measure: Callable[[RocketMq], None]) -> Report:
    """The report with what `measure` adds; or without it, and with the reason why. The broker's timer writes what it
    has once a second, as it does where nothing is set."""
    try:
        with closing(RocketMq(java_options=(), properties={"timerFlushIntervalMs": "1000"})) as server:
            server.start()
            measure(server)
    except Unavailable as reason:
        report.notes.append(f"skipped: {reason}")
    return report


@contextmanager
def working(place: Place, *, caught_up: bool = True) -> Iterator[Child]:
    """The worker in a process of its own, with an empty index: at work, and `caught_up` or not yet."""
    with (
        tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder,
        child("on_rocketmq.worker", **asdict(place), folder=folder) as worker,
    ):
        worker.wait_ready()
        if caught_up:
            worker.wait_ready()
        yield worker


def send(way: str, place: Place, count: int, per_s: int, due: tuple[int, int]) -> None:
    """So many messages, all of them stored at the end; `way` and `due` are those of `bench.on_rocketmq.sender`."""
    given: dict[str, object] = {"way": way, **asdict(place), "count": count, "per_s": per_s}
    with child("on_rocketmq.sender", **given, delay_ms_min=due[0], delay_ms_max=due[1]) as sender:
        sender.wait_ready()
