"""How recently ended messages ended, kept in memory by the worker that ended them.

Bounded by count and age; packed into bytes, because a million of them are kept by default (about 140 B each).
It is a convenience for questions, not a record: the audit topic is that.
"""

import struct
from collections.abc import Iterable
from concurrent.futures import Future
from threading import Lock

from delayline.inquiry import Ending
from delayline.message import Shard
from delayline.outcome import AuditRow, Outcome

OPERATIONS_MAX = 10_000
"""Those that are remembered, decided or waited for: whoever wants to know what becomes of one asks at once."""
_PACKED = struct.Struct(">QQQQB")
_OUTCOMES = list(Outcome)


class History:
    """Endings by (shard, offset of the first acceptance), oldest forgotten first."""

    def __init__(self, messages_max: int, retention_ms: int) -> None:
        self._messages_max = messages_max
        self._retention_ms = retention_ms
        self._endings: dict[tuple[Shard, int], bytes] = {}
        self._operations: dict[tuple[Shard, int], Outcome | Future[Outcome]] = {}
        self._lock = Lock()

    def record(self, shard: Shard, rows: Iterable[AuditRow], at_ms: int) -> None:
        """Remember the rows that ended a message for good. Hot: once per delivered message."""
        endings, pack = self._endings, _PACKED.pack
        for row_offset, message_id, due_ms, accepted_at_ms, outcome, _, reason in rows:
            if due_ms is None:
                if reason is not None:
                    self._decide(shard, row_offset, outcome)
            elif outcome is not Outcome.SUPERSEDED and self._messages_max > 0:
                first_due_ms, offset = _first(message_id or "")
                packed = pack(at_ms, due_ms, first_due_ms, accepted_at_ms, _OUTCOMES.index(outcome))
                endings[shard, offset] = packed + reason.encode() if reason else packed
        self._forget(at_ms)

    def decided(self, shard: Shard, offset: int) -> "Future[Outcome]":
        """What becomes of the operation at this offset, once a commit of this worker has decided it. Any thread."""
        with self._lock:
            known = self._operations.get((shard, offset))
            future: Future[Outcome] = known if isinstance(known, Future) else Future()
            if isinstance(known, Outcome):
                future.set_result(known)
            else:
                self._note(shard, offset, future)
        return future

    def _decide(self, shard: Shard, offset: int, outcome: Outcome) -> None:
        with self._lock:
            waiting = self._operations.get((shard, offset))
            self._note(shard, offset, outcome)
        if isinstance(waiting, Future):
            waiting.set_result(outcome)

    def _note(self, shard: Shard, offset: int, what: "Outcome | Future[Outcome]") -> None:
        self._operations[shard, offset] = what
        while len(self._operations) > OPERATIONS_MAX:
            del self._operations[next(iter(self._operations))]

    def _forget(self, now_ms: int) -> None:
        """Drop what is too old or too many, from the oldest on; a few per call keep pace with what comes in."""
        endings = self._endings
        while endings:
            oldest = next(iter(endings))
            at_ms = _PACKED.unpack_from(endings[oldest])[0]
            if len(endings) <= self._messages_max and now_ms - at_ms <= self._retention_ms:
                return
            del endings[oldest]

    def find(self, shard: Shard, offset: int, first_due_ms: int) -> tuple[Ending, int, int] | None:
        """(ending, accepted_at_ms, due_ms) of the message with this id."""
        packed = self._endings.get((shard, offset))
        if packed is None:
            return None
        at_ms, due_ms, known_due_ms, accepted_at_ms, code = _PACKED.unpack_from(packed)
        outcome = _OUTCOMES[code]
        if known_due_ms != first_due_ms:
            return None
        lateness_ms = at_ms - due_ms if outcome is Outcome.DELIVERED else None
        reason = packed[_PACKED.size :].decode() or None
        return Ending(outcome, at_ms, lateness_ms, reason), accepted_at_ms, due_ms


def _first(message_id: str) -> tuple[int, int]:
    """(due_ms, offset) in the message id: those of the first acceptance."""
    _, offset, due_ms = message_id.rsplit(".", 2)
    return int(due_ms), int(offset)
