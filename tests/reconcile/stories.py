"""What happens to generated messages, case by case: what goes right. What goes wrong is in faults.py.

Everything goes through numpy arrays: `b` are messages, by number; what `append` gives back are records, by number.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

T = 1_767_225_600_000
SPAN_MS = 6 * 3_600_000
"""Messages are accepted for three hours and due within three more."""

LATE_AFTER_MS = 60_000
KINDS = ("message", "operation", "control", "decision", "rules")
OUTCOMES = ("delivered", "cancelled", "expired", "dead", "duplicate", "superseded", "applied", "unmatched")
REASONS = (
    *("rescheduled", "roll", "replaced", "own-id", "deadline", "too-large", "cancelled", "not-pending"),
    *("forwarded", "paused", "purged", "late-max", "missed"),
)
NONE = -1
ASKS = ("cancelled", "rescheduled")
OWN_ID = -2
"""A `ref` by the sender's own id."""

MOVED_BY_MS = 700_000

AWAY = ("topic", "shard", "offset")
"""What of the place that an outcome row names is nowhere."""


Ints = Any
"""A numpy array of int64."""

USUAL: Mapping[str, float] = {
    "cancelled": 0.01,
    "cancelled_by_own_id": 0.002,
    "cancelled_in_bulk": 0.005,
    "purged": 0.002,
    "next_occurrence_cancelled": 0.002,
    "rescheduled": 0.01,
    "rescheduled_twice": 0.002,
    "rescheduled_into_the_past": 0.002,
    "recurring": 0.005,
    "expired": 0.002,
    "expired_by_a_rule": 0.002,
    "expired_with_its_series": 0.002,
    "delivered_before_its_deadline": 0.01,
    "occurrence_of_a_later_time": 0.002,
    "dead": 0.002,
    "replaced": 0.002,
    "duplicate": 0.002,
    "rolled": 0.01,
    "rolled_with_its_deadline": 0.002,
    "unmatched": 0.002,
    "forwarded": 0.002,
}
"""Shares of all messages; the others are delivered. None of these is worth a finding."""


class Columns:
    """Columns that grow by blocks."""

    def __init__(self, *names: str) -> None:
        self.count = 0
        self._blocks: dict[str, list[Ints]] = {name: [] for name in names}

    def add(self, count: int, **columns: Any) -> Ints:
        """Numbers of the new rows."""
        for name, blocks in self._blocks.items():
            blocks.append(np.broadcast_to(np.asarray(columns.get(name, NONE), dtype=np.int64), count))
        self.count += count
        return np.arange(self.count - count, self.count)

    def __getitem__(self, name: str) -> Ints:
        return np.concatenate(self._blocks[name])


