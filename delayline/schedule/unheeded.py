"""Delays that senders ask for and that have no effect: directives for topics that `delay.topics` does not name, and
unknown names under `delay-`. Such messages go straight to their topic, so it is counted and reported: the log, a
metric, `/v1/topics/{topic}`, the console and `delayline doctor` show it.
"""

from collections import Counter
from enum import StrEnum
from threading import Lock
from typing import NamedTuple

import prometheus_client
from prometheus_client import CollectorRegistry

from delayline.clock import Clock, SystemClock
from delayline.process import logs

PAIRS_MAX = 200
"""Topics and names, one label each: a mistake has a handful of them, and a sender may invent any number."""

OTHER = "other"
LOGGED_AGAIN_MS = 600_000
"""Between two log lines about the same topic and name: a producer makes the mistake with every message."""

log = logs.get(__name__)


class Why(StrEnum):
    TOPIC = "topic-not-enabled"  # a directive, or what is like one
    NAME = "unknown-name"  # under `delay-`, in a topic that takes delays


ADVICE = {
    Why.TOPIC: "the topic takes no delays: delay.topics does not name it; the message is not delayed",
    Why.NAME: "no directive: docs/directives.md has them all; the header means nothing",
}


class Unheeded(NamedTuple):
    """How often a header's name was seen in messages of a topic. Not every message is looked at."""

    topic: str
    name: str
    why: Why
    seen: int


class UnheededNames:
    """Of one process. Any thread."""

    def __init__(self, registry: CollectorRegistry, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._metric = prometheus_client.Counter(
            "delayline_unheeded_headers",
            "Headers about a delay that mean nothing here, among the messages that were looked at.",
            ("topic", "header", "why"),
            registry=registry,
        )
        self._lock = Lock()
        self.counts: Counter[tuple[str, str, Why]] = Counter()
        self.logged_ms: dict[tuple[str, str, Why], int] = {}

    def note(self, topic: str, name: str, why: Why, count: int = 1) -> None:
        """Count it, and log it where that was not done lately."""
        with self._lock:
            pair = (topic, name, why)
            if pair not in self.counts and len(self.counts) >= PAIRS_MAX:
                pair = (OTHER, OTHER, why)
            self.counts[pair] += count
            now_ms = self._clock.now_ms()
            is_news = now_ms - self.logged_ms.get(pair, now_ms - LOGGED_AGAIN_MS) >= LOGGED_AGAIN_MS
            if is_news:
                self.logged_ms[pair] = now_ms
        self._metric.labels(*pair).inc(count)
        if is_news:
            log.warning("a header is not heeded", topic=pair[0], header=pair[1], why=why.value, detail=ADVICE[why])

    def of(self, topic: str) -> list[Unheeded]:
        """What was seen in the topic, by name. What was too much to be counted by name is no topic's, not even of one
        that is called so."""
        with self._lock:
            found = [Unheeded(*pair, seen) for pair, seen in self.counts.items() if pair[0] == topic]
        return sorted(one for one in found if one.name != OTHER)
