"""Seeded buffers and audits with everything in them that can go right or wrong, and what is to be found there.

`generate` makes one shard: a million messages take about two seconds. Everything goes through numpy arrays: `b` are
messages, by number; what `append` gives back are records, by number; offsets are given out at the end, by the time
of the append.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

T = 1_767_225_600_000
SPAN_MS = 6 * 3_600_000
"""Messages are accepted for three hours and due within three more."""

LATE_AFTER_MS = 60_000
ROWS_PER_AUDIT_RECORD = 1000
KINDS = ("message", "operation", "control", "decision", "rules")
OUTCOMES = ("delivered", "cancelled", "expired", "dead", "duplicate", "superseded", "applied", "unmatched")
REASONS = ("rescheduled", "roll", "replaced", "own-id", "deadline", "too-large", "cancelled", "not-pending")
_NONE = -1
_BEHIND_MARKS = 1 << 40
"""Audit offset of the rows that stand behind the last mark but one."""

Ints = Any
"""A numpy array of int64."""

USUAL: Mapping[str, float] = {
    "cancelled": 0.01,
    "rescheduled": 0.01,
    "rescheduled_twice": 0.002,
    "recurring": 0.005,
    "expired": 0.002,
    "dead": 0.002,
    "replaced": 0.002,
    "duplicate": 0.002,
    "rolled": 0.01,
    "unmatched": 0.002,
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
)


class Fault(NamedTuple):
    """What is to be found."""

    category: str
    topic: str
    shard: int
    offset: int
    id: str | None


class Truth(NamedTuple):
    """Nothing of what was trimmed is to be found, nor counted among `records` and `rows`. Outcome rows below the
    audit offset `settled` are settled; windows with others are `unsettled`."""

    faults: list[Fault]
    unsettled: set[tuple[str, int]]
    settled: int
    records: int
    rows: int


def generate(
    folder: Path, topic: str, shard: int, messages: int, *, faults: int, seed: int, trimmed: int = 0
) -> Truth:
    """Write `accepted`, `done` and `marks` of one shard below the folder; `faults` of each of `FAULTS`."""
    story = _Story(messages, np.random.default_rng([seed, shard]))
    dice = story.dice.permutation(messages)
    for name in FAULTS:
        chosen, dice = np.sort(dice[:faults]), dice[faults:]
        getattr(story, name)(chosen)
    for name, share in USUAL.items():
        count = int(share * messages)
        chosen, dice = np.sort(dice[:count]), dice[count:]
        getattr(story, name)(chosen)
    story.delivered(np.sort(dice))
    return _Written(story, topic, shard, trimmed).into(folder)


class _Columns:
    """Columns that grow by blocks."""

    def __init__(self, *names: str) -> None:
        self.count = 0
        self._blocks: dict[str, list[Ints]] = {name: [] for name in names}

    def add(self, count: int, **columns: Any) -> Ints:
        """Numbers of the new rows."""
        for name, blocks in self._blocks.items():
            blocks.append(np.broadcast_to(np.asarray(columns.get(name, _NONE), dtype=np.int64), count))
        self.count += count
        return np.arange(self.count - count, self.count)

    def __getitem__(self, name: str) -> Ints:
        return np.concatenate(self._blocks[name])


class _Story:
    """What happens in one shard, case by case."""

    def __init__(self, messages: int, dice: np.random.Generator) -> None:
        self.dice = dice
        self.at_ms = T + np.arange(messages) * (SPAN_MS // 2) // messages
        self.due_ms = self.at_ms + 1000 + dice.integers(0, SPAN_MS // 2, messages)
        self.records = _Columns("message", "at", "due", "kind", "occurrence", "replaces")
        self.rows = _Columns("record", "outcome", "done", "next", "next_occurrence", "reason", "due", "occurrence")
        self.faults: list[tuple[str, Ints, Ints]] = []  # category, record, occurrence that it is about
        self.unaccepted: list[Ints] = []
        self.unsettled: list[Ints] = []

    # --- what can be said

    def append(
        self, b: Ints, at: Any = None, due: Any = None, replaces: Any = _NONE, occurrence: int = _NONE
    ) -> Ints:
        at, due = (self.at_ms[b] if at is None else at), (self.due_ms[b] if due is None else due)
        return self.records.add(len(b), message=b, at=at, due=due, kind=0, replaces=replaces, occurrence=occurrence)

    def instruct(self, b: Ints, at: Ints, kind: str, outcome: str | None = "applied", reason: int = _NONE) -> Ints:
        records = self.records.add(len(b), message=b, at=at, kind=KINDS.index(kind))
        if outcome is not None:
            self.rows.add(len(b), record=records, outcome=OUTCOMES.index(outcome), done=at + 5, reason=reason)
        return records

    def end(self, records: Ints, outcome: str, done: Ints, reason: str | None = None, **more: Any) -> None:
        code = _NONE if reason is None else REASONS.index(reason)
        self.rows.add(len(records), record=records, outcome=OUTCOMES.index(outcome), done=done, reason=code, **more)

    def deliver(self, records: Ints, when: Ints, **more: Any) -> None:
        self.end(records, "delivered", when + self.dice.integers(0, 900, len(records)), **more)

    def fault(self, category: str, records: Ints, occurrence: int = _NONE) -> None:
        self.faults.append((category, records, np.full(len(records), occurrence)))

    # --- what goes right

    def delivered(self, b: Ints) -> None:
        self.deliver(self.append(b), self.due_ms[b])

    def cancelled(self, b: Ints) -> Ints:
        at = self._between(b)
        records = self.append(b)
        self.instruct(b, at, "operation")
        self.instruct(b, at + 5, "decision")
        self.end(records, "cancelled", at + 5, "cancelled")
        return records

    def rescheduled(self, b: Ints) -> Ints:
        """The records that are carried on."""
        due = self.due_ms[b] + 700_000
        records = self.append(b)
        self.instruct(b, self._between(b), "operation")
        moved = self._carry_on(b, records, self._between(b), due)
        self.deliver(moved, due)
        return records

    def rescheduled_twice(self, b: Ints) -> None:
        first, second = self.due_ms[b] + 400_000, self.due_ms[b] + 100
        moved = self._carry_on(b, self.append(b), self._between(b), first)
        self.deliver(self._carry_on(b, moved, self._between(b) + 10, second), second)

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
        self.end(self.append(b), "superseded", self._between(b), "replaced", next=(b + 1) % len(self.at_ms))

    def duplicate(self, b: Ints) -> None:
        self.end(self.append(b), "duplicate", self._between(b), "own-id", next=(b + 1) % len(self.at_ms))

    def unmatched(self, b: Ints) -> None:
        self.delivered(b)
        self.instruct(b, self.due_ms[b] + 9, "operation", "unmatched", REASONS.index("not-pending"))

    # --- what goes wrong

    def missing(self, b: Ints) -> None:
        self.fault("missing", self.append(b))

    def missing_re_append(self, b: Ints) -> None:
        due = self.due_ms[b] + 700_000
        self.fault("missing", self._carry_on(b, self.append(b), self._between(b), due))

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
        self.end(records, "cancelled", self.due_ms[b] + 1000, "cancelled")
        self.fault("two_outcomes", records)

    def lost_successor(self, b: Ints) -> None:
        records = self.append(b)
        self.end(records, "superseded", self._between(b), "rescheduled", next=b)
        self.fault("missing", records)

    def unsettled_successor(self, b: Ints) -> None:
        records = self.append(b)
        self.end(records, "superseded", np.full(len(b), T + 3 * SPAN_MS), "rescheduled", next=b)
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

    # --- helpers

    def _between(self, b: Ints) -> Ints:
        return (self.at_ms[b] + self.due_ms[b]) // 2

    def _carry_on(self, b: Ints, records: Ints, at: Ints, due: Ints, reason: str = "rescheduled") -> Ints:
        self.end(records, "superseded", at, reason, next=b)
        return self.append(b, at, due, records)


class _Written:
    """The story with offsets and ids."""

    def __init__(self, story: _Story, topic: str, shard: int, held_from: int) -> None:
        self.story, self.topic, self.shard, self.held_from = story, topic, shard, held_from
        records = story.records
        self.message, self.due, self.kind = records["message"], records["due"], records["kind"]
        self.occurrence, self.replaces, self.at = records["occurrence"], records["replaces"], records["at"]
        self.order = np.lexsort((np.arange(records.count), self.at))
        self.offset = np.empty(records.count, np.int64)
        self.offset[self.order] = np.arange(records.count)
        first = (self.kind == 0) & (self.replaces == _NONE)
        offsets = np.empty(len(story.due_ms), np.int64)
        offsets[self.message[first]] = self.offset[first]
        parts = (_text(topic), _text(str(shard)), _texts(offsets), _texts(story.due_ms), ".")
        self.ids = pc.binary_join_element_wise(*parts)

    def into(self, folder: Path) -> Truth:
        kept = np.ones(self.story.records.count, bool)
        for records in self.story.unaccepted:
            kept[records] = False
        kept &= self.offset >= self.held_from
        self._write(folder, "accepted", self._accepted(self.order[kept[self.order]]))
        self._write(folder, "done", self._done())
        self._write(folder, "marks", self._marks())
        rows = int((self.offset[self.story.rows["record"]] >= self.held_from).sum())
        return Truth(self._faults(), self._unsettled(), _BEHIND_MARKS, int(kept.sum()), rows)

    def _write(self, folder: Path, what: str, columns: dict[str, Any]) -> None:
        (folder / what).mkdir(parents=True, exist_ok=True)
        count = max(len(column) for column in columns.values() if not isinstance(column, pa.Scalar))
        whole = {name: _column(column, count) for name, column in columns.items()}
        pq.write_table(pa.table(whole), folder / what / f"{self.topic}-{self.shard}.parquet")

    def _place(self) -> dict[str, Any]:
        return {"topic": _text(self.topic), "shard": pa.scalar(self.shard, pa.int32())}

    def _id(self, message: Ints, occurrence: Ints, none: Ints) -> pa.Array:
        """`none` masks those that are no messages."""
        ids = self.ids.take(pa.array(np.where(none, 0, message)))
        numbered = pc.binary_join_element_wise(ids, _texts(occurrence), "~")
        chosen = pc.if_else(pa.array(occurrence >= 0), numbered, ids)
        return pc.if_else(pa.array(none), pa.scalar(None, pa.string()), chosen)

    def _accepted(self, of: Ints) -> dict[str, Any]:
        instruction, replaces = self.kind[of] != 0, self.replaces[of]
        linked = replaces == _NONE
        return {
            **self._place(),
            "offset": self.offset[of],
            "kind": _coded(self.kind[of], KINDS),
            "id": self._id(self.message[of], self.occurrence[of], instruction),
            "due_ms": pa.array(self.due[of], mask=instruction),
            "accepted_ms": self._accepted_ms(of),
            "appended_ms": self.at[of],
            "replaces_due_ms": pa.array(self.due[replaces], mask=linked),
            "replaces_offset": pa.array(self.offset[replaces], mask=linked),
            "rules": pa.scalar(None, pa.string()),
        }

    def _accepted_ms(self, of: Ints) -> Ints:
        """Of the first acceptance."""
        return np.where(self.kind[of] == 0, self.story.at_ms[self.message[of]], self.at[of])

    def _done(self) -> dict[str, Any]:
        rows = self.story.rows
        order = np.argsort(rows["done"], kind="stable")
        record, done, due = (rows[name][order] for name in ("record", "done", "due"))
        occurrence, after = (rows[name][order] for name in ("occurrence", "next"))
        instruction = self.kind[record] != 0
        named = np.where(occurrence == _NONE, self.occurrence[record], occurrence)
        commit = np.arange(rows.count) // ROWS_PER_AUDIT_RECORD
        return {
            **self._place(),
            "offset": self.offset[record],
            "id": self._id(self.message[record], named, instruction),
            "due_ms": pa.array(np.where(due == _NONE, self.due[record], due), mask=instruction),
            "accepted_ms": self._accepted_ms(record),
            "done_ms": done,
            "outcome": _coded(rows["outcome"][order], OUTCOMES),
            "successor": self._id(after, rows["next_occurrence"][order], after == _NONE),
            "reason": _coded(rows["reason"][order], REASONS),
            "epoch": pa.scalar(1, pa.int32()),
            "audit_partition": pa.scalar(0, pa.int32()),
            "audit_offset": np.where(done >= T + 3 * SPAN_MS, _BEHIND_MARKS, commit),
        }

    def _marks(self) -> dict[str, Any]:
        """The last one but one, and the last one."""
        return {
            **self._place(),
            "at_ms": np.array([T + 2 * SPAN_MS, T + 4 * SPAN_MS]),
            "next": np.full(2, self.story.records.count),
            "low_ms": np.array([T + 2 * SPAN_MS, T + 4 * SPAN_MS]),
            "pending": np.zeros(2, np.int64),
            "audit_partition": pa.scalar(0, pa.int32()),
            "audit_offset": np.array([_BEHIND_MARKS, _BEHIND_MARKS + 2]),
        }

    def _faults(self) -> list[Fault]:
        found = []
        for category, records, occurrence in self.story.faults:
            held = self.offset[records] >= self.held_from
            records, occurrence = records[held], occurrence[held]
            named = np.where(occurrence == _NONE, self.occurrence[records], occurrence)
            ids = self._id(self.message[records], named, self.kind[records] != 0).to_pylist()
            places = zip(self.offset[records].tolist(), ids, strict=True)
            found += [Fault(category, self.topic, self.shard, offset, name) for offset, name in places]
        return found

    def _unsettled(self) -> set[tuple[str, int]]:
        records = np.concatenate([*self.story.unsettled, np.empty(0, np.int64)])
        due = self.due[records[self.offset[records] >= self.held_from]]
        return {(self.topic, window_ms) for window_ms in (due - due % 300_000).tolist()}


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.string())


def _texts(numbers: Ints) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _coded(codes: Ints, names: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=codes < 0), list(names))


def _column(column: Any, count: int) -> pa.Array:
    return pa.repeat(column, count) if isinstance(column, pa.Scalar) else pa.array(column)