class Story:
    """What happens in one shard, case by case."""

    def __init__(self, messages: int, dice: np.random.Generator) -> None:
        self.dice = dice
        self.at_ms = T + np.arange(messages) * (SPAN_MS // 2) // messages
        self.due_ms = self.at_ms + 1000 + dice.integers(0, SPAN_MS // 2, messages)
        self.records = Columns(
            *("message", "at", "due", "kind", "occurrence", "replaces", "asks", "ref", "ref_occurrence", "expires"),
            "moves_to",
        )
        self.rows = Columns(
            *("record", "outcome", "done", "next", "next_occurrence", "reason", "due", "occurrence"),
            *("away", "next_is_nobody"),
        )
        self.faults: list[tuple[str, Ints, Ints, int]] = []  # category, record, occurrence that it is about, away
        self.successors: list[tuple[Ints, Ints]] = []  # of lost ones: the record before, when they were due
        self.promises: list[tuple[str, Ints]] = []  # category, operation: the finding has the id that it names
        self.unaccepted: list[Ints] = []
        self.never: list[Ints] = []  # messages that nobody accepted
        self.unsettled: list[Ints] = []

    # --- what can happen

    def append(
        self,
        b: Ints,
        at: Any = None,
        due: Any = None,
        replaces: Any = NONE,
        occurrence: int = NONE,
        lives_ms: int | None = None,
    ) -> Ints:
        """`lives_ms`: behind its due time lies a deadline."""
        at, due = (self.at_ms[b] if at is None else at), (self.due_ms[b] if due is None else due)
        expires = NONE if lives_ms is None else due + lives_ms
        more = {"replaces": replaces, "occurrence": occurrence, "expires": expires}
        return self.records.add(len(b), message=b, at=at, due=due, kind=0, **more)

    def instruct(self, b: Ints, at: Ints, kind: str, outcome: str | None = "applied", reason: int = NONE) -> Ints:
        records = self.records.add(len(b), message=b, at=at, kind=KINDS.index(kind))
        if outcome is not None:
            self.rows.add(len(b), record=records, outcome=OUTCOMES.index(outcome), done=at + 5, reason=reason)
        return records

    def ask(
        self, b: Ints, at: Ints, did: str, done: Any = None, *, outcome: str = "applied", ref: Any = None, **more: Any
    ) -> Ints:
        """An operation on each of these messages, or on those that `ref` names, and its row. `asks`: what it wants,
        if that is not what it did."""
        asks, occurrence = more.get("asks", did), more.get("occurrence", NONE)
        ref = b if ref is None else ref
        code = ASKS.index(asks) if asks in ASKS else 0
        kind = KINDS.index("operation")
        records = self.records.add(
            len(b),
            message=b,
            at=at,
            kind=kind,
            asks=code,
            ref=ref,
            ref_occurrence=occurrence,
            moves_to=more.get("moves_to", NONE),
        )
        self.end(records, outcome, at + 5 if done is None else done, more.get("reason", did))
        return records

    def end(self, records: Ints, outcome: str, done: Ints, reason: str | None = None, **more: Any) -> None:
        code = NONE if reason is None else REASONS.index(reason)
        self.rows.add(len(records), record=records, outcome=OUTCOMES.index(outcome), done=done, reason=code, **more)

    def deliver(self, records: Ints, when: Ints, **more: Any) -> None:
        self.end(records, "delivered", when + self.dice.integers(0, 900, len(records)), **more)

    def fault(self, category: str, records: Ints, occurrence: int = NONE, away: int = NONE) -> None:
        self.faults.append((category, records, np.full(len(records), occurrence), away))

    # --- what goes right

    def delivered(self, b: Ints) -> None:
        self.deliver(self.append(b), self.due_ms[b])

    def cancelled(self, b: Ints) -> Ints:
        at = self._between(b)
        records = self.append(b)
        self.ask(b, at, "cancelled")
        self.instruct(b, at + 5, "decision")
        self.end(records, "cancelled", at + 5, "cancelled")
        return records

    def cancelled_by_own_id(self, b: Ints) -> None:
        at = self._between(b)
        self.ask(b, at, "cancelled", ref=OWN_ID)
        self.end(self.append(b), "cancelled", at + 5, "cancelled")

    def cancelled_in_bulk(self, b: Ints) -> None:
        """Some hundreds in one commit."""
        last = self.at_ms[-1] + 500
        waits = self.due_ms[b] > last + 5000
        self.delivered(b[~waits])
        b = b[waits]
        self.ask(b, np.full(len(b), last), "cancelled")
        self.end(self.append(b), "cancelled", np.full(len(b), last + 5), "cancelled")

    def purged(self, b: Ints) -> None:
        """By a control, in three commits."""
        last = self.at_ms[-1] + 10_000
        done = last + np.arange(len(b)) % 3
        self.end(self.append(b), "cancelled", done, "purged")
        if len(b):
            self.instruct(b[:1], np.array([last - 3]), "control", reason=REASONS.index("purged"))

    def next_occurrence_cancelled(self, b: Ints) -> None:
        """That one alone: the series goes on."""
        due, at = self.due_ms[b], self._between(b)
        records = self.append(b, occurrence=1)
        self.ask(b, at, "cancelled", occurrence=1)
        self.end(records, "cancelled", at + 5, "cancelled", next=b, next_occurrence=2)
        self.deliver(self.append(b, at + 5, due + 900_000, records, 2), due + 900_000)

    def rescheduled(self, b: Ints) -> Ints:
        """The records that are carried on."""
        due = self.due_ms[b] + 700_000
        records = self.append(b)
        self.deliver(self._move(b, records, self._between(b), due), due)
        return records

    def rescheduled_twice(self, b: Ints) -> None:
        first, second = self.due_ms[b] + 400_000, self.due_ms[b] + 100
        moved = self._move(b, self.append(b), self._between(b), first)
        self.deliver(self._move(b, moved, self._between(b) + 10, second), second)

    def rescheduled_into_the_past(self, b: Ints) -> None:
        """It is due at once: late from the move on, and not from the due time that it got."""
        at = self._between(b)
        self.deliver(self._move(b, self.append(b), at, at - 2 * LATE_AFTER_MS), at)

    def rolled(self, b: Ints) -> None:
        due = self.due_ms[b]
        self.deliver(self._carry_on(b, self.append(b), due - 900, due, "roll"), due)

    def rolled_with_its_deadline(self, b: Ints) -> None:
        due = self.due_ms[b]
        self.deliver(self._carry_on(b, self.append(b, lives_ms=900), due - 900, due, "roll", 900), due)

    def recurring(self, b: Ints) -> None:
        due = self.due_ms[b]
        records = self.append(b, occurrence=1)
        for occurrence in (2, 3):
            self.deliver(records, due, next=b, next_occurrence=occurrence)
            records = self.append(b, due + 300, due + 900_000, records, occurrence)
            due = due + 900_000
        self.deliver(records, due)

    def expired(self, b: Ints) -> None:
        self.end(self.append(b, lives_ms=300_000), "expired", self.due_ms[b] + 300_001, "deadline")

    def expired_by_a_rule(self, b: Ints) -> None:
        """The topic's, not its own."""
        self.end(self.append(b), "expired", self.due_ms[b] + 600_000, "late-max")

    def expired_with_its_series(self, b: Ints) -> None:
        """Its last time was missed."""
        self.end(self.append(b, occurrence=3), "expired", self.due_ms[b] + 600_000, "missed")

    def delivered_before_its_deadline(self, b: Ints) -> None:
        self.deliver(self.append(b, lives_ms=900), self.due_ms[b])

    def occurrence_of_a_later_time(self, b: Ints) -> None:
        """The record's own time was missed: the deadline counts from the one that it was delivered for."""
        self.deliver(self.append(b, occurrence=1, lives_ms=20_000), self.due_ms[b] + 30_000)

    def dead(self, b: Ints) -> None:
        self.end(self.append(b), "dead", self.due_ms[b] + 600_000, "too-large")

    def replaced(self, b: Ints) -> None:
        self.end(self.append(b), "superseded", self._between(b), "replaced", next=self._another(b))

    def duplicate(self, b: Ints) -> None:
        self.end(self.append(b), "duplicate", self._between(b), "own-id", next=self._another(b))

    def unmatched(self, b: Ints) -> None:
        self.delivered(b)
        self.ask(b, self.due_ms[b] + 9, "cancelled", outcome="unmatched", reason="not-pending")

    def forwarded(self, b: Ints) -> None:
        self.delivered(b)
        self.ask(b, self._between(b), "cancelled", reason="forwarded")

    # --- helpers

    def _another(self, b: Ints) -> Ints:
        """The next message that was accepted: never the message itself."""
        accepted = np.setdiff1d(np.arange(len(self.at_ms)), np.concatenate(self.never))
        return accepted[np.searchsorted(accepted, b + 1) % len(accepted)]

    def _between(self, b: Ints) -> Ints:
        return (self.at_ms[b] + self.due_ms[b]) // 2

    def _moved(self, b: Ints, records: Ints, at: Ints, **more: Any) -> None:
        """By an operation: two rows of one commit."""
        moves_to = more.pop("moves_to", self.due_ms[b] + MOVED_BY_MS)
        self.ask(b, np.minimum(at - 5, self.due_ms[b]), "rescheduled", at, moves_to=moves_to)
        self.end(records, "superseded", at, "rescheduled", **more)

    def _move(self, b: Ints, records: Ints, at: Ints, due: Ints) -> Ints:
        """What carries them on."""
        self._moved(b, records, at, next=b, moves_to=due)
        return self.append(b, at, due, records)

    def _carry_on(
        self, b: Ints, records: Ints, at: Ints, due: Ints, reason: str = "rescheduled", lives_ms: int | None = None
    ) -> Ints:
        self.end(records, "superseded", at, reason, next=b)
        return self.append(b, at, due, records, lives_ms=lives_ms)
