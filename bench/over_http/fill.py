"""Many messages that wait, put into a queue's folder before the server starts."""

import random
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

from delayline.clock import SystemClock
from delayline.names import Names
from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, Position
from mq.embedded.queue import EmbeddedQueue

TOPIC = "orders"
PARTITIONS = 4
KEYS = 100
FIRST_MS, HORIZON_MS = 3_600_000, 30 * 86_400_000
AT_ONCE = 1000
VALUE_BYTES = 256
_POOL_BYTES = 1 << 20


def fill(folder: Path, pending: int) -> None:
    """Into the buffer topic, as the API does; the worker that starts then reads and indexes it."""
    queue = EmbeddedQueue.open(folder, namespace="delayline", clock=SystemClock(), partitions=PARTITIONS)
    try:
        queue.ensure_topic(TOPIC)
        queue.ensure_buffer(TOPIC, DEFAULT_RULES)
        under_way: list[Future[list[Position]]] = []
        for records in _far(pending):
            under_way.append(queue.append(records))
            if len(under_way) > PARTITIONS:
                under_way.pop(0).result()
        for future in under_way:
            future.result()
    finally:
        queue.close()


def _far(pending: int) -> Iterator[list[Append]]:
    """A thousand at a time for each partition in turn, due at random within 30 days."""
    dice, buffer = random.Random(5), Names("delayline").buffer(TOPIC)
    pool = dice.randbytes(_POOL_BYTES)
    for start in range(0, pending, AT_ONCE):
        partition = str(start // AT_ONCE % PARTITIONS)
        numbers = range(start, min(start + AT_ONCE, pending))
        yield [Append(buffer, partition, _body(number, pool, dice)) for number in numbers]


def _body(number: int, pool: bytes, dice: random.Random) -> bytes:
    start = number * (VALUE_BYTES + 1) % (_POOL_BYTES - VALUE_BYTES)
    delay = b"%d" % dice.randrange(FIRST_MS, HORIZON_MS)
    return encode_body(
        b"customer-%d" % (number % KEYS), pool[start : start + VALUE_BYTES], [(b"delay-ms", delay), (b"src", b"web")]
    )
