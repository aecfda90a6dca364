"""Many messages cancelled by one request, while another topic's messages are due."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median

from bench.over_http.ask import Api
from bench.over_http.flow import Lateness, add_lateness, flowing
from bench.over_http.server import DELIVERED_WITHIN_S, POLL_S, Server
from bench.report import Report
from delayline.clock import SystemClock

MESSAGES = 100_000
OTHERS = 20_000
"""As due as those that are cancelled, with another key: they must stay."""

ROUNDS = 3
QUIET_S = 10.0
SETTLED_S = 1.5
"""The first messages of a lap were sent in the one before, and are not judged."""

PER_S = 1000
P99_MAX_MS = 100
BATCH = 1000
SENDERS = 2
GONE, KEPT = "gone", "kept"
_MESSAGE = '{"key":"%s","value":"' + "x" * 256 + '","schedule":{"delay":"%dm"}}'
_CLOCK = SystemClock()

Window = tuple[int, int]
"""Epoch ms."""


@dataclass(slots=True)
class Laps:
    """What the rounds have shown: seconds per cancel, when one ran and when none did, and how many messages the other
    topic got in all."""

    took_s: list[float] = field(default_factory=list)
    cancelling: list[Window] = field(default_factory=list)
    quiet: list[Window] = field(default_factory=list)
    flowed: int = 0


def rounds(server: Server, topic: str, other: str, messages: int) -> Laps:
    """In each: fill `topic`; a lap in which only `other` flows; one in which the messages are cancelled, too."""
    api, laps = Api(server.port), Laps()
    with flowing(server, other, PER_S) as flow:
        _fill(api, topic, KEPT, OTHERS)
        for _ in range(ROUNDS):
            _fill(api, topic, GONE, messages)
            time.sleep(SETTLED_S)  # what was sent last is indexed
            start_ms = _CLOCK.now_ms() + round(1000 * SETTLED_S)
            time.sleep(QUIET_S)
            between_ms = _CLOCK.now_ms()
            laps.took_s.append(_cancel(api, topic, messages))
            laps.quiet.append((start_ms, between_ms))
            laps.cancelling.append((between_ms, _CLOCK.now_ms()))
        left = _matched(api, topic, {})
        if left != OTHERS:
            raise RuntimeError(f"{left:,} messages are left, {OTHERS:,} should be")
    laps.flowed = flow.messages
    _wait_delivered(api, other)
    return laps


def _wait_delivered(api: Api, topic: str) -> None:
    """Until nothing of the topic waits. Raises RuntimeError where that takes too long."""
    until_s = _CLOCK.monotonic_s() + DELIVERED_WITHIN_S
    time.sleep(SETTLED_S)  # what was sent last is indexed
    while _matched(api, topic, {}):
        if _CLOCK.monotonic_s() > until_s:
            raise RuntimeError(f"{topic}: messages that are due were not delivered")
        time.sleep(POLL_S)


def add_figures(report: Report, laps: Laps, lateness: Lateness, messages: int) -> None:
    took_s = median(laps.took_s)
    report.add(f"{messages:,} messages cancelled in", took_s, "s")
    report.add("cancelled", messages / took_s, "messages/s")
    add_lateness(report, "the other topic, no cancel", lateness.within(laps.quiet))
    add_lateness(report, "the other topic, meanwhile", lateness.within(laps.cancelling), P99_MAX_MS)
    report.notes.append(f"Medians of {ROUNDS} rounds in turns; {PER_S:,} messages/s of the other topic all the time.")


def _fill(api: Api, topic: str, key: str, count: int) -> None:
    """Due in one to two hours."""
    path = f"/v1/topics/{topic}/messages"
    bodies = []
    for start in range(0, count, BATCH):
        numbers = range(start, min(start + BATCH, count))
        messages = ",".join(_MESSAGE % (f"{key}", 60 + number % 60) for number in numbers)
        bodies.append(f'{{"messages":[{messages}]}}'.encode())
    with ThreadPoolExecutor(SENDERS) as senders:
        list(senders.map(lambda body: api.post(path, body, 201), bodies))


def _cancel(api: Api, topic: str, messages: int) -> float:
    """Seconds. Raises RuntimeError where it was not all of them."""
    body = _filter(topic, {"key": GONE}, dry_run=False)
    answer, took_ms = api.post("/v1/messages:cancel", body)
    if answer["cancelled"] != messages or not answer["complete"]:
        raise RuntimeError(f"{messages:,} messages were to be cancelled: {answer}")
    return took_ms / 1000


def _matched(api: Api, topic: str, wanted: dict[str, str]) -> int:
    answer, _ = api.post("/v1/messages:cancel", _filter(topic, wanted, dry_run=True))
    return int(answer["matched"])


def _filter(topic: str, wanted: dict[str, str], *, dry_run: bool) -> bytes:
    fields = "".join(f',"{name}":"{value}"' for name, value in wanted.items())
    return f'{{"filter":{{"topic":"{topic}"{fields}}},"dry_run":{str(dry_run).lower()}}}'.encode()
