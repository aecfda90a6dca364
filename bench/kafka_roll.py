"""Long messages among short ones on Kafka: the buffer topic's room on the broker's disk, with rolling and without.

A thousand messages that are due in a year, among two million that are due at once, one partition. A broker gives
room back by whole segments, a minute and more after a trim; here its segments are a sixteenth as large and it looks
every second, so that the curve shows what is trimmed and not when the broker gets round to it.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import patch

from bench.on_kafka.broker import FULL_SPEED, Place
from bench.report import Report, disk_bytes
from bench.rolling.curve import Sample, add_figures
from bench.rolling.lap import NEVER, PARTITION, Traffic, lap
from delayline.clock import SystemClock
from delayline.process import logs
from mq.kafka.admin.buffers import BUFFER
from mq.kafka.queue import KafkaQueue
from mq.kafka.settings import KafkaSettings
from tests.brokers.distribution import Unavailable
from tests.brokers.kafka import Kafka

SHORT = 2_000_000
LONG = 1000
SPAN_MIN = 200_000
"""A fifth of the roller's own, so that two million messages fill it ten times."""

SEGMENT_BYTES = 8 << 20
SEGMENT_BYTES_MIN = 1 << 20
"""Brokers take no smaller ones."""

_EAGER = {
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
}


def run(scale: float) -> Report:
    """About five minutes and 3 GB of disk at scale 1."""
    logs.configure("text", "warning")
    short, span_min = max(20_000, int(SHORT * scale)), max(2000, int(SPAN_MIN * scale))
    report = Report(f"Rolling, Kafka: {LONG:,} messages due in a year among {short:,} short ones")
    segment_bytes = max(SEGMENT_BYTES_MIN, int(SEGMENT_BYTES * scale))
    report.notes.append(f"Segments of {segment_bytes >> 10:,} KiB instead of {int(BUFFER['segment.bytes']) >> 10:,}.")
    try:
        with patch.dict(BUFFER, {"segment.bytes": str(segment_bytes)}), _broker() as (servers, data):
            rolled, kept = (_lap(servers, data, short, span) for span in (span_min, NEVER))
            add_figures(report, span_min, rolled, kept)
    except Unavailable as reason:
        report.notes.append(f"skipped: {reason}")
    return report


@contextmanager
def _broker() -> Iterator[tuple[str, Path]]:
    """Its address, and where its logs lie. Raises Unavailable."""
    with (
        tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder,
        closing(Kafka(java_options=FULL_SPEED, folder=Path(folder), properties=_EAGER)) as kafka,
    ):
        kafka.start()
        yield kafka.bootstrap_servers, Path(folder) / "1" / "data"


def _lap(servers: str, data: Path, short: int, span_min: int) -> Sequence[Sample]:
    place = Place.make(servers, partitions=1)
    traffic = Traffic(place.topic, place.namespace, short, LONG)
    log = data / f"{place.buffer}-{PARTITION}"
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        settings = KafkaSettings(bootstrap_servers=servers, namespace=place.namespace)
        with closing(KafkaQueue(settings, SystemClock())) as queue:
            samples = lap(queue, Path(folder), traffic, span_min, lambda: disk_bytes(log))
    place.drop()
    return samples
