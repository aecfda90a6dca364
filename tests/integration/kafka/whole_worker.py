"""The delay service as it is, in a thread, on the queue of a test."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any
from uuid import uuid4

from prometheus_client import CollectorRegistry

from delay_service.core.history import History
from delay_service.core.shard_settings import ShardSettings
from delay_service.worker.decisions import Decisions
from delay_service.worker.loop import Worker
from delay_service.worker.metrics import WorkerMetrics
from delay_service.worker.settings import WorkerSettings
from delayline.clock import Clock
from delayline.names import Names
from delayline.records.headers import DUE
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, LogRecord
from mq.errors import QueueError
from store.memory import MemoryIndex
from tests.integration.kafka.conftest import CLOCK, PATIENCE_S, Place, soon

LONG_S = 90.0
"""More than anything here takes on a busy machine."""


@contextmanager
def working(
    place: Place, queue: Any, clock: Clock = CLOCK, *, low_water_interval_ms: int = 30_000, **settings: Any
) -> Iterator[Worker]:
    """A whole worker in a thread; stopped cleanly at the end."""
    writer = f"{place.namespace}-worker-{uuid4()}"
    source, sink = queue.open_worker(writer)
    metrics = WorkerMetrics(CollectorRegistry(), History(1000, 86_400_000), Decisions(), clock)
    shard = ShardSettings(DEFAULT_RULES, Names(place.namespace), low_water_interval_ms=low_water_interval_ms)
    given = WorkerSettings(lambda _: shard, writer, trim_interval_s=0.5, **settings)
    worker = Worker(source, sink, queue, MemoryIndex(), clock, given, metrics)
    thread = Thread(target=worker.run, daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def send(place: Place, queue: Any, numbers: Sequence[int], delay_ms: int, partitions: int = 2) -> None:
    """Straight into the buffer topic, number n to partition n modulo `partitions`."""
    futures = []
    for number in numbers:
        body = encode_body(None, b"%d" % number, [(b"delay-ms", b"%d" % delay_ms)])
        futures.append(queue.append([Append(place.buffer, str(number % partitions), body)]))
    for future in futures:
        future.result(PATIENCE_S)


def records(place: Place, queue: Any, topic: str, partitions: int = 2) -> list[LogRecord]:
    try:
        return [record for number in range(partitions) for record in queue.read(topic, str(number), 0, 100_000)]
    except QueueError:
        return []  # the broker is away, or the topic


def values(found: Sequence[LogRecord]) -> list[int]:
    return sorted(int(decode_body(record.body).value or b"") for record in found)


def none_is_early(found: Sequence[LogRecord]) -> bool:
    return all(record.appended_at_ms >= int(dict(decode_body(record.body).headers)[DUE] or b"") for record in found)


def arrived(place: Place, queue: Any, count: int, partitions: int = 2, timeout_s: float = LONG_S) -> list[int]:
    """The numbers in the target, once there are so many; and none of them was early."""
    looked = lambda: found if len(found := records(place, queue, place.topic, partitions)) >= count else None  # noqa: E731
    found = soon(looked, timeout_s)
    assert none_is_early(found)
    return values(found)


ROUNDS, ROUND = 3, 50


def delivers_in_rounds(place: Place, queue: Any, worker: Worker, round_s: float) -> None:
    """Sends some records, waits for them and until the round is over, again and again: each arrives once, whatever
    ends meanwhile."""
    soon(lambda: len(worker.statuses) == 2 and worker.ready)
    began_s = CLOCK.monotonic_s()
    for number in range(ROUNDS):
        send(place, queue, range(number * ROUND, (number + 1) * ROUND), 0)
        arrived(place, queue, (number + 1) * ROUND)
        soon(lambda of=number: CLOCK.monotonic_s() - began_s > (of + 1) * round_s)
    assert arrived(place, queue, ROUNDS * ROUND) == list(range(ROUNDS * ROUND))
