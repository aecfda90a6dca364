"""Seeded buffers and audits with everything in them that can go right or wrong, and what is to be found there.

`generate` makes one shard: a million messages take about two seconds. What happens in it is in `stories` and
`faults`; offsets are given out at the end, by the time of the append.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.reconcile.faults import FAULTS, Faults
from tests.reconcile.stories import (
    ASKS,
    KINDS,
    NONE,
    OUTCOMES,
    OWN_ID,
    REASONS,
    SPAN_MS,
    USUAL,
    Ints,
    T,
)

ROWS_PER_AUDIT_RECORD = 1000
BEHIND_MARKS = 1 << 40
"""Audit offset of the rows that stand behind the last mark but one."""
NO_SHARD = 1000
BEHIND_THE_END = 1 << 40


class Fault(NamedTuple):
    """What is to be found."""

    category: str
    topic: str
    shard: int
    offset: int
    id: str | None


class Truth(NamedTuple):
    """Nothing of what was trimmed is to be found, nor counted among `records` and `rows`. Outcome rows below the
    audit offset `settled` are settled; windows with others are `unsettled`. `successors` that were lost: topic,
    shard and offset of the record before, and when they were due."""

    faults: list[Fault]
    unsettled: set[tuple[str, int]]
    successors: set[tuple[str, int, int, int]]
    settled: int
    records: int
    rows: int


def generate(
    folder: Path, topic: str, shard: int, messages: int, *, faults: int, seed: int, trimmed: int = 0
) -> Truth:
    """Write `accepted`, `done` and `marks` of one shard below the folder; `faults` of each of `FAULTS`."""
    story = Faults(messages, np.random.default_rng([seed, shard]))
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


class _Written:
    """The story with offsets and ids."""

    def __init__(self, story: Faults, topic: str, shard: int, held_from: int) -> None:
        self.story, self.topic, self.shard, self.held_from = story, topic, shard, held_from
        records = story.records
        self.message, self.due, self.kind = records["message"], records["due"], records["kind"]
        self.occurrence, self.replaces, self.at = records["occurrence"], records["replaces"], records["at"]
        self.order = np.lexsort((np.arange(records.count), self.at))
        self.offset = np.empty(records.count, np.int64)
        self.offset[self.order] = np.arange(records.count)
        first = (self.kind == 0) & (self.replaces == NONE)
        offsets = np.empty(len(story.due_ms), np.int64)
        offsets[self.message[first]] = self.offset[first]
        parts = (_text(topic), _text(str(shard)), _texts(offsets), _texts(story.due_ms), ".")
        self.ids = pc.binary_join_element_wise(*parts)

    def into(self, folder: Path) -> Truth:
        kept = np.ones(self.story.records.count, bool)
        for records in self.story.unaccepted:
            kept[records] = False
        kept &= self.offset >= self.held_from
        self.end = int(self.offset[kept].max()) + 1
        self._write(folder, "accepted", self._accepted(self.order[kept[self.order]]))
        self._write(folder, "done", self._done())
        self._write(folder, "marks", self._marks())
        is_held = self.offset[self.story.rows["record"]] >= self.held_from
        rows = int((is_held | (self.story.rows["away"] != NONE)).sum())
        return Truth(self._faults(), self._unsettled(), self._successors(), BEHIND_MARKS, int(kept.sum()), rows)

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
        linked = replaces == NONE
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
            "asks": _coded(self.story.records["asks"][of], ASKS),
            "ref": self._refs(of),
            "moves_to_ms": pa.array(
                self.story.records["moves_to"][of], mask=self.story.records["moves_to"][of] == NONE
            ),
            "expires_ms": pa.array(self.story.records["expires"][of], mask=self.story.records["expires"][of] == NONE),
            "digest": pa.scalar(None, pa.int64()),
        }

    def _refs(self, of: Ints) -> pa.Array:
        """Whom operations name."""
        ref, occurrence = (self.story.records[name][of] for name in ("ref", "ref_occurrence"))
        named = self._id(ref, occurrence, ref < 0)
        return pc.if_else(pa.array(ref == OWN_ID), pa.scalar("=order-7"), named)

    def _accepted_ms(self, of: Ints) -> Ints:
        """Of the first acceptance."""
        return np.where(self.kind[of] == 0, self.story.at_ms[self.message[of]], self.at[of])

    def _done(self) -> dict[str, Any]:
        rows = self.story.rows
        order = np.argsort(rows["done"], kind="stable")
        record, done, due, away = (rows[name][order] for name in ("record", "done", "due", "away"))
        occurrence, after = (rows[name][order] for name in ("occurrence", "next"))
        instruction = self.kind[record] != 0
        named = np.where(occurrence == NONE, self.occurrence[record], occurrence)
        commit = np.arange(rows.count) // ROWS_PER_AUDIT_RECORD
        successor = self._id(after, rows["next_occurrence"][order], after == NONE)
        return {
            "topic": _coded((away == 0).astype(int), (self.topic, f"no-{self.topic}")),
            "shard": pa.array(np.where(away == 1, NO_SHARD, self.shard), pa.int32()),
            "offset": self.offset[record] + np.where(away == 2, BEHIND_THE_END, 0),
            "id": self._id(self.message[record], named, instruction),
            "due_ms": pa.array(np.where(due == NONE, self.due[record], due), mask=instruction),
            "accepted_ms": self._accepted_ms(record),
            "done_ms": done,
            "outcome": _coded(rows["outcome"][order], OUTCOMES),
            "successor": pc.if_else(pa.array(rows["next_is_nobody"][order] == 1), _later(successor), successor),
            "reason": _coded(rows["reason"][order], REASONS),
            "epoch": pa.scalar(1, pa.int32()),
            "audit_partition": pa.scalar(0, pa.int32()),
            "audit_offset": np.where(done >= T + 3 * SPAN_MS, BEHIND_MARKS, commit),
        }

    def _marks(self) -> dict[str, Any]:
        """The last one but one, and the last one. Something is always pending: else everything is settled."""
        return {
            **self._place(),
            "at_ms": np.array([T + 2 * SPAN_MS, T + 4 * SPAN_MS]),
            "next": np.full(2, self.end),
            "low_ms": np.array([T + 2 * SPAN_MS, T + 4 * SPAN_MS]),
            "pending": np.ones(2, np.int64),
            "audit_partition": pa.scalar(0, pa.int32()),
            "audit_offset": np.array([BEHIND_MARKS, BEHIND_MARKS + 2]),
        }

    def _faults(self) -> list[Fault]:
        found = []
        for category, records, occurrence, away in self.story.faults:
            held = (self.offset[records] >= self.held_from) | (away != NONE)
            records, occurrence = records[held], occurrence[held]
            named = np.where(occurrence == NONE, self.occurrence[records], occurrence)
            ids = self._id(self.message[records], named, self.kind[records] != 0).to_pylist()
            topic = f"no-{self.topic}" if away == 0 else self.topic
            shard = NO_SHARD if away == 1 else self.shard
            offsets = self.offset[records] + (BEHIND_THE_END if away == 2 else 0)
            places = zip(offsets.tolist(), ids, strict=True)
            found += [Fault(category, topic, shard, offset, name) for offset, name in places]
        for category, records in self.story.promises:
            records = records[self.offset[records] >= self.held_from]
            refs = [None if name.startswith("=") else name for name in self._refs(records).to_pylist()]
            places = zip(self.offset[records].tolist(), refs, strict=True)
            found += [Fault(category, self.topic, self.shard, offset, name) for offset, name in places]
        return found

    def _successors(self) -> set[tuple[str, int, int, int]]:
        lost = ((self.offset[records].tolist(), due.tolist()) for records, due in self.story.successors)
        every = (pair for offsets, dues in lost for pair in zip(offsets, dues, strict=True))
        return {(self.topic, self.shard, offset, due) for offset, due in every if offset >= self.held_from}

    def _unsettled(self) -> set[tuple[str, int]]:
        records = np.concatenate([*self.story.unsettled, np.empty(0, np.int64)])
        due = self.due[records[self.offset[records] >= self.held_from]]
        return {(self.topic, window_ms) for window_ms in (due - due % 300_000).tolist()}


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.string())


def _texts(numbers: Ints) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _later(ids: pa.Array) -> pa.Array:
    """Ids of messages that there are not."""
    return pc.binary_join_element_wise(ids, "0", "")


def _coded(codes: Ints, names: tuple[str, ...]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=codes < 0), list(names))


def _column(column: Any, count: int) -> pa.Array:
    return pa.repeat(column, count) if isinstance(column, pa.Scalar) else pa.array(column)
