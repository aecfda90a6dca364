"""Whether a topic takes more delayed messages: its rule's `pending_max`, and what the owners of its shards count.

The counts are half a second old or little more, and lack what is accepted and not indexed yet: a limit is passed by
what comes in within about a second. What is not known refuses nothing: a shard whose owner does not answer counts as
empty, and old figures are forgotten.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from delayline.clock import Clock
from delayline.inquiry import ShardFigures

ASK_EVERY_S = 0.5
BELIEVED_S = 5.0


class PendingLimits:
    """Shared by the doors of a process; may be asked from any thread. `figures` must not block, and must end."""

    def __init__(
        self,
        pending_max_of: Callable[[str], int | None],
        figures: Callable[[], Future[list[ShardFigures]]],
        clock: Clock,
    ) -> None:
        self._pending_max_of = pending_max_of
        self._figures = figures
        self._clock = clock
        self._asking = False
        self._ask_again_s = float("-inf")
        self._known: tuple[float, Mapping[str, int]] = float("-inf"), {}

    def full(self, topic: str) -> str | None:
        """Why the topic takes no more delayed messages right now, for people; None where it does. Hot: once per
        message or batch."""
        pending_max = self._pending_max_of(topic)
        if pending_max is None:
            return None
        now_s = self._clock.monotonic_s()
        if not self._asking and now_s >= self._ask_again_s:
            self._asking = True
            self._figures().add_done_callback(self._answered)
        told_s, counts = self._known
        pending = counts.get(topic, 0) if now_s - told_s <= BELIEVED_S else 0
        return f"{pending} messages wait for {topic}, its limit is {pending_max}" if pending >= pending_max else None

    def _answered(self, answer: Future[list[ShardFigures]]) -> None:
        now_s = self._clock.monotonic_s()
        if not answer.cancelled() and answer.exception() is None:
            counts: Counter[str] = Counter()
            for one in answer.result():
                counts[one.shard.topic] += one.pending
            self._known = now_s, counts
        self._asking, self._ask_again_s = False, now_s + ASK_EVERY_S
