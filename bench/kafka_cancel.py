"""B9 on Kafka: 100,000 pending messages cancelled by one request, and how late another topic's are meanwhile.

As `cancel`, with a broker behind `delayline serve`, 8 partitions. Lateness is by the broker's clock, which stamps the
deliveries; a read_committed reader reads them when the server has ended.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.on_kafka.broker import Place
from bench.on_kafka.reader import Reader
from bench.on_kafka.rig import on_broker
from bench.over_http.cancelling import MESSAGES, add_figures, rounds
from bench.over_http.flow import Lateness
from bench.over_http.server import delayline
from bench.report import Report
from delayline.records.headers import DUE

QUIET_S = 60.0


def run(scale: float) -> Report:
    """About three minutes at scale 1."""
    messages = max(2000, int(MESSAGES * scale))
    report = Report(f"B9 {messages:,} messages cancelled by one request, Kafka, 8 partitions, over HTTP")
    return on_broker(report, lambda servers: _measure(report, servers, messages))


def _measure(report: Report, servers: str, messages: int) -> None:
    place, other = Place.make(servers), Place.make(servers)
    kafka = {
        "NAMESPACE": place.namespace,
        "MQ__KIND": "kafka",
        "MQ__BOOTSTRAP_SERVERS": servers,
        "DELAY__TOPICS": f"{place.topic},{other.topic}",
    }
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder, delayline(Path(folder), kafka) as server:
        laps = rounds(server, place.topic, other.topic, messages)
    add_figures(report, laps, Lateness(_delivered(servers, other.topic, laps.flowed)), messages)


def _delivered(servers: str, topic: str, count: int) -> Iterator[tuple[int, int]]:
    reader = Reader(servers, topic)
    for messages in reader.batches(count, QUIET_S):
        for message in messages:
            headers: dict[str, bytes] = dict(message.headers() or ())  # type: ignore[arg-type]
            due_ms = int(headers[DUE.decode()])
            yield due_ms, message.timestamp()[1] - due_ms
    reader.close()
