"""The judge: decides from a history alone whether the service kept its promises. Imports nothing of the service.

    lost        an accepted message that ended in nothing          duplicate   a message that ended twice
    late        delivered, or expired, otherwise than its limit allows
    early       delivered before its time by the broker's clock order       a record passed over for a later key
    payload     another body, due time or identity than was sent   outcome     not exactly one outcome row per record
    sentence    a record is terminal other than by the cursor       cursor      O, D, L or the epoch went wrong
    claim       a new owner's claim changed more than the owner    rules       other rules at L than in the log
    low         L above something pending, or above O              trim        the log was cut above a committed L
    reappend    a record carried on as something else              stuck       the service threw, or would not drain
    skip        what was skipped ended twice, or later; a range that was lost, or nobody asked for
    copy        what a cancel or a purge has ended and may be undone was kept as something else, or not, or twice
    operation   a cancel or reschedule whose answer was not true

The promise of order, exactly: a commit delivers ascending keys, and no record is delivered while one with a lower key
*and* a lower offset waits. A record with a lower key but a higher offset may have become readable too late (a late
arrival); whether it did is in the cursor, and `sentence` judges it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.simulation.checker.asked import AskedRules, Expected
from tests.simulation.checker.cursors import CursorRules
from tests.simulation.checker.known import NOTHING_DELIVERED, Violation
from tests.simulation.checker.repeats import Fired, Next, fire
from tests.simulation.checker.skipped import SkipRules
from tests.simulation.history import (
    CONTROL,
    DECISION,
    LATER,
    MESSAGE,
    NO_TERMS,
    OPERATION,
    REAPPEND,
    RULES,
    Appended,
    Committed,
    Dead,
    Delivered,
    Ended,
    Fact,
    Failed,
    Key,
    Limited,
    Moved,
    NamesAnswered,
    SkipAsked,
    Trimmed,
)

VIOLATIONS_MAX = 20
_CARRIERS = (MESSAGE, REAPPEND)


def check(history: Iterable[Fact]) -> list[Violation]:
    """Every broken promise in the order of its discovery, at most VIOLATIONS_MAX: the first one is the cause."""
    history = list(history)
    knows_rows = any(isinstance(fact, Committed) and fact.rows is not None for fact in history)
    violations: list[Violation] = []
    judges: dict[str, _Judge] = {}
    for at, fact in enumerate(history):
        if isinstance(fact, Ended):
            for judge in judges.values():
                judge.at = at
                judge.end(fact.drained)
            break
        if fact.shard not in judges:
            judges[fact.shard] = _Judge(fact.shard, violations, knows_rows)
        judge = judges[fact.shard]
        judge.at = at
        judge.hear(fact)
        if len(violations) >= VIOLATIONS_MAX:
            break
    return violations[:VIOLATIONS_MAX]


class _Judge(CursorRules, AskedRules, SkipRules):
    """One shard, and every rule as a method."""

    def hear(self, fact: Fact) -> None:
        match fact:
            case Appended():
                self.append(fact)
            case Committed():
                self.commit(fact)
            case SkipAsked(first=first, end=end):
                self.skips_asked.add((first, end))
            case NamesAnswered():
                self.compare_answer(fact)
            case Limited(late_max_ms=late_max_ms):
                self.late_max_ms = late_max_ms
            case Moved():
                self.compare_cursors(fact.before, fact.after)
                self.cursor = fact.after
            case Trimmed():
                self.trim(fact.low_offset)
            case Failed():
                self.complain("stuck", fact.text)

    # --- the log

    def append(self, fact: Appended) -> None:
        if fact.offset in self.facts:
            self.complain("reappend", f"offset {fact.offset} was written twice")
        self.facts[fact.offset] = fact
        if fact.kind == MESSAGE:
            self.carry(fact)
            if fact.is_conditional:
                self.waiting.add(fact.offset)
        elif fact.kind == REAPPEND:
            self.carry_on(fact)
        elif fact.kind == DECISION:
            self.name_all(fact)
        elif fact.kind == RULES:
            self.rules.append((fact.offset, fact.rules_number or 0))
        elif fact.kind == OPERATION:
            self.request(fact)
            self.waiting.add(fact.offset)
        elif fact.kind == CONTROL:
            self.command(fact)
            self.waiting.add(fact.offset)
        elif fact.kind != LATER:
            self.complain("reappend", f"the service wrote a record nobody knows: {fact.kind}")

    def request(self, fact: Appended) -> None:
        target = fact.target or ""
        self.requests.setdefault(target, []).append(fact.due_ms)
        if fact.due_ms is None and not self.knows_rows:
            self.pending.pop(self.carriers.get(target, -1), None)

    def command(self, fact: Appended) -> None:
        if fact.control == "purge" and not self.knows_rows:
            self.pending = {offset: key for offset, key in self.pending.items() if self.facts[offset].is_dead}
            self.purged_below = fact.offset

    def carry(self, fact: Appended) -> None:
        if fact.due_ms is None or fact.id is None:
            self.complain("reappend", f"record {fact.offset} carries a message without id or due time")
            return
        may_vanish = self.late_max_ms is not None or None in self.requests.get(fact.id, ()) or fact.terms != NO_TERMS
        may_vanish = may_vanish or self.first.get(fact.id, fact.offset) < self.purged_below
        if self.knows_rows or not may_vanish:
            self.pending[fact.offset] = (fact.due_ms, fact.offset)
        self.carriers[fact.id] = fact.offset
        self.first.setdefault(fact.id, fact.offset)

    def carry_on(self, fact: Appended) -> None:
        """A re-append must be the record that it replaces under another offset, and end it."""
        old = self.carriers.get(fact.id or "")
        self.carry(fact)
        if old is None or fact.replaces is None:
            self.complain(
                "reappend", f"record {fact.offset} names no message that is known: {fact.id} {fact.replaces}"
            )
            return
        origin = self.facts[old]
        if fact.replaces != (origin.due_ms, old):
            self.complain(
                "reappend", f"record {fact.offset} replaces {fact.replaces}, but {fact.id} is in record {old}"
            )
        if _identity(fact) != _identity(origin) or fact.version != origin.version + 1:
            self.complain("payload", f"record {fact.offset} carries on record {old} as something else")
        self.compare_next(fact, origin)
        self.facts[fact.offset] = fact._replace(undeliverable=origin.undeliverable, refused=origin.refused)
        if old not in self.now_ended or not origin.terms.repeats:
            self.end_record(old, "superseded")
            self.successors[old] = origin.name
        self.named.add(old)

    def compare_next(self, fact: Appended, origin: Appended) -> None:
        """What goes on does so when and as it must; else it has been rolled, and nothing changes."""
        recorded = Next(fact.due_ms or 0, fact.terms)
        wanted = self.going_on.pop(fact.id or "", None)
        if not self.knows_rows and (fact.terms != NO_TERMS or fact.due_ms in self.requests.get(fact.id or "", ())):
            return
        if wanted is None:
            wanted = Next(origin.due_ms or 0, origin.terms)
        if recorded != wanted:
            text = f"record {fact.offset} carries on record {origin.offset} as {recorded} instead of {wanted}"
            self.complain("series" if origin.terms.repeats else "reappend", text)

    def name_all(self, fact: Appended) -> None:
        for due_ms, offset in fact.names:
            known = self.facts.get(offset)
            if known is None or known.due_ms != due_ms:
                self.complain(
                    "sentence", f"decision {fact.offset} names ({due_ms}, {offset}), which is no record's key"
                )
            self.named.add(offset)

    # --- a commit

    def commit(self, fact: Committed) -> None:
        if fact.after is not None and self.compare_cursors(fact.before, fact.after):
            self.check_claim_is_bare(fact, fact.after)
        if (found := self.skipped_by(fact)) is not None:
            self.skip(fact, found)
            return
        self.check_not_skipped(fact)
        self.now_ended = []
        self.held_before, self.edge_before = dict(self.holders), self.at_the_edge()
        expected = self.decide(fact) if self.has_rows(fact) else Expected()
        self.going_on = expected.going_on
        delivered = [key for each in fact.deliveries if (key := self.deliver(each, fact)) is not None]
        taken = [*delivered, *(key for each in fact.dead if (key := self.bury(each, fact)) is not None)]
        taken += self.expire(fact)
        decided = self.end_decided(fact)
        for appended in fact.appended:
            self.append(appended)
        self.check_order(delivered)
        self.file_rows(fact, self.now_ended)
        if fact.after is not None:
            self.check_cursor(fact.after, taken, self.now_ended)
        self.check_low_water(fact.low_water)
        self.check_decisions(fact, expected, decided, taken)
        self.cursor = fact.after or self.cursor

    def check_decisions(
        self, fact: Committed, expected: Expected, decided: Sequence[int], taken: Sequence[Key]
    ) -> None:
        for offset in decided:
            if offset not in self.named:
                self.complain("sentence", f"record {offset} was ended by a decision and is not named")
        if not self.has_rows(fact) or fact.after is None:
            return
        self.compare_decisions(fact, expected)
        self.check_holds(expected, [offset for _, offset in taken])
        self.holders.update(expected.named)
        self.set_free(self.now_ended, fact.after.epoch)
        self.check_names()
        for message_id, after in self.going_on.items():
            self.complain("series", f"{message_id} goes on as {after}, but nothing carries it on")

    def deliver(self, delivered: Delivered, fact: Committed) -> Key | None:
        offset = self.carriers.get(delivered.id.partition("~")[0])
        if offset is None:
            self.complain("duplicate", f"{delivered.id} was delivered, but nobody sent it")
            return None
        sent = self.facts[offset]
        if delivered.id != sent.name:
            self.complain("series", f"{delivered.id} was delivered, but {sent.name} waited")
        if sent.undeliverable:
            self.complain("payload", f"{delivered.id} was delivered, but belongs among the dead letters")
        fired = self.take(sent, fact, "delivered")
        tick_ms = delivered.due_ms if fired is None and sent.terms.repeats else sent.due_ms
        wanted, came = _arrived_as(sent, delivered, fired.tick_ms if fired else tick_ms), _arrived(delivered)
        if came != wanted:
            self.complain("payload", f"{delivered.id} was sent as {wanted}, came as {came}")
        if fact.clock_ms is not None and delivered.due_ms > fact.clock_ms:
            self.complain("early", f"{delivered.id} due {delivered.due_ms} was delivered at {fact.clock_ms}")
        return sent.due_ms or 0, offset

    def bury(self, dead: Dead, fact: Committed) -> Key | None:
        offset = self.carriers.get(dead.id.partition("~")[0])
        if offset is None:
            self.complain("duplicate", f"dead letter {dead.id} was never sent")
            return None
        sent = self.facts[offset]
        if not sent.undeliverable:
            self.complain("lost", f"{dead.id} became a dead letter, but it can be delivered")
        truth = (sent.name, offset, sent.due_ms, sent.payload)
        letter = (dead.id, dead.offset, dead.due_ms, dead.payload)
        if any(claim not in (None, fact) for claim, fact in zip(letter, truth, strict=True)):
            self.complain("payload", f"dead letter {dead.id} has {letter}, it is {truth}")
        self.take(sent, fact, "dead")
        return sent.due_ms or 0, offset

    def expire(self, fact: Committed) -> list[Key]:
        """Only outcome rows show it."""
        found = []
        for row in fact.rows or ():
            missed = row["out"] == "superseded" and row.get("rsn") == "missed"
            sent = self.facts.get(row["off"])
            if sent is not None and (missed or row["out"] == "expired"):
                self.take(sent, fact, row["out"], row.get("rsn"))
                found.append((sent.due_ms or 0, sent.offset))
        return found

    def take(self, sent: Appended, fact: Committed, outcome: str, reason: str | None = None) -> Fired | None:
        """A record was due, and this became of it. A series goes on, or has come to its end."""
        if fact.after is not None and sent.is_conditional and sent.offset >= fact.after.next_offset:
            self.complain("name", f"{sent.name} ended as {outcome} before its turn to be decided")
        self.end_record(sent.offset, outcome)
        if fact.taken_ms is None:
            return None
        fired = fire(sent, fact.taken_ms, self.late_max_ms)
        self.check_time(sent, fact.taken_ms, (outcome, reason), fired)
        if fired.tick_ms is not None and sent.terms.repeats:
            self.count(sent, counts=True)
        if fired.after is not None:
            self.going_on[sent.id or ""] = fired.after
            self.successors[sent.offset] = f"{sent.id}~{fired.after.terms.occurrence}"
        return fired

    def check_time(self, sent: Appended, taken_ms: int, outcome: tuple[str, str | None], fired: Fired) -> None:
        """Whether it was time for this. What cannot be delivered may be found out before it expires, or after."""
        wanted = fired.outcome, fired.reason
        if outcome in (wanted, (fired.outcome, None)) or (outcome[0] == "dead" and fired.tick_ms is not None):
            return
        reasons = {outcome[1], fired.reason}
        rule = "series" if "missed" in reasons else "deadline" if "deadline" in reasons else "late"
        self.complain(
            rule, f"{sent.name} due {sent.due_ms}, taken at {taken_ms}, ended as {outcome} instead of {wanted}"
        )

    def end_decided(self, fact: Committed) -> list[int]:
        """What a decision ends must be named in the same commit: these offsets."""
        ended = []
        for row in fact.rows or ():
            replaced = row["out"] == "superseded" and row.get("rsn") == "replaced"
            if replaced or row["out"] in ("cancelled", "duplicate"):
                self.end_record(row["off"], row["out"])
                self.successors[row["off"]] = row["suc"]
                ended.append(row["off"])
        return ended

    def check_order(self, delivered: list[Key]) -> None:
        if delivered != sorted(delivered):
            self.complain("order", f"one commit delivers in the order {delivered}")
        top = max(delivered, default=NOTHING_DELIVERED)
        for offset, key in self.pending.items():
            if key > top or offset in self.waiting:
                continue  # most of what is pending: a real run has thousands
            passed = next((other for other in delivered if key < other and offset < other[1]), None)
            if passed and not self.facts[offset].undeliverable:
                self.complain("order", f"{passed} was delivered while {key} waited")

    # --- outcome rows

    def file_rows(self, fact: Committed, ended: list[int]) -> None:
        if fact.rows is None:
            return
        if self.rows is None:
            self.rows = {}
        for row in fact.rows:
            if row["off"] in self.rows:
                self.complain("outcome", f"record {row['off']} has a second outcome row: {row['out']}")
            self.rows[row["off"]] = row
        if fact.after is None:
            return
        offsets = {row["off"] for row in fact.rows if self.kind_of(row["off"]) in _CARRIERS}
        for offset in offsets.symmetric_difference(ended):
            self.complain("outcome", f"record {offset}: its row and its ending are not in the same commit")

    def compare_row(self, row: dict[str, Any]) -> None:
        offset = row["off"]
        fact = self.facts.get(offset)
        if fact is None:
            self.complain("outcome", f"a row for offset {offset}, which holds no record")
        elif fact.kind in (OPERATION, CONTROL):
            self.compare_asked_row(row, fact)
        elif fact.kind in (DECISION, RULES):
            if (row["out"], row["id"], row["due"]) != ("applied", None, None):
                self.complain("outcome", f"record {offset} is a {fact.kind} record, its row is {row}")
        else:
            self.compare_message_row(row, fact)

    def compare_asked_row(self, row: dict[str, Any], fact: Appended) -> None:
        recorded = (row["out"] in ("applied", "unmatched"), row["id"], row["due"], row["acc"], row["suc"])
        if recorded != (True, None, None, fact.at_ms, None):
            self.complain("outcome", f"record {fact.offset} is a {fact.kind} record, its row is {row}")

    def compare_message_row(self, row: dict[str, Any], fact: Appended) -> None:
        if row["out"] != self.endings.get(fact.offset):
            self.complain(
                "outcome", f"record {fact.offset} ended as {self.endings.get(fact.offset)}, its row is {row}"
            )
        if (row["id"], row["due"], row["acc"]) != (fact.name, fact.due_ms, _accepted(fact)):
            self.complain("outcome", f"record {fact.offset} is {fact.name} due {fact.due_ms}, its row is {row}")
        if row["suc"] != self.successors.get(fact.offset):
            self.complain(
                "outcome", f"record {fact.offset}: its successor is {self.successors.get(fact.offset)}, not {row}"
            )

    # --- the end

    def end(self, drained: bool) -> None:
        for row in (self.rows or {}).values():
            self.compare_row(row)
        if not drained:
            return
        if self.cursor is not None:
            self.check_sentence(self.cursor, list(self.endings))
        self.check_last_mark()
        for offset in self.pending:
            self.complain("lost", f"{self.facts[offset].id} (record {offset}) was accepted and came to nothing")
        for message_id, offset in self.carriers.items():
            if self.endings.get(offset) == "superseded" and self.successors.get(offset) == self.facts[offset].name:
                self.complain("lost", f"{message_id} ends in record {offset}, which was superseded by nothing")
        for offset in self.facts.keys() - (self.rows if self.rows is not None else self.facts).keys() - self.skipped:
            self.complain("outcome", f"record {offset} ({self.kind_of(offset)}) has no outcome row")


def _accepted(fact: Appended) -> int:
    return fact.at_ms if fact.accepted_at_ms is None else fact.accepted_at_ms


def _identity(fact: Appended) -> tuple[Any, ...]:
    return fact.id, _accepted(fact), fact.payload


def _arrived(delivered: Delivered) -> tuple[Any, ...]:
    return delivered.due_ms, delivered.accepted_at_ms, delivered.payload


def _arrived_as(sent: Appended, delivered: Delivered, tick_ms: int | None) -> tuple[Any, ...]:
    """What must have arrived, as far as the reader of the target topic could see it."""
    accepted = None if delivered.accepted_at_ms is None else _accepted(sent)
    payload = None if delivered.payload is None else sent.payload
    return tick_ms, accepted, payload
