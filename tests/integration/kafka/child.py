"""A worker in a process of its own: `python -m tests.integration.kafka.child <servers> <namespace> <path> <topic>`.

Claims both shards, then delivers 0, 1, 2 ... into the first, each number with the cursor of the next one,
until it is killed or refused. Prints "delivering" after the first ten, and "refused ..." at the end.
"""

import os
import sys
from dataclasses import replace
from typing import Any
from uuid import uuid4

from delayline.clock import SystemClock
from delayline.process import logs
from delayline.records.message import Shard
from delayline.records.record import decode_body
from mq.contract import Delivery, ShardBatch
from mq.errors import CommitError
from mq.kafka.queue import KafkaQueue
from mq.kafka.settings import KafkaSettings
from tests.integration.kafka.conftest import Worker, body


def numbers(queue: Any, topic: str) -> list[int]:
    """What a reader of committed records finds in the first partition."""
    records = queue.read(topic, "0", 0, 100_000)
    return [int(decode_body(record.body).value or b"") for record in records]


def main() -> None:
    servers, namespace, topic = sys.argv[1:]
    logs.configure("text", "warning")  # standard output is for what the tests wait for
    settings = KafkaSettings(
        bootstrap_servers=servers, namespace=namespace, discovery_interval_s=0.2, session_timeout_s=2.0
    )
    worker = Worker(KafkaQueue(settings, SystemClock()), f"{namespace}-worker-{uuid4()}")
    for shard in sorted(worker.assigned(2)):
        worker.claim(shard)
    first = Shard(topic, "0")
    try:
        for number in range(1_000_000):
            cursor = replace(worker.cursors[first], next_offset=number + 1)
            worker.sink.commit([ShardBatch(first, cursor, [Delivery(body(b"%d" % number))])])
            if number == 10:
                print("delivering", flush=True)
    except CommitError as error:
        print("refused", repr(error), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
