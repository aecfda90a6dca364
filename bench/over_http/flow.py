"""A steady flow of messages through the HTTP API, and how late each of them came.

Every tick a batch, all of its messages due 0.5 to 1.5 s later. Lateness is the append time of the delivery minus the
due time; it is read from the queue's folder when the server has ended, so that nobody reads while it is measured.
"""

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from bench.over_http.ask import Api, at
from bench.over_http.server import Server
from bench.report import Report, Target
from delayline.clock import SystemClock
from delayline.records.headers import DUE
from delayline.records.record import decode_body
from mq.embedded.queue import EmbeddedQueue

TICK_S = 0.02
DELAY_MS_MIN, DELAY_MS_MAX = 500, 1500
CONNECTIONS = 8
BEHIND_MAX = 250
"""Ticks that may wait for an answer: five seconds' worth. Beyond, the flow is not the flow that was asked for."""

READ_AT_ONCE = 5000
_MESSAGE = (
    '{"key":"%d","value":"' + "x" * 256 + '","headers":[{"name":"src","value":"web"}],"schedule":{"delay_ms":%d}}'
)
_CLOCK = SystemClock()


@dataclass(slots=True)
class Flow:
    """How many messages it has sent; final when it has ended."""

    messages: int = 0


@contextmanager
def flowing(server: Server, topic: str, per_s: int) -> Iterator[Flow]:
    """`per_s` messages a second while the block runs. Raises RuntimeError where the server does not keep up."""
    flow = Flow()
    stop = Event()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(_flow, flow, Api(server.port), topic, round(per_s * TICK_S), stop)
        try:
            yield flow
        finally:
            stop.set()
        running.result()


def _flow(flow: Flow, api: Api, topic: str, count: int, stop: Event) -> None:
    body = batch(count)
    start_s, tick = _CLOCK.monotonic_s(), 0
    sent: list[Future[object]] = []
    with ThreadPoolExecutor(CONNECTIONS) as connections:
        while not stop.is_set():
            sent.append(connections.submit(api.post, f"/v1/topics/{topic}/messages", body, 201))
            while sent and sent[0].done():
                sent.pop(0).result()
            if len(sent) > BEHIND_MAX:
                raise RuntimeError(f"{topic}: the server does not take {count / TICK_S:.0f} messages a second")
            tick += 1
            flow.messages += count
            time.sleep(max(0.0, start_s + tick * TICK_S - _CLOCK.monotonic_s()))
    for one in sent:
        one.result()


def batch(count: int) -> bytes:
    """The body of a request with so many messages."""
    step_ms = (DELAY_MS_MAX - DELAY_MS_MIN) / count
    messages = (_MESSAGE % (number, DELAY_MS_MIN + number * step_ms) for number in range(count))
    return f'{{"messages":[{",".join(messages)}]}}'.encode()


class Lateness:
    """Of messages that were delivered, in ms, by due time."""

    def __init__(self, delivered: Iterable[tuple[int, int]]) -> None:
        """(due time, lateness) of each."""
        self._found = sorted(delivered)

    def within(self, windows: Sequence[tuple[int, int]]) -> list[int]:
        """Ascending: of the messages due in one of these windows (epoch ms)."""
        late: list[int] = []
        for start_ms, end_ms in windows:
            start, end = (bisect_left(self._found, (ms, -1)) for ms in (start_ms, end_ms))
            late += [late_ms for _, late_ms in self._found[start:end]]
        return sorted(late)


def delivered(data_dir: Path, topic: str) -> Iterator[tuple[int, int]]:
    """(due time, lateness) of everything in a topic of the embedded queue. The server has ended."""
    queue = EmbeddedQueue.open(data_dir / "queue", namespace="delayline", clock=_CLOCK)
    try:
        for partition in queue.topic(topic).partitions:
            offset, end = queue.offsets(topic, partition)
            while offset < end:
                records = queue.read(topic, partition, offset, READ_AT_ONCE)
                for record in records:
                    due_ms = int(dict(decode_body(record.body).headers)[DUE] or b"")
                    yield due_ms, record.appended_at_ms - due_ms
                offset = records[-1].offset + 1
    finally:
        queue.close()


def add_lateness(report: Report, name: str, late: Sequence[int], p99_max_ms: float | None = None) -> None:
    """`late` is ascending."""
    report.add(f"{name}: messages judged", len(late))
    for share in (0.5, 0.99, 0.999):
        target = Target("<=", p99_max_ms) if p99_max_ms is not None and share == 0.99 else None
        report.add(f"{name}: late, p{100 * share:g}", at(late, share), "ms", target)
