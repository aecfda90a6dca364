"""B8: what people ask while ten million messages wait, and what the asking costs those that are due.

`delayline serve` on the embedded queue, with everything pending within 30 days, takes and delivers 5,000 messages a
second through its HTTP API. In turns, it is asked 20 questions a second, or none. Beside the time of
each answer stands the lateness of the flow in those turns: with the questions, and without.
"""

import random
import tempfile
import time
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.over_http.ask import Api, at
from bench.over_http.fill import FIRST_MS, HORIZON_MS, KEYS, TOPIC, fill
from bench.over_http.flow import Lateness, add_lateness, delivered, flowing
from bench.over_http.server import Server, delayline
from bench.report import Report, Target, disk_bytes
from delayline.clock import SystemClock

PENDING = 10_000_000
PER_S = 5000
ASKED_PER_S = 20
PAIRS = 4
LAP_S = 10
SETTLED_S = 1.5
"""The first messages of a lap were sent in the one before, and are not judged."""

CATCH_UP_S = 900.0
_CLOCK = SystemClock()
_MB = 1e6


def run(scale: float) -> Report:
    """About seven minutes and 8 GB of disk at scale 1."""
    pending, lap_s = max(20_000, int(PENDING * scale)), max(3.0, LAP_S * min(1.0, 5 * scale))
    report = Report(
        f"B8 questions at {pending:,} pending, {PER_S:,} messages/s in and out, embedded queue, over HTTP"
    )
    report.notes.append(
        f"{ASKED_PER_S} questions a second, one after the other, in every other of {2 * PAIRS} laps of {lap_s:.0f} s."
    )
    report.notes.append(
        f"Pages of 100. By key: one in {KEYS} has it, or none, and then a request looks at as many as it may."
    )
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        _measure(report, Path(folder), pending, lap_s)
    return report


def _measure(report: Report, folder: Path, pending: int, lap_s: float) -> None:
    start_s = _CLOCK.monotonic_s()
    first_ms = _CLOCK.now_ms() + FIRST_MS
    fill(folder / "queue", pending)
    filled_s = _CLOCK.monotonic_s()
    report.add("filled", pending / (filled_s - start_s), "messages/s")
    with delayline(folder, ready_within_s=CATCH_UP_S) as server:
        report.add("indexed by the worker", pending / (_CLOCK.monotonic_s() - filled_s), "messages/s")
        report.add("memory of the server, then", server.resident_bytes() / _MB, "MB")
        report.add("disk: queue", disk_bytes(folder / "queue") / _MB, "MB")
        report.add("disk: index", disk_bytes(folder / "index") / _MB, "MB")
        took_ms, windows = _laps(server, first_ms, lap_s)
        report.add("memory of the server, at the end", server.resident_bytes() / _MB, "MB")
    for kind, found in took_ms.items():
        report.add(f"{kind}: p50", at(sorted(found), 0.5), "ms")
        report.add(f"{kind}: p99 of {len(found)}", at(sorted(found), 0.99), "ms", Target("<=", 50))
        report.add(f"{kind}: max", max(found), "ms")
    lateness = Lateness(delivered(folder, TOPIC))
    for name, asked in (("nobody asks", False), ("somebody asks", True)):
        add_lateness(report, f"flow, {name}", lateness.within(windows[asked]))


# --- what is asked


def _laps(
    server: Server, first_ms: int, lap_s: float
) -> tuple[dict[str, list[float]], dict[bool, list[tuple[int, int]]]]:
    """Milliseconds per kind of question; when nobody asked, and when somebody did (epoch ms). A lap warms up."""
    took_ms: dict[str, list[float]] = {}
    windows: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    questions = _Questions(Api(server.port), first_ms)
    with flowing(server, TOPIC, PER_S):
        _ask(questions, lap_s, {})
        for _ in range(PAIRS):
            for asked in (False, True):
                start_ms = _CLOCK.now_ms() + round(1000 * SETTLED_S)
                if asked:
                    _ask(questions, lap_s, took_ms)
                else:
                    time.sleep(lap_s)
                windows[asked].append((start_ms, _CLOCK.now_ms()))
        time.sleep(SETTLED_S)  # what was due last is still written
    server.wait_delivered()
    return took_ms, windows


def _ask(questions: "_Questions", lap_s: float, took_ms: dict[str, list[float]]) -> None:
    start_s, number = _CLOCK.monotonic_s(), 0
    while _CLOCK.monotonic_s() < start_s + lap_s:
        kind, ms = questions.next()
        took_ms.setdefault(kind, []).append(ms)
        number += 1
        time.sleep(max(0.0, start_s + number / ASKED_PER_S - _CLOCK.monotonic_s()))


class _Questions:
    """Each kind in turn, at moments within the 30 days."""

    def __init__(self, api: Api, first_ms: int) -> None:
        self._api = api
        self._first_ms = first_ms
        self._dice = random.Random(8)
        self._kinds = cycle(
            [
                ("first page", self._first),
                ("a page in the middle, by its token", self._further),
                ("by key, one in 100 has it", self._by_key),
                ("by key, none has it", self._by_no_key),
                ("due within an hour", self._range),
                ("histogram, an hour by minutes", self._minutes),
                ("histogram, 30 days by hours", self._hours),
            ]
        )
        self._token = self._page(due_after=first_ms + HORIZON_MS // 2)[0]["next_page_token"]

    def next(self) -> tuple[str, float]:
        kind, question = next(self._kinds)
        return kind, question()

    def _first(self) -> float:
        return self._full_page()

    def _further(self) -> float:
        """The one behind the last."""
        answer, ms = self._page(due_after=self._first_ms + HORIZON_MS // 2, page_token=self._token)
        self._token = answer["next_page_token"]
        return ms

    def _by_key(self) -> float:
        return self._page(key=f"customer-{self._dice.randrange(KEYS)}", due_after=self._moment_ms())[1]

    def _by_no_key(self) -> float:
        return self._page(key="nobody", due_after=self._moment_ms())[1]

    def _range(self) -> float:
        start_ms = self._moment_ms()
        return self._page(due_after=start_ms, due_before=start_ms + 3_600_000)[1]

    def _full_page(self) -> float:
        answer, ms = self._page()
        if len(answer["messages"]) != 100:
            raise RuntimeError(f"the first page has {len(answer['messages'])} messages")
        return ms

    def _minutes(self) -> float:
        return self._histogram(bucket="1m")

    def _hours(self) -> float:
        return self._histogram(bucket="1h", to=self._first_ms + HORIZON_MS)

    def _moment_ms(self) -> int:
        """In the first half, so that a page of any kind is full."""
        return self._first_ms + self._dice.randrange(HORIZON_MS // 2)

    def _page(self, **filters: object) -> tuple[dict[str, Any], float]:
        answer, ms = self._api.get(f"/v1/messages?{urlencode({'topic': TOPIC, 'page_size': 100, **filters})}")
        if not answer["complete"]:
            raise RuntimeError("a list without some shards")
        return answer, ms

    def _histogram(self, **parameters: object) -> float:
        return self._api.get(f"/v1/topics/{TOPIC}/histogram?{urlencode(parameters)}")[1]
