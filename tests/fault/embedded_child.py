"""A process that works an embedded queue as hard as it can and prints what was acknowledged, until it is killed.

    python -m tests.fault.embedded_child FOLDER RUN [encrypted]

Lines on standard output, each written at once: `append PARTITION OFFSET BODY` once an append is acknowledged, and
`commit N` once the N-th delivery of shard orders.0 is (cursor, delivery, audit row and re-append in one commit).
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread

from delayline.clock import SystemClock
from delayline.encryption.data_key import DataKey
from delayline.records.message import Shard
from mq.contract import Append, Delivery, ShardBatch
from mq.embedded import EmbeddedQueue
from tests.contract.drive import Worker, start_worker

SHARD = Shard("orders", "0")
BUFFER = "delayline.buffer.orders"
PRODUCERS = 3
DATA_KEY = DataKey(b"data key", bytes(range(32)))


def opened(folder: Path, data_key: DataKey | None) -> EmbeddedQueue:
    return EmbeddedQueue.open(
        folder, namespace="delayline", clock=SystemClock(), disk_free_min_bytes=0, data_key=data_key
    )


def report(lines: Sequence[str]) -> None:
    """In one system call, below the pipe's atomic 4096 bytes: a line is there whole or not at all."""
    os.write(1, "".join(f"{line}\n" for line in lines).encode())


def produce(queue: EmbeddedQueue, name: str) -> None:
    """Batches of 1 to 40 records of up to 2 kB over partitions 1 to 3; each begins with a text of its own."""
    random = Random(name)
    for turn in count():
        records = []
        for index in range(random.randint(1, 40)):
            body = f"{name}-{turn}-{index}".encode() + b"." * random.randint(0, 2000)
            records.append(Append(BUFFER, str(random.randint(1, 3)), body))
        positions = queue.append(records).result()
        for position, record in zip(positions, records, strict=True):
            report([f"append {position.partition} {position.offset} {record.body.rstrip(b'.').decode()}"])


def deliver(worker: Worker) -> None:
    """One delivery per commit, each a step of the cursor; now and then what is behind the cursor is trimmed."""
    first = worker.cursors[SHARD].next_offset + 1
    for number in count(first):
        cursor = replace(worker.cursors[SHARD], next_offset=number)
        body = b"%d" % number
        worker.sink.commit([ShardBatch(SHARD, cursor, [Delivery(body)], [body], [body])])
        report([f"commit {number}"])
        if number % 50 == 0:
            worker.queue.trim(SHARD, number)


def main() -> None:
    folder, run = Path(sys.argv[1]), sys.argv[2]
    queue = opened(folder, DATA_KEY if "encrypted" in sys.argv else None)
    worker = start_worker(queue, run)
    for number in range(PRODUCERS):
        Thread(target=produce, args=(queue, f"{run}.{number}")).start()
    deliver(worker)


if __name__ == "__main__":
    main()
