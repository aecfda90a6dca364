"""What the log asks for, decided once more by the checker: operations, names, calendars, pause and purge.

A commit decides the records that its O passes, in the order of the log, on what was pending before it. The checker
does the same by its own reckoning; every outcome row that a decision gives must be the one that it expects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.simulation.checker.known import Closed, Known
from tests.simulation.checker.repeats import Next, leave_out
from tests.simulation.history import CONTROL, OPERATION, Appended, Committed, Copy, Name, NamesAnswered, Terms

_BY_DECISION = ("rescheduled", "replaced", "scheduled")
"""Reasons for which a decision supersedes a record; the others are what happens to what is taken, and rolls."""


class Row(NamedTuple):
    """The part of an outcome row that a decision gives."""

    outcome: str
    reason: str | None
    successor: str | None = None


@dataclass
class Expected:
    """What a commit has to contain. `ended` are ids of messages that end for good, `going_on` those that are
    moved."""

    paused: bool = False
    rows: dict[int, Row] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    going_on: dict[str, Next] = field(default_factory=dict)
    named: dict[Name, str] = field(default_factory=dict)
    closed: dict[Name, Closed] = field(default_factory=dict)  # by key
    purges: bool = False
    copies: list[Copy] = field(default_factory=list)

    def end(self, record: Appended, outcome: str, reason: str, successor: str | None = None) -> None:
        """For good."""
        self.rows[record.offset] = Row(outcome, reason, successor)
        self.ended.add(record.id or "")
        if record.terms.idempotency is not None and outcome != "duplicate":
            key, digest = record.terms.idempotency
            self.closed["key", key] = Closed(record.id or "", digest, None)

    def keep(self, record: Appended, undo: str | None, terms: Terms) -> None:
        """A copy for the undo, if there is one: without its key, and without the wish to replace others."""
        if undo is not None:
            kept = terms._replace(idempotency=None, replaces=False)
            self.copies.append(Copy(record.id or "", undo, record.due_ms or 0, record.payload, kept))

    def move(self, record: Appended, reason: str, due_ms: int) -> None:
        self.rows[record.offset] = Row("superseded", reason, record.name)
        self.going_on[record.id or ""] = Next(due_ms, record.terms)


class AskedRules(Known):
    """See the module docstring."""

    def decide(self, fact: Committed) -> Expected:
        """What the records decide that this commit passes."""
        assert fact.before is not None
        assert fact.after is not None
        expected = Expected(fact.before.paused)
        rows = {row["off"]: row for row in fact.rows or ()}
        turn = sorted(offset for offset in self.waiting if offset < fact.after.next_offset)
        for offset in [*turn, *self._at_the_edge(fact, rows)]:
            asked = self.facts[offset]
            if asked.kind == OPERATION:
                self._operate(asked, expected)
            elif asked.kind == CONTROL:
                self._control(asked, expected)
            elif offset in self.pending:
                self._claim(asked, expected, rows, fact.after.epoch)
        self.waiting.difference_update(turn)
        self._purge_in_part(rows, expected)
        return expected

    def _at_the_edge(self, fact: Committed, rows: Mapping[int, dict[str, Any]]) -> list[int]:
        """A claim may be decided where O stands before it: it is late, and holds O itself. Only that it replaces
        somebody shows."""
        assert fact.after is not None
        claimant = self.facts.get(fact.after.next_offset)
        if claimant is None or not claimant.is_conditional or claimant.offset not in self.pending:
            return []
        replaced = any(row.get("rsn") == "replaced" and row["suc"] == claimant.id for row in rows.values())
        return [claimant.offset] if replaced and self.pending[claimant.offset] <= fact.after.delivered_key else []

    # --- operations

    def _operate(self, asked: Appended, expected: Expected) -> None:
        target = self._target(asked, expected)
        if target is not None and target.id in expected.going_on:
            self.complain("operation", f"{asked.offset} was decided in a commit that moves {target.id}")
        if target is None or target.is_dead:
            expected.rows[asked.offset] = Row("unmatched", "not-pending")
        elif asked.if_version not in (None, target.version):
            expected.rows[asked.offset] = Row("unmatched", "version-mismatch")
        elif asked.due_ms is not None:
            expected.move(target, "rescheduled", asked.due_ms)
            expected.rows[asked.offset] = Row("applied", "rescheduled")
        else:
            expected.rows[asked.offset] = Row("applied", "cancelled")
            self._cancel(target, expected, asked.undo, alone="~" in (asked.target or ""))

    def _cancel(self, target: Appended, expected: Expected, undo: str | None, *, alone: bool) -> None:
        """The message, or one occurrence; then the series goes on without it, unless it was the last one."""
        after = leave_out(target.terms, target.due_ms or 0) if alone else None
        if after is None:
            expected.keep(target, undo, target.terms)
            expected.end(target, "cancelled", "cancelled")
            return
        deadlines = Terms(expire_at_ms=target.terms.expire_at_ms, ttl_ms=target.terms.ttl_ms)
        expected.keep(target, undo, deadlines)
        expected.rows[target.offset] = Row("cancelled", "cancelled", f"{target.id}~{after.terms.occurrence}")
        expected.going_on[target.id or ""] = after
        self.count(target, counts=False)

    def _target(self, asked: Appended, expected: Expected) -> Appended | None:
        """By its own id, its message id, or the name of the occurrence that waits."""
        called = asked.target or ""
        message_id, _, occurrence = called.partition("~")
        holder = self._holder(("own id", called), expected)
        found = self.carrier(holder or message_id)
        if found is None or found.id in expected.ended or self.first[found.id or ""] > asked.offset:
            return None
        return found if not occurrence or found.name == called else None

    # --- names and calendars

    def _holder(self, name: Name, expected: Expected) -> str | None:
        holder = expected.named.get(name) or self.holders.get(name)
        return None if holder in expected.ended else holder

    def _claim(self, claimant: Appended, expected: Expected, rows: Mapping[int, dict[str, Any]], epoch: int) -> None:
        terms = claimant.terms
        holders = {self._holder(name, expected) for name in terms.names} - {claimant.id}
        if holders & expected.going_on.keys():
            self.complain("name", f"{claimant.id} was decided in a commit that moves whoever has its name")
        if self._is_repetition(claimant, expected, rows.get(claimant.offset), epoch):
            return
        holder = self._holder(("own id", terms.own_id), expected) if terms.own_id is not None else None
        waiting = self.carrier(holder) if holder not in (None, claimant.id) and holder is not None else None
        if waiting is not None and not terms.replaces:
            expected.end(claimant, "duplicate", "own-id", holder)
            return
        if waiting is not None:
            expected.end(waiting, "superseded", "replaced", claimant.id)
        expected.named.update(dict.fromkeys(terms.names, claimant.id or ""))
        if terms.calendar_ms is not None:
            expected.move(claimant, "scheduled", claimant.due_ms or 0)

    def _is_repetition(
        self, claimant: Appended, expected: Expected, row: Mapping[str, Any] | None, epoch: int
    ) -> bool:
        """What has ended is known to the owner who saw it end, and to no other."""
        if claimant.terms.idempotency is None:
            return False
        key, digest = claimant.terms.idempotency
        name = ("key", key)
        holder, ended = self._holder(name, expected), expected.closed.get(name) or self.remembered.get(name)
        first = None if holder in (None, claimant.id) else self.carrier(holder or "")
        if first is not None and first.terms.idempotency is not None:
            known = first.id or "", first.terms.idempotency[1]
        elif ended is not None and ended.epoch in (epoch, None):
            known = ended.id, ended.digest
        else:
            return False
        reason = "idempotency" if known[1] == digest else "idempotency-reused"
        expected.end(claimant, "duplicate", reason, known[0])
        return True

    # --- controls

    def _control(self, asked: Appended, expected: Expected) -> None:
        expected.rows[asked.offset] = Row("applied", f"{asked.control}d")
        if asked.control != "purge":
            expected.paused = asked.control == "pause"
            return
        expected.purges = True
        if expected.going_on:
            self.complain(
                "control", f"purge {asked.offset} was decided in a commit that moves {list(expected.going_on)}"
            )
        for record in [self.facts[offset] for offset in self.pending]:
            if self._is_purged(record, asked, expected):
                expected.keep(record, asked.undo, record.terms)
                expected.end(record, "cancelled", "purged")

    def _is_purged(self, record: Appended, purge: Appended, expected: Expected) -> bool:
        before = self.first[record.id or ""] < purge.offset
        return before and not record.is_dead and record.id not in expected.ended

    def _purge_in_part(self, rows: Mapping[int, dict[str, Any]], expected: Expected) -> None:
        """A purge that is next in turn may end some messages in one commit and some in another."""
        begun = [offset for offset, row in rows.items() if row.get("rsn") == "purged" and offset not in expected.rows]
        begun = [offset for offset in begun if self.kind_of(offset) not in (None, CONTROL, OPERATION)]
        if not begun:
            return
        purge = self.facts.get(min(self.waiting, default=-1))
        if purge is None or purge.control != "purge" or expected.going_on:
            self.complain("control", f"records {begun} were purged, but it is no purge's turn")
            return
        expected.purges = True
        for offset in begun:
            record = self.facts[offset]
            if offset in self.pending and self._is_purged(record, purge, expected):
                expected.keep(record, purge.undo, record.terms)
                expected.end(record, "cancelled", "purged")

    # --- what the commit contains

    def compare_decisions(self, fact: Committed, expected: Expected) -> None:
        """Each row that a decision gives is expected, and nothing that is expected is missing."""
        assert fact.after is not None
        by_offset = {row["off"]: Row(row["out"], row.get("rsn"), row["suc"]) for row in fact.rows or ()}
        for offset, row in by_offset.items():
            if self._is_decided(offset, row) and row != expected.rows.get(offset):
                self._complain_of_other(offset, f"{row}, and not {expected.rows.get(offset)}")
        for offset in expected.rows.keys() - by_offset.keys():
            self._complain_of_other(offset, f"nothing, and not {expected.rows[offset]}")
        if sorted(fact.copies, key=repr) != sorted(expected.copies, key=repr):
            self.complain("copy", f"kept for an undo are {fact.copies}, and not {expected.copies}")
        if fact.after.paused != expected.paused:
            self.complain("control", f"the cursor has paused = {fact.after.paused}, the log {expected.paused}")

    def _is_decided(self, offset: int, row: Row) -> bool:
        if self.kind_of(offset) in (OPERATION, CONTROL) or row.outcome in ("cancelled", "duplicate"):
            return True
        return row.outcome == "superseded" and row.reason in _BY_DECISION

    def _complain_of_other(self, offset: int, text: str) -> None:
        fact = self.facts.get(offset)
        kind = fact.kind if fact else None
        rule = (
            kind if fact and kind in (OPERATION, CONTROL) else "name" if fact and fact.is_conditional else "operation"
        )
        self.complain(
            rule or "operation", f"what became of record {offset} ({fact.name if fact else None}) is {text}"
        )

    def check_holds(self, expected: Expected, taken: list[int]) -> None:
        """While it is paused, and while it is purged, nothing is delivered, buried or expires. Only what could not be
        read may be buried, where operations wait behind it."""
        taken = [offset for offset in taken if not (expected.paused and self.facts[offset].is_dead)]
        if taken and (expected.paused or expected.purges):
            self.complain("control", f"records {taken} were taken while the shard was paused or purged")

    def compare_answer(self, found: NamesAnswered) -> None:
        """A name is known from the commit that gives it to a message to the one that ends the message, whatever
        record carries it, and to every owner that has caught up. An owner that has not heard that its commit was
        applied may answer as before. A claim that is late and holds O itself may be decided in one commit, or by
        the next owner once more, and no cursor shows which."""
        at_the_edge = self.at_the_edge()
        for name, holder in found.holders.items():
            wanted = {self.holders.get(name)}
            if found.unheard:
                wanted |= {self.held_before.get(name), self.edge_before.get(name)}
            if name in at_the_edge:
                wanted |= {at_the_edge[name], None}
            if holder not in wanted:
                self.complain(
                    "name", f"asked who has the {name}, the owner answers {holder}, and not {self.holders.get(name)}"
                )

    def at_the_edge(self) -> dict[Name, str]:
        """The names that the record at O asks for, where it is a late claim."""
        claimant = None if self.cursor is None else self.facts.get(self.cursor.next_offset)
        if (
            self.cursor is None
            or claimant is None
            or not claimant.is_conditional
            or claimant.offset not in self.pending
        ):
            return {}
        is_late = self.pending[claimant.offset] <= self.cursor.delivered_key
        return dict.fromkeys(claimant.terms.names, claimant.id or "") if is_late else {}

    def check_names(self) -> None:
        """At most one pending message has a name; those whose turn has not come have none."""
        seen: dict[Name, int] = {}
        for offset in self.pending:
            for name in self.facts[offset].terms.names if offset not in self.waiting else ():
                if name in seen:
                    self.complain("name", f"records {seen[name]} and {offset} are both pending and have the {name}")
                seen[name] = offset

    def count(self, record: Appended, *, counts: bool) -> None:
        """An occurrence is over: one comes after the other, each once, and no more than were asked for."""
        message_id = record.id or ""
        passed = self.fired.setdefault(message_id, [])
        passed.append(record.terms.occurrence)
        first = self.facts[self.first[message_id]].terms.occurrence  # of one that came back, a later one
        gapless = list(range(first, first + len(passed)))
        if passed != (gapless if self.knows_rows else sorted(set(passed))):
            self.complain("series", f"{record.name} came after the occurrences {passed[:-1]}")
        self.counted[message_id] = self.counted.get(message_id, 0) + counts
        times = self.facts[self.first[message_id]].terms.times_left
        if times is not None and self.counted[message_id] > times:
            self.complain("series", f"{message_id} came {self.counted[message_id]} times instead of {times}")
