"""A worker on the wire behind a broker that cuts, delays, refuses and garbles at random, by a seed."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from threading import Event
from typing import Any

from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.message import encode
from tests.brokers.kafka import KafkaAt
from tests.brokers.scripted import CUT_AFTER, CUT_BEFORE, FORWARD, Act, Altered, Asked, Instead, Late, refusal
from tests.integration.kafka.behind import Behind
from tests.integration.kafka.conftest import Place

SENT_MAX = 30
CHECK_EVERY = 10
LATE_MAX = 20
"""Requests that are held back at once."""

_NOT_DONE: dict[int, tuple[int, ...]] = {
    ApiKey.FETCH: (6, 5, 3, 56),
    ApiKey.FIND_COORDINATOR: (15,),
    ApiKey.INIT_PRODUCER_ID: (14, 15, 16, 51),
    ApiKey.PRODUCE: (6, 14, 19, 45, 47, 48, 51, 87, -1),
    ApiKey.ADD_PARTITIONS_TO_TXN: (14, 15, 16, 51),
    ApiKey.ADD_OFFSETS_TO_TXN: (14, 15, 16, 51),
    ApiKey.TXN_OFFSET_COMMIT: (14, 15, 16, 22, 25, 47, 51),
    ApiKey.END_TXN: (14, 15, 16, 48, 51, 90),
}
"""Errors by API, instead of doing what was asked."""

_DONE: dict[int, tuple[int, ...]] = {
    ApiKey.INIT_PRODUCER_ID: (15, 16),
    ApiKey.PRODUCE: (7, 20),
    ApiKey.TXN_OFFSET_COMMIT: (7, 15),
    ApiKey.END_TXN: (15, 16, -1),
}
"""And those that are answered although it was done: replicas were too slow, the coordinator had just moved."""


class Storm:
    """The script. `counts`: how often what was done to which requests."""

    def __init__(self, behind: Behind, random: Random, rate: float) -> None:
        self.counts: Counter[str] = Counter()
        self._is_ours = behind.is_ours
        self._random = random
        self._rate = rate
        self._late: list[Event] = []

    def __call__(self, asked: Asked) -> Act:
        if not self._is_ours(asked) or self._random.random() > self._rate:
            return FORWARD
        name, act = self._random.choice(self._deeds(asked))
        self.counts[f"{name} {asked.name}"] += 1
        return act()

    def _deeds(self, asked: Asked) -> list[tuple[str, Callable[[], Act]]]:
        deeds: list[tuple[str, Callable[[], Act]]] = [
            ("cut before", lambda: CUT_BEFORE),
            ("cut after", lambda: CUT_AFTER),
            ("garbled", lambda: Altered(self._garbled)),
        ]
        if len(self._late) < LATE_MAX and asked.api != ApiKey.FETCH:
            deeds.append(("late", self._held_back))
        if asked.api in _NOT_DONE:
            deeds.append(("refused", lambda: Instead(self._random.choice(_NOT_DONE[asked.api]))))
        if asked.api in _DONE:
            deeds.append(("done and refused", lambda: self._refused_all_the_same(asked)))
        return deeds

    def _held_back(self) -> Act:
        event = Event()
        self._late.append(event)
        return Late(event)

    def _refused_all_the_same(self, asked: Asked) -> Act:
        answer = refusal(asked, self._random.choice(_DONE[asked.api]))
        return Altered(lambda _: b"".join(encode(answer, asked.version)))

    def _garbled(self, data: bytes) -> bytes:
        """So that it cannot be read. (An answer with other content has no checksum that would show it.)"""
        return self._random.choice((data[: len(data) // 2], b"", data + b"\0", b"\xff" * len(data)))

    def release(self, chance: float) -> None:
        """Let some of what is late arrive."""
        for event in [one for one in self._late if self._random.random() < chance]:
            event.set()
            self._late.remove(event)


def storm(kafka: KafkaAt, seed: int, cycles: int, rate: float) -> Counter[str]:
    """What was done, and what the worker met. Raises AssertionError where a promise was broken."""
    with ExitStack() as stack:
        settings: dict[str, Any] = {"transaction_timeout_s": 3.0, "request_timeout_s": 2.0}
        behind = Behind(Place(kafka, stack), stack, **settings)
        random = Random(seed)
        script = Storm(behind, random, rate)
        for cycle in range(1, cycles + 1):
            with behind.scripted.following(script):
                behind.send(random.randint(1, SENT_MAX))
                behind.settle()
            script.release(0.3)
            if cycle % CHECK_EVERY == 0:
                behind.check()
        script.release(1.0)
        behind.send()
        behind.settle()
        behind.check()
        met = Counter({f"the worker met {name}": count for name, count in behind.met.items()})
        return script.counts + met + Counter({"messages delivered once": len(behind.sent)})
