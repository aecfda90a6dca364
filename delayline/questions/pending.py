"""Whether a topic takes more delayed messages: its `pending_max` and its `repeats_max`, and what the owners of its
shards count.

The counts are half a second old or little more, and lack what is accepted and not indexed yet: a limit is passed by
what comes in within about a second, in requests each of which fits. What is not known refuses nothing: a shard whose
owner does not answer counts as empty, and old figures are forgotten.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import NamedTuple, Protocol

from delayline.clock import Clock
from delayline.questions.inquiry import ShardFigures

ASK_EVERY_S = 0.5
BELIEVED_S = 5.0


class Bounds(NamedTuple):
    """How many messages of a topic may wait, None: any number; and how many of them may be repeats."""

    pending_max: int | None
    repeats_max: int


class Full(Protocol):
    """Why a topic does not take `adds` more delayed messages, or not `repeats` more that repeat. With `pending_max`
    (the sender's own) that is looked at in the place of the topic's limits."""

    def __call__(self, topic: str, *, adds: int = 1, repeats: int = 0, pending_max: int | None = None) -> str | None:
        """For people; None where it takes them all."""


class _Count(NamedTuple):
    """What waits in a topic, and how much of it repeats."""

    pending: int = 0
    repeats: int = 0


_NONE = _Count()


class PendingLimits:
    """Shared by the frontends of a process; may be asked from any thread. `figures` must not block, and must end."""

    def __init__(
        self,
        bounds_of: Callable[[str], Bounds],
        figures: Callable[[], Future[list[ShardFigures]]],
        clock: Clock,
    ) -> None:
        self._bounds_of = bounds_of
        self._figures = figures
        self._clock = clock
        self._asking = False
        self._ask_again_s = float("-inf")
        self._known: tuple[float, Mapping[str, _Count]] = float("-inf"), {}

    def full(self, topic: str, *, adds: int = 1, repeats: int = 0, pending_max: int | None = None) -> str | None:
        """See `Full`. Hot: once per message or batch."""
        if pending_max is None:
            bounds = self._bounds_of(topic)
        else:
            bounds, repeats = Bounds(pending_max, 0), 0
        if bounds.pending_max is None and not repeats:
            return None
        pending, repeating = self._count(topic)
        if adds and bounds.pending_max is not None and pending + adds > bounds.pending_max:
            whose = "its limit" if pending_max is None else "the sender's limit"
            limit = f"{pending} messages wait for {topic}, {whose} is {bounds.pending_max}"
            return limit + _no_room(bounds.pending_max - pending, adds)
        if repeats and repeating + repeats > bounds.repeats_max:
            limit = f"{repeating} messages that repeat wait for {topic}, its repeats_max is {bounds.repeats_max}"
            return limit + _no_room(bounds.repeats_max - repeating, repeats)
        return None

    def _count(self, topic: str) -> _Count:
        now_s = self._clock.monotonic_s()
        if not self._asking and now_s >= self._ask_again_s:
            self._asking = True
            self._figures().add_done_callback(self._answered)
        known_s, counts = self._known
        return counts.get(topic, _NONE) if now_s - known_s <= BELIEVED_S else _NONE

    def _answered(self, answer: Future[list[ShardFigures]]) -> None:
        now_s = self._clock.monotonic_s()
        if not answer.cancelled() and answer.exception() is None:
            counts: dict[str, _Count] = {}
            for one in answer.result():
                so_far = counts.get(one.shard.topic, _NONE)
                counts[one.shard.topic] = _Count(so_far.pending + one.pending, so_far.repeats + one.repeats)
            self._known = now_s, counts
        self._asking, self._ask_again_s = False, now_s + ASK_EVERY_S


def _no_room(room: int, wanted: int) -> str:
    """What follows the limit in the text where there is room for some."""
    return f": there is room for {room} more, not for {wanted}" if room > 0 else ""
