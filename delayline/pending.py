"""Whether a topic takes more delayed messages: its rule's `pending_max`, and what the owners of its shards count.

The counts are half a second old or little more, and lack what is accepted and not indexed yet: a limit is passed by
what comes in within about a second. What is not known refuses nothing: a shard whose owner does not answer counts as
empty, and figures of another time are forgotten.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from delayline.clock import Clock
from delayline.message import Shard

ASK_EVERY_S = 0.5
BELIEVED_S = 5.0


class Counted(Protocol):
    """A shard and how many of its messages are pending."""

    @property
    def id(self) -> Shard: ...

    @property
    def pending(self) -> int: ...


class PendingLimits:
    """Shared by the doors of a process; may be asked from any thread. `figures` must not block."""

    def __init__(
        self,
        pending_max_of: Callable[[str], int | None],
        figures: Callable[[], Future[Sequence[Counted]]],
        clock: Clock,
    ) -> None:
        self._pending_max_of = pending_max_of
        self._figures = figures
        self._clock = clock
        self._asked_s = float("-inf")
        self._known: tuple[float, Mapping[str, int]] = float("-inf"), {}

    def full(self, topic: str) -> str | None:
        """Why the topic takes no more delayed messages right now, for people; None where it does. Hot: once per
        message or batch."""
        pending_max = self._pending_max_of(topic)
        if pending_max is None:
            return None
        now_s = self._clock.monotonic_s()
        if now_s - self._asked_s >= ASK_EVERY_S:
            self._asked_s = now_s
            self._figures().add_done_callback(lambda answer: self._answered(now_s, answer))
        asked_s, counts = self._known
        pending = counts.get(topic, 0) if now_s - asked_s <= BELIEVED_S else 0
        return f"{pending} messages wait for {topic}, its limit is {pending_max}" if pending >= pending_max else None

    def _answered(self, asked_s: float, answer: Future[Sequence[Counted]]) -> None:
        if answer.cancelled() or answer.exception() is not None or asked_s < self._known[0]:
            return
        counts: Counter[str] = Counter()
        for one in answer.result():
            counts[one.id.topic] += one.pending
        self._known = asked_s, counts
