"""`bench.on_kafka.worker`, whose shards of other topics are taken over again and again, in every other stretch.

A shard is lost as one is whose commit has an unknown fate, and taken over at once: its cursor is read and claimed,
and its log read on from where its index stands. The answer to its only question is when each stretch began and ended
(epoch ms), and how many takeovers were begun in it.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from threading import Event, Thread

from bench.on_kafka.worker import running, shards_of
from bench.processes.child import arguments
from delay_service.worker.loop import Worker
from delayline.clock import SystemClock
from delayline.records.message import Shard
from mq.kafka.settings import KafkaSettings

_CLOCK = SystemClock()

Stretch = tuple[int, int, int]


def main(
    servers: str, namespace: str, topic: str, folder: str, others: list[str], stretch_s: float, every_s: float
) -> None:
    """Work on `topic` undisturbed; lose those shards of `others` that run, every `every_s` seconds."""
    kafka = KafkaSettings(bootstrap_servers=servers, namespace=namespace)
    with running(kafka, [topic, *others], folder) as worker:
        stop, found = Event(), list[Stretch]()
        stretches = _stretches(worker, shards_of(others), stretch_s, every_s, stop)
        losing = Thread(target=lambda: found.extend(stretches))
        losing.start()
        sys.stdin.readline()
        stop.set()
        losing.join()
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


def _stretches(
    worker: Worker, shards: Sequence[Shard], stretch_s: float, every_s: float, stop: Event
) -> Iterator[Stretch]:
    takes_over = False
    while not stop.is_set():
        begin_ms, count = _CLOCK.now_ms(), 0
        while _CLOCK.now_ms() - begin_ms < 1000 * stretch_s and not stop.is_set():
            if takes_over:
                count += worker.call(lambda: _lose(worker, shards)).result()
            stop.wait(every_s)
        yield begin_ms, _CLOCK.now_ms(), count
        takes_over = not takes_over


def _lose(worker: Worker, shards: Sequence[Shard]) -> int:
    running = [owned for owned in map(worker.owned, shards) if owned is not None and owned.core is not None]
    for owned in running:
        worker.stalls.lose(owned, "bench", "to be taken over anew")
        worker.stalls.retry_at_once(owned)
    return len(running)


if __name__ == "__main__":
    main(**arguments())
