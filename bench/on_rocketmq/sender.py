"""Messages at a steady rate, in a process of its own: a tick's worth every 10 ms. Ready when the last one is stored.

buffer   appended to the topic's buffer in batches, as the HTTP API does
timer    sent one by one with TIMER_DELIVER_MS: the broker's timer delivers them
level    sent one by one with a delay level of a second
"""

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from bench.on_rocketmq.place import DUE, QUEUES, Place
from bench.processes.child import answer_questions, arguments, report_ready
from delayline.clock import SystemClock
from delayline.records.record import encode_body
from mq.contract import Append
from mq.rocketmq import RocketmqQueue, RocketmqSettings
from rocketmq.client.client import Client
from tests.brokers.rocketmq import BROKER

BODY_BYTES = 256
TICK_S = 0.01
UNDER_WAY = {"buffer": 50_000, "timer": 2_000, "level": 2_000}
AT_ONCE = 8_000
"""Messages that have been sent and not answered, and those of one tick, at most."""
LEVEL, LEVEL_MS = "1", 1000
"""`messageDelayLevel` begins with a second."""
_CLOCK = SystemClock()

Send = Callable[[Sequence[int]], Iterable[Future[Any]]]


def main(
    way: str, servers: str, namespace: str, topic: str, count: int, per_s: int, delay_ms_min: int, delay_ms_max: int
) -> None:
    """Due `delay_ms_min` to `delay_ms_max` from now; both are epoch milliseconds of one instant where they are the
    same. Levels pass over both."""
    place = Place(servers, namespace, topic)
    dice = random.Random(11)
    is_instant = delay_ms_min == delay_ms_max

    def due_ms() -> int:
        return delay_ms_min if is_instant else _CLOCK.now_ms() + dice.randint(delay_ms_min, delay_ms_max)

    with place.client() as client:
        queue = RocketmqQueue(RocketmqSettings(name_servers=servers, namespace=namespace), _CLOCK)
        _send_all(_way(way, place, queue, client, dice.randbytes(BODY_BYTES), due_ms), count, per_s, UNDER_WAY[way])
        report_ready()
        answer_questions()
        queue.close()


def _way(
    way: str, place: Place, queue: RocketmqQueue, client: Client, body: bytes, due_ms: Callable[[], int]
) -> Send:
    def by_buffer(numbers: Sequence[int]) -> Iterable[Future[Any]]:
        for partition in range(QUEUES):
            records = [
                Append(place.buffer, f"{BROKER}:{partition}", _record(number, body, due_ms()))
                for number in numbers
                if number % QUEUES == partition
            ]
            if records:
                yield queue.append(records)

    def by_timer(numbers: Sequence[int]) -> Iterable[Future[Any]]:
        for number in numbers:
            due = str(due_ms())
            properties = {"KEYS": f"{number:08d}", DUE: due, "TIMER_DELIVER_MS": due, "trace": "t" * 55}
            yield client.broker.send_later(place.queues[number % QUEUES], body, properties)

    def by_level(numbers: Sequence[int]) -> Iterable[Future[Any]]:
        for number in numbers:
            due = str(_CLOCK.now_ms() + LEVEL_MS)
            properties = {"KEYS": f"{number:08d}", DUE: due, "DELAY": LEVEL, "trace": "t" * 55}
            yield client.broker.send_later(place.queues[number % QUEUES], body, properties)

    return {"buffer": by_buffer, "timer": by_timer, "level": by_level}[way]


def _record(number: int, body: bytes, due_ms: int) -> bytes:
    due = b"%d" % due_ms
    return encode_body(b"%08d" % number, body, [(b"deliver-at", due), (DUE.encode(), due), (b"trace", b"t" * 55)])


def _send_all(send: Send, count: int, per_s: int, under_way_max: int) -> None:
    """Raises what the sends do."""
    start_s, sent = _CLOCK.monotonic_s(), 0
    ticks: deque[tuple[int, list[Future[Any]]]] = deque()  # with how many had been sent before each
    while sent < count:
        wanted = min(count, sent + AT_ONCE, int((_CLOCK.monotonic_s() - start_s) * per_s))
        ticks.append((sent, list(send(range(sent, wanted)))))
        sent = wanted
        while ticks and (sent - ticks[0][0] > under_way_max or all(one.done() for one in ticks[0][1])):
            _answered(ticks.popleft()[1])
        time.sleep(TICK_S)
    for _, futures in ticks:
        _answered(futures)


def _answered(futures: Iterable[Future[Any]]) -> None:
    for one in futures:
        one.result()


if __name__ == "__main__":
    main(**arguments())
