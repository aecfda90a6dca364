"""What is known of topics: learned when it is first needed, and again when it is old."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

from delayline.clock import Clock

TOPICS_MAX = 10_000
"""Clients may name topics that there are not; those that were learned first are forgotten."""

T = TypeVar("T")

Learn = Callable[[str], Awaitable[tuple[T, float]]]
"""Of a topic: what was learned, and for how many seconds it is believed. Raises nothing."""


class Learned(Generic[T]):
    """On one event loop."""

    def __init__(self, learn: Learn[T], clock: Clock) -> None:
        self._learn_one = learn
        self._clock = clock
        self._known: dict[str, tuple[float, T]] = {}
        self._learning: dict[str, asyncio.Task[None]] = {}

    def close(self) -> None:
        for task in self._learning.values():
            task.cancel()

    def __iter__(self) -> Iterator[tuple[str, T, bool]]:
        """Topics, what is known of each, and whether that is still believed."""
        now_s = self._clock.monotonic_s()
        return ((topic, found, until_s > now_s) for topic, (until_s, found) in self._known.items())

    def find(self, topic: str) -> tuple[T, bool] | None:
        """What was learned, and whether it is still believed; None where nothing was."""
        known = self._known.get(topic)
        return None if known is None else (known[1], known[0] > self._clock.monotonic_s())

    def get(self, topic: str) -> T:
        """What was learned. What is old is used once more, while it is learned anew. Raises KeyError."""
        until_s, found = self._known[topic]
        if until_s <= self._clock.monotonic_s():
            self._begin(topic)
        return found

    def forget(self, topic: str) -> None:
        """It is to be learned again before it is used."""
        self._known.pop(topic, None)

    async def learn(self, topic: str) -> None:
        """Once for all that wait."""
        await asyncio.shield(self._begin(topic))

    def _begin(self, topic: str) -> "asyncio.Task[None]":
        task = self._learning.get(topic)
        if task is None:
            task = self._learning[topic] = asyncio.create_task(self._learn(topic))
            task.add_done_callback(lambda _: self._learning.pop(topic, None))
        return task

    async def _learn(self, topic: str) -> None:
        found, believed_s = await self._learn_one(topic)
        self._known.pop(topic, None)
        while len(self._known) >= TOPICS_MAX:
            del self._known[next(iter(self._known))]
        self._known[topic] = self._clock.monotonic_s() + believed_s, found
