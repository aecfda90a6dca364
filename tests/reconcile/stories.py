"""What happens to generated messages, case by case: what goes right, and what goes wrong (`FAULTS`).

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
    *("forwarded", "paused", "purged"),
)
NONE = -1
ASKS = ("cancelled", "rescheduled")
OWN_ID = -2
"""A `ref` by the sender's own id."""

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
    "recurring": 0.005,
    "expired": 0.002,
    "dead": 0.002,
    "replaced": 0.002,
    "duplicate": 0.002,
    "rolled": 0.01,
    "unmatched": 0.002,
    "forwarded": 0.002,
}
"""Shares of all messages; the others are delivered. None of these is worth a finding."""

FAULTS = (
    "missing",
    "missing_re_append",
    "missing_instruction",
    "twice",
    "thrice",
    "orphan",
    "early",
    "late",
    "delivered_after_cancel",
    "delivered_before_cancel",
    "lost_successor",
    "unsettled_successor",
    "fork",
    "cancelled_and_re_appended",
    "another_time",
    "another_id",
    "applied",
    "unmatched_message",
    "delivered_instruction",
    "unknown_topic",
    "unknown_shard",
    "behind_the_end",
    "another_origin",
    "another_origin_that_is_announced",
    "replaced_by_nobody",
    "duplicate_of_nobody",
    "superseded_in_silence",
    "cancel_confirmed_and_delivered",
    "cancel_by_own_id_confirmed_and_delivered",
    "move_confirmed_and_delivered",
    "cancelled_by_nobody",
    "cancelled_without_a_reason",
    "moved_by_nobody",
    "purged_by_nobody",
    "another_one_cancelled",
    "move_that_cancelled",
    "operation_applied_without_a_word",
)


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
            "message", "at", "due", "kind", "occurrence", "replaces", "asks", "ref", "ref_occurrence"
        )
        self.rows = Columns(
            *("record", "outcome", "done", "next", "next_occurrence", "reason", "due", "occurrence"),
            *("away", "next_is_nobody"),
        )
        self.faults: list[tuple[str, Ints, Ints, int]] = []  # category, record, occurrence that it is about, away
        self.promises: list[tuple[str, Ints]] = []  # category, operation: the finding has the id that it names
        self.unaccepted: list[Ints] = []
        self.never: list[Ints] = []  # messages that nobody accepted
        self.unsettled: list[Ints] = []

    # --- what can be said

    def append(self, b: Ints, at: Any = None, due: Any = None, replaces: Any = NONE, occurrence: int = NONE) -> Ints:
        at, due = (self.at_ms[b] if at is None else at), (self.due_ms[b] if due is None else due)
        return self.records.add(len(b), message=b, at=at, due=due, kind=0, replaces=replaces, occurrence=occurrence)

    def instruct(self, b: Ints, at: Ints, kind: str, outcome: str | None = "applied", reason: int = NONE) -> Ints:
        records = self.records.add(len(b), message=b, at=at, kind=KINDS.index(kind))
        if outcome is not None:
            self.rows.add(len(b), record=records, outcome=OUTCOMES.index(outcome), done=at + 5, reason=reason)
        return records

    def ask(
        self, b: Ints, at: Ints, did: str, done: Any = None, *, outcome: str = "applied", ref: Any = None, **more: Any
    ) -> Ints:
        """An operation on each of these messages, or on those that `ref` says, and its row. `asks`: what it wants,
        if that is not what it did."""
        asks, occurrence = more.get("asks", did), more.get("occurrence", NONE)
        ref = b if ref is None else ref
        code = ASKS.index(asks) if asks in ASKS else 0
        kind = KINDS.index("operation")
        records = self.records.add(len(b), message=b, at=at, kind=kind, asks=code, ref=ref, ref_occurrence=occurrence)
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

    def rolled(self, b: Ints) -> None:
        due = self.due_ms[b]
        self.deliver(self._carry_on(b, self.append(b), due - 900, due, "roll"), due)

    def recurring(self, b: Ints) -> None:
        due = self.due_ms[b]
        records = self.append(b, occurrence=1)
        for occurrence in (2, 3):
            self.deliver(records, due, next=b, next_occurrence=occurrence)
            records = self.append(b, due + 300, due + 900_000, records, occurrence)
            due = due + 900_000
        self.deliver(records, due)

    def expired(self, b: Ints) -> None:
        self.end(self.append(b), "expired", self.due_ms[b] + 600_000, "deadline")

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

    # --- what goes wrong

    def missing(self, b: Ints) -> None:
        self.fault("missing", self.append(b))

    def missing_re_append(self, b: Ints) -> None:
        due = self.due_ms[b] + 700_000
        self.fault("missing", self._move(b, self.append(b), self._between(b), due))

    def missing_instruction(self, b: Ints) -> None:
        self.delivered(b)
        self.fault("missing", self.instruct(b, self._between(b), "operation", None))

    def twice(self, b: Ints) -> None:
        records = self.append(b)
        self.deliver(records, self.due_ms[b])
        self.deliver(records, self.due_ms[b])
        self.fault("duplicated", records)

    def thrice(self, b: Ints) -> None:
        records = self.append(b)
        for _ in range(3):
            self.deliver(records, self.due_ms[b])
        self.fault("duplicated", records)

    def orphan(self, b: Ints) -> None:
        records = self.append(b)
        self.unaccepted.append(records)
        self.never.append(b)
        self.deliver(records, self.due_ms[b])
        self.fault("orphan", records)

    def early(self, b: Ints) -> None:
        records = self.append(b)
        self.end(records, "delivered", self.due_ms[b] - 1 - self.dice.integers(0, 900, len(b)))
        self.fault("early", records)

    def late(self, b: Ints) -> None:
        records = self.append(b)
        self.end(records, "delivered", self.due_ms[b] + LATE_AFTER_MS + 1 + self.dice.integers(0, 900_000, len(b)))
        self.fault("late", records)

    def delivered_after_cancel(self, b: Ints) -> None:
        records = self.cancelled(b)
        self.deliver(records, self.due_ms[b])
        self.fault("delivered_after_cancel", records)

    def delivered_before_cancel(self, b: Ints) -> None:
        records = self.append(b)
        self.deliver(records, self.due_ms[b])
        self.ask(b, self.due_ms[b] + 900, "cancelled", self.due_ms[b] + 1000)
        self.end(records, "cancelled", self.due_ms[b] + 1000, "cancelled")
        self.fault("two_outcomes", records)

    def lost_successor(self, b: Ints) -> None:
        records = self.append(b)
        self._moved(b, records, self._between(b), next=b)
        self.fault("missing", records)

    def unsettled_successor(self, b: Ints) -> None:
        records = self.append(b)
        self._moved(b, records, np.full(len(b), T + 3 * SPAN_MS), next=b)
        self.unsettled.append(records)

    def fork(self, b: Ints) -> None:
        records = self.rescheduled(b)
        again = self.append(b, self._between(b) + 9, self.due_ms[b] + 100, records)
        self.deliver(again, self.due_ms[b] + 100)
        self.fault("duplicated", records)

    def cancelled_and_re_appended(self, b: Ints) -> None:
        records = self.cancelled(b)
        self.deliver(self.append(b, self._between(b), self.due_ms[b], records), self.due_ms[b])
        self.fault("delivered_after_cancel", records)

    def another_time(self, b: Ints) -> None:
        records = self.append(b)
        self.deliver(records, self.due_ms[b] + 77_000, due=self.due_ms[b] + 77_000)
        self.fault("missing", records)
        self.fault("orphan", records)

    def another_id(self, b: Ints) -> None:
        """The id of an occurrence that there is not."""
        records = self.append(b)
        self.deliver(records, self.due_ms[b], occurrence=9)
        self.fault("missing", records)
        self.fault("orphan", records, 9)

    def applied(self, b: Ints) -> None:
        self._wrongly(self.append(b), "applied", self.due_ms[b])

    def unmatched_message(self, b: Ints) -> None:
        self._wrongly(self.append(b), "unmatched", self.due_ms[b])

    def delivered_instruction(self, b: Ints) -> None:
        self.delivered(b)
        self._wrongly(self.instruct(b, self._between(b), "operation", None), "delivered", self._between(b))

    def unknown_topic(self, b: Ints) -> None:
        self._elsewhere(b, "topic")

    def unknown_shard(self, b: Ints) -> None:
        self._elsewhere(b, "shard")

    def behind_the_end(self, b: Ints) -> None:
        self._elsewhere(b, "offset")

    def another_origin(self, b: Ints) -> None:
        """A re-append under the id of another message."""
        self._misnamed(b, b)

    def another_origin_that_is_announced(self, b: Ints) -> None:
        self._misnamed(b, (b + 1) % len(self.at_ms))

    def replaced_by_nobody(self, b: Ints) -> None:
        self._yields_to_nobody(b, "superseded", "replaced")

    def duplicate_of_nobody(self, b: Ints) -> None:
        self._yields_to_nobody(b, "duplicate", "own-id")

    def superseded_in_silence(self, b: Ints) -> None:
        records = self.append(b)
        self._moved(b, records, self._between(b))
        self.fault("missing", records)

    def cancel_confirmed_and_delivered(self, b: Ints) -> None:
        self.delivered(b)
        self.promises.append(("confirmed_in_vain", self.ask(b, self._between(b), "cancelled")))

    def cancel_by_own_id_confirmed_and_delivered(self, b: Ints) -> None:
        self.delivered(b)
        self.promises.append(("confirmed_in_vain", self.ask(b, self._between(b), "cancelled", ref=OWN_ID)))

    def move_confirmed_and_delivered(self, b: Ints) -> None:
        self.delivered(b)
        self.promises.append(("confirmed_in_vain", self.ask(b, self._between(b), "rescheduled")))

    def cancelled_by_nobody(self, b: Ints) -> None:
        self._unasked(self.append(b), "cancelled", self._between(b), "cancelled")

    def cancelled_without_a_reason(self, b: Ints) -> None:
        self._unasked(self.append(b), "cancelled", self._between(b), None)

    def moved_by_nobody(self, b: Ints) -> None:
        due, records = self.due_ms[b] + 700_000, self.append(b)
        self.deliver(self._carry_on(b, records, self._between(b), due), due)
        self.fault("unasked", records)

    def purged_by_nobody(self, b: Ints) -> None:
        """Behind the last purge."""
        self._unasked(self.append(b), "cancelled", np.maximum(self.due_ms[b], self.at_ms[-1] + 20_000), "purged")

    def another_one_cancelled(self, b: Ints) -> None:
        """The right number of messages, and not the right ones."""
        half = len(b) // 2
        asked, ended, done = b[:half], b[half : 2 * half], self._between(b[half : 2 * half])
        self.delivered(b[2 * half :])
        self.delivered(asked)
        self.promises.append(("confirmed_in_vain", self.ask(asked, done - 5, "cancelled", done)))
        self._unasked(self.append(ended), "cancelled", done, "cancelled")

    def move_that_cancelled(self, b: Ints) -> None:
        """Its record asks for another time, its row says that it has cancelled."""
        at = self._between(b)
        self.end(self.append(b), "cancelled", at + 5, "cancelled")
        self.fault("wrong_outcome", self.ask(b, at, "cancelled", asks="rescheduled"))

    def operation_applied_without_a_word(self, b: Ints) -> None:
        """What it did is not said."""
        self.delivered(b)
        self.fault("wrong_outcome", self.ask(b, self._between(b), "cancelled", reason=None))

    # --- helpers

    def _unasked(self, records: Ints, outcome: str, done: Ints, reason: str | None) -> None:
        self.end(records, outcome, done, reason)
        self.fault("unasked", records)

    def _another(self, b: Ints) -> Ints:
        """A message that was accepted."""
        other = (b + 1) % len(self.at_ms)
        return np.where(np.isin(other, np.concatenate(self.never)), b, other)

    def _wrongly(self, records: Ints, outcome: str, done: Ints) -> None:
        self.end(records, outcome, done)
        self.fault("wrong_outcome", records)

    def _elsewhere(self, b: Ints, what: str) -> None:
        """Delivered, and a second row says so of a place that there is not."""
        records = self.append(b)
        self.deliver(records, self.due_ms[b])
        self.end(records, "delivered", self.due_ms[b], away=AWAY.index(what))
        self.fault("orphan", records, away=AWAY.index(what))

    def _misnamed(self, b: Ints, announced: Ints) -> None:
        records, at, due = self.append(b), self._between(b), self.due_ms[b] + 700_000
        self._moved(b, records, at, next=announced)
        other = (b + 1) % len(self.at_ms)
        again = self.records.add(len(b), message=other, at=at, due=due, kind=0, replaces=records)
        self.deliver(again, due)
        self.fault("wrong_successor", records)

    def _yields_to_nobody(self, b: Ints, outcome: str, reason: str) -> None:
        """The message that it names is another's id with another due time."""
        records = self.append(b)
        self.end(records, outcome, self._between(b), reason, next=b, next_is_nobody=1)
        self.fault("wrong_successor", records)

    def _between(self, b: Ints) -> Ints:
        return (self.at_ms[b] + self.due_ms[b]) // 2

    def _moved(self, b: Ints, records: Ints, at: Ints, **more: Any) -> None:
        """By an operation: two rows of one commit."""
        self.ask(b, np.minimum(at - 5, self.due_ms[b]), "rescheduled", at)
        self.end(records, "superseded", at, "rescheduled", **more)

    def _move(self, b: Ints, records: Ints, at: Ints, due: Ints) -> Ints:
        """What carries them on."""
        self._moved(b, records, at, next=b)
        return self.append(b, at, due, records)

    def _carry_on(self, b: Ints, records: Ints, at: Ints, due: Ints, reason: str = "rescheduled") -> Ints:
        self.end(records, "superseded", at, reason, next=b)
        return self.append(b, at, due, records)
