"""B9: 100,000 pending messages cancelled by one request, and how late another topic's are meanwhile.

`delayline serve` on the embedded queue, everything over its HTTP API. The same flow of the other topic, in turns,
with a cancel running and without.
"""

import tempfile
from pathlib import Path

from bench.over_http.cancelling import MESSAGES, add_figures, rounds
from bench.over_http.flow import Lateness, delivered
from bench.over_http.server import delayline
from bench.report import Report

TOPIC, OTHER = "calls", "orders"


def run(scale: float) -> Report:
    """About two minutes at scale 1."""
    messages = max(2000, int(MESSAGES * scale))
    report = Report(f"B9 {messages:,} messages cancelled by one request, embedded queue, over HTTP")
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        with delayline(Path(folder)) as server:
            laps = rounds(server, TOPIC, OTHER, messages)
        add_figures(report, laps, Lateness(delivered(Path(folder), OTHER)), messages)
    return report
