"""Long messages among short ones on the embedded queue: the buffer stays small, or grows with every message passed.

A thousand messages that are due in a year, among two million that are due at once. With rolling, and beside it in the
same run without. What the buffer takes is the files of the queue's database that hold anything of it: those that hold
something else, too, count whole, and the write-ahead log, which all topics share (256 MiB at most), does not.
"""

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.report import Report
from bench.rolling.curve import Sample, add_figures
from bench.rolling.lap import NEVER, Traffic, lap
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.process import logs
from mq.embedded.queue import EmbeddedQueue

SHORT = 2_000_000
LONG = 1000
SPAN_MIN = 200_000
"""A fifth of the roller's own, so that two million messages fill it ten times."""


def run(scale: float) -> Report:
    """About four minutes and 3 GB of disk at scale 1."""
    short, span_min = max(20_000, int(SHORT * scale)), max(2000, int(SPAN_MIN * scale))
    logs.configure("text", "warning")
    report = Report(f"Rolling, embedded queue: {LONG:,} messages due in a year among {short:,} short ones")
    traffic = Traffic("orders", "bench", short, LONG)
    rolled, kept = (_lap(traffic, span) for span in (span_min, NEVER))
    add_figures(report, span_min, rolled, kept)
    return report


def _lap(traffic: Traffic, span_min: int) -> Sequence[Sample]:
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        queue = EmbeddedQueue.open(
            Path(folder) / "queue", namespace=traffic.namespace, clock=SystemClock(), partitions=1
        )
        try:
            queue.ensure_topic(traffic.topic)
            buffer = Names(traffic.namespace).buffer(traffic.topic)
            return lap(queue, Path(folder) / "index", traffic, span_min, lambda: _disk_bytes(queue, buffer))
        finally:
            queue.close()


def _disk_bytes(queue: EmbeddedQueue, topic: str) -> int:
    """Nobody in the product asks for this, so it is looked up inside."""
    number = struct.pack(">I", queue._ledger.topic(topic).number)
    files = queue._storage._db.live_files()  # type: ignore[attr-defined]
    return sum(file["size"] for file in files if file["start_key"][:4] <= number <= file["end_key"][:4])
