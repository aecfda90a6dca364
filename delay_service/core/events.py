"""What happened to messages that go on waiting: rescheduled, or carried on in another record by the worker.

Kept in memory beside the endings (`delay_service.core.history`), packed, the newest of each message.
"""

import struct
from collections import deque
from collections.abc import Iterator, Sequence

from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Event, Found
from delayline.records.message import Shard

EVENTS_MAX = 100_000
"""Of all messages: about 25 MB. Rolling a large index makes more of them than anybody will ask for."""

OF_MESSAGE_MAX = 16

CLIENT, WORKER = "client", "worker"
_NAMES = {"roll": "rolled"}
_BY_CLIENT = frozenset({"rescheduled", Outcome.CANCELLED.value, Outcome.SUPERSEDED.value})

_PACKED = struct.Struct(">QIB")
_REASONS = ("other", "rescheduled", "roll", "scheduled", "missed")


class Events:
    """By (shard, offset of the message's first acceptance), oldest forgotten first."""

    def __init__(self, events_max: int, retention_ms: int) -> None:
        self._events_max = events_max
        self._retention_ms = retention_ms
        self.packed: dict[tuple[Shard, int], bytes] = {}
        self._order: deque[tuple[int, Shard, int]] = deque()

    def record(self, shard: Shard, offset: int, at_ms: int, reason: str | None, version: int) -> None:
        """The message has been carried on, and has this version now."""
        code = _REASONS.index(reason) if reason in _REASONS else 0
        known = self.packed.get((shard, offset), b"") + _PACKED.pack(at_ms, version, code)
        self.packed[shard, offset] = known[-OF_MESSAGE_MAX * _PACKED.size :]
        self._order.append((at_ms, shard, offset))

    def forget(self, now_ms: int) -> None:
        """Drop what is too old or too many."""
        order = self._order
        while order and (len(order) > self._events_max or now_ms - order[0][0] > self._retention_ms):
            at_ms, shard, offset = order.popleft()
            self._drop(at_ms, (shard, offset))

    def _drop(self, at_ms: int, key: tuple[Shard, int]) -> None:
        """One of the message's events; newer ones may have pushed it out before."""
        known = self.packed.get(key)
        if known is None or _PACKED.unpack_from(known)[0] != at_ms:
            return
        if len(known) == _PACKED.size:
            del self.packed[key]
        else:
            self.packed[key] = known[_PACKED.size :]

    def of(self, shard: Shard, offset: int) -> list[Event]:
        """Those of one message, oldest first."""
        return list(_events(self.packed.get((shard, offset), b"")))


def _events(packed: bytes) -> Iterator[Event]:
    for at_ms, version, code in _PACKED.iter_unpack(packed):
        reason = _REASONS[code]
        yield Event(at_ms, _NAMES.get(reason, reason), CLIENT if reason in _BY_CLIENT else WORKER, version)


def history_of(found: Found, moves: Sequence[Event]) -> tuple[Event, ...]:
    """The whole story: accepted, moved, and how it ended."""
    story = [Event(found.accepted_at_ms, "accepted", CLIENT, 0), *moves]
    if found.ending is not None:
        outcome = found.ending.outcome.value
        story.append(Event(found.ending.at_ms, outcome, CLIENT if outcome in _BY_CLIENT else WORKER, found.version))
    return tuple(story)
