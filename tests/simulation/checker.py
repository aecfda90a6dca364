"""The judge: decides from a history alone whether the service kept its promises. Imports nothing of the service.

    lost        an accepted message that ended in nothing          duplicate   a message that ended twice
    late        delivered, or expired, otherwise than its limit says
    early       delivered before the broker's clock said so        order       a record passed over for a later key
    payload     another body, due time or identity than was sent   outcome     not exactly one outcome row per record
    sentence    a record is terminal other than the cursor says    cursor      O, D, L or the epoch went wrong
    claim       a new owner's claim changed more than the owner    rules       other rules at L than the log says
    low         L above something pending, or above O              trim        the log was cut above a committed L
    reappend    a record carried on as something else              stuck       the service threw, or would not drain
    operation   a cancel or reschedule whose answer was not true

The promise of order, exactly: a commit delivers ascending keys, and no record is delivered while one with a lower key
*and* a lower offset waits. A record with a lower key but a higher offset may have become readable too late (a late
arrival); whether it did is what the cursor tells, and `sentence` judges it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tests.simulation.history import (
    DECISION,
    MESSAGE,
    OPERATION,
    REAPPEND,
    RULES,
    Appended,
    Committed,
    Cursor,
    Dead,
    Delivered,
    Ended,
    Fact,
    Failed,
    Key,
    Limited,
    Moved,
    Trimmed,
)

NOTHING_DELIVERED = (-1, -1)
VIOLATIONS_MAX = 20
_CARRIERS = (MESSAGE, REAPPEND)


class Violation(NamedTuple):
    """A broken promise; `at` is the index of the fact that showed it."""

    rule: str
    shard: str
    at: int
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text} [{self.shard}, fact {self.at}]"


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


class _Judge:
    """What is known about one shard, and every rule as a method."""

    def __init__(self, shard: str, violations: list[Violation], knows_rows: bool) -> None:
        """Only outcome rows tell what is cancelled and what expired: without them, whatever a client has cancelled
        may be so, and everything where there is a limit."""
        self.shard = shard
        self.knows_rows = knows_rows
        self.at = 0
        self.violations = violations
        self.facts: dict[int, Appended] = {}
        self.pending: dict[int, Key] = {}  # offset -> key
        self.endings: dict[int, str] = {}  # offset -> outcome, by what was seen in the topics
        self.rows: dict[int, dict[str, Any]] | None = None
        self.carriers: dict[str, int] = {}  # message id -> offset of the newest record that carries it
        self.first: dict[str, int] = {}  # message id -> offset of the first one
        self.named: set[int] = set()
        self.rules: list[tuple[int, int]] = []  # (offset, number)
        self.cursor: Cursor | None = None
        self.asked: dict[str, int] = {}  # message id -> the due time that this commit's operations say
        self.late_max_ms: int | None = None
        self.requests: dict[str, list[int | None]] = {}  # message id -> what was ever asked for, as `due_ms`

    def hear(self, fact: Fact) -> None:
        match fact:
            case Appended():
                self.append(fact)
            case Committed():
                self.commit(fact)
            case Limited(late_max_ms=late_max_ms):
                self.late_max_ms = late_max_ms
            case Moved():
                self.compare_cursors(fact.before, fact.after)
                self.cursor = fact.after
            case Trimmed():
                self.trim(fact.low_offset)
            case Failed():
                self.say("stuck", fact.text)

    def say(self, rule: str, text: str) -> None:
        self.violations.append(Violation(rule, self.shard, self.at, text))

    # --- the log

    def append(self, fact: Appended) -> None:
        if fact.offset in self.facts:
            self.say("reappend", f"offset {fact.offset} was written twice")
        self.facts[fact.offset] = fact
        if fact.kind == MESSAGE:
            self.carry(fact)
        elif fact.kind == REAPPEND:
            self.carry_on(fact)
        elif fact.kind == DECISION:
            self.name_all(fact)
        elif fact.kind == RULES:
            self.rules.append((fact.offset, fact.rules_number or 0))
        elif fact.kind == OPERATION:
            self.request(fact)
        else:
            self.say("reappend", f"the service wrote a record nobody knows: {fact.kind}")

    def request(self, fact: Appended) -> None:
        target = fact.target or ""
        self.requests.setdefault(target, []).append(fact.due_ms)
        if fact.due_ms is None and not self.knows_rows:
            self.pending.pop(self.carriers.get(target, -1), None)

    def carry(self, fact: Appended) -> None:
        if fact.due_ms is None or fact.id is None:
            self.say("reappend", f"record {fact.offset} carries a message without id or due time")
            return
        may_vanish = self.late_max_ms is not None or None in self.requests.get(fact.id, ())
        if self.knows_rows or not may_vanish:
            self.pending[fact.offset] = (fact.due_ms, fact.offset)
        self.carriers[fact.id] = fact.offset
        self.first.setdefault(fact.id, fact.offset)

    def carry_on(self, fact: Appended) -> None:
        """A re-append must be the record that it replaces under another offset, and end it."""
        old = self.carriers.get(fact.id or "")
        self.carry(fact)
        if old is None or fact.replaces is None:
            self.say("reappend", f"record {fact.offset} names no message that is known: {fact.id} {fact.replaces}")
            return
        origin = self.facts[old]
        if fact.replaces != (origin.due_ms, old):
            self.say("reappend", f"record {fact.offset} replaces {fact.replaces}, but {fact.id} is in record {old}")
        if _identity(fact) != _identity(origin):
            self.say("payload", f"record {fact.offset} carries on record {old} as something else")
        wanted = self.asked.get(fact.id or "", origin.due_ms)
        if fact.due_ms != wanted and (self.knows_rows or fact.due_ms not in self.requests.get(fact.id or "", ())):
            self.say("reappend", f"record {fact.offset} carries on record {old} to {fact.due_ms} instead of {wanted}")
        self.facts[fact.offset] = fact._replace(undeliverable=origin.undeliverable)
        self.end_record(old, "superseded")
        self.named.add(old)

    def name_all(self, fact: Appended) -> None:
        for due_ms, offset in fact.names:
            known = self.facts.get(offset)
            if known is None or known.due_ms != due_ms:
                self.say("sentence", f"decision {fact.offset} names ({due_ms}, {offset}), which is no record's key")
            self.named.add(offset)

    def end_record(self, offset: int, outcome: str) -> None:
        before = self.endings.get(offset)
        if before is not None:
            self.say("duplicate", f"record {offset} ends as {outcome}, but it was {before}")
        self.endings[offset] = outcome
        self.pending.pop(offset, None)

    # --- a commit

    def commit(self, fact: Committed) -> None:
        if fact.after is not None and self.compare_cursors(fact.before, fact.after):
            self.check_claim_is_bare(fact, fact.after)
        count = len(self.endings)
        operations = self.operations_of(fact)
        self.asked = {op.target or "": op.due_ms for op in operations if op.due_ms is not None}
        delivered = [key for each in fact.deliveries if (key := self.deliver(each, fact.clock_ms)) is not None]
        dead = [key for each in fact.dead if (key := self.bury(each)) is not None]
        expired = self.expire(fact)
        self.check_lateness(fact, delivered, expired)
        for appended in fact.appended:
            self.append(appended)
        self.cancel(fact, operations)
        ended = list(self.endings)[count:]
        self.check_order(delivered)
        self.file_rows(fact, ended)
        if fact.after is not None:
            self.check_cursor(fact.after, delivered + dead + expired, ended)
        self.check_low_water(fact.low_water)
        self.check_operations(fact, operations, ended)
        self.cursor = fact.after or self.cursor

    def deliver(self, delivered: Delivered, clock_ms: int | None) -> Key | None:
        offset = self.carriers.get(delivered.id)
        if offset is None:
            self.say("duplicate", f"{delivered.id} was delivered, but nobody sent it")
            return None
        sent = self.facts[offset]
        if sent.undeliverable:
            self.say("payload", f"{delivered.id} was delivered, but belongs among the dead letters")
        wanted, came = _arrived_as(sent, delivered), _arrived(delivered)
        if came != wanted:
            self.say("payload", f"{delivered.id} was sent as {wanted}, came as {came}")
        if clock_ms is not None and delivered.due_ms > clock_ms:
            self.say("early", f"{delivered.id} due {delivered.due_ms} was delivered at {clock_ms}")
        self.end_record(offset, "delivered")
        return delivered.due_ms, offset

    def bury(self, dead: Dead) -> Key | None:
        offset = self.carriers.get(dead.id)
        if offset is None:
            self.say("duplicate", f"dead letter {dead.id} was never sent")
            return None
        sent = self.facts[offset]
        if not sent.undeliverable:
            self.say("lost", f"{dead.id} became a dead letter, but it can be delivered")
        truth = (offset, sent.due_ms, sent.payload)
        said = (dead.offset, dead.due_ms, dead.payload)
        if any(claim not in (None, fact) for claim, fact in zip(said, truth, strict=True)):
            self.say("payload", f"dead letter {dead.id} says {said}, it is {truth}")
        self.end_record(offset, "dead")
        return sent.due_ms or 0, offset

    def expire(self, fact: Committed) -> list[Key]:
        """Only outcome rows tell."""
        expired = [row["off"] for row in fact.rows or () if row["out"] == "expired"]
        for offset in expired:
            self.end_record(offset, "expired")
        return [(self.facts[offset].due_ms or 0, offset) for offset in expired]

    def check_lateness(self, fact: Committed, delivered: list[Key], expired: list[Key]) -> None:
        if fact.taken_ms is None:
            return
        limit_ms = None if self.late_max_ms is None else fact.taken_ms - self.late_max_ms
        for due_ms, offset in delivered:
            if limit_ms is not None and due_ms < limit_ms:
                self.say("late", f"record {offset} due {due_ms} was delivered, taken at {fact.taken_ms}")
        for due_ms, offset in expired:
            if limit_ms is None or due_ms >= limit_ms:
                self.say("late", f"record {offset} due {due_ms} expired, taken at {fact.taken_ms}")

    # --- operations

    def operations_of(self, fact: Committed) -> list[Appended]:
        """Those that this commit says it has applied."""
        rows = fact.rows or ()
        applied = [self.facts.get(row["off"]) for row in rows if row["out"] == "applied"]
        return [found for found in applied if found is not None and found.kind == OPERATION]

    def cancel(self, fact: Committed, operations: Sequence[Appended]) -> None:
        """A cancelled record is named, and an operation has asked for it."""
        asked = {op.target for op in operations if op.due_ms is None}
        for row in fact.rows or ():
            if row["out"] != "cancelled":
                continue
            if row["id"] not in asked:
                self.say("operation", f"{row['id']} was cancelled, but nobody asked for it")
            if row["off"] not in self.named:
                self.say("sentence", f"record {row['off']} was cancelled and is not named")
            self.end_record(row["off"], "cancelled")

    def check_operations(self, fact: Committed, operations: Sequence[Appended], ended: Sequence[int]) -> None:
        """Applied: its message ended in this commit, as it says. Unmatched: there is no such message to end. Either
        way O passes it now."""
        for op in operations:
            outcome = "cancelled" if op.due_ms is None else "superseded"
            ends = [offset for offset in ended if self.facts[offset].id == op.target]
            if [self.endings[offset] for offset in ends] != [outcome]:
                self.say("operation", f"{op.offset} was applied to {op.target}, but nothing ended as {outcome}")
        for row in fact.rows or ():
            asked = self.facts.get(row["off"])
            if asked is not None and asked.kind == OPERATION:
                self.check_passed(fact, asked.offset)
                if row["out"] == "unmatched" and self.could_end(asked):
                    self.say("operation", f"{asked.offset} came too late, but {asked.target} is pending")

    def check_passed(self, fact: Committed, offset: int) -> None:
        before = fact.before.next_offset if fact.before else 0
        if fact.after is not None and not before <= offset < fact.after.next_offset:
            self.say("operation", f"{offset} was decided in a commit that does not pass it")

    def could_end(self, asked: Appended) -> bool:
        """Whether its message, which was accepted before it, waits for delivery now."""
        carrier = self.carriers.get(asked.target or "")
        if carrier is None or carrier not in self.pending or self.first[asked.target or ""] > asked.offset:
            return False
        return not self.facts[carrier].undeliverable

    def check_order(self, delivered: list[Key]) -> None:
        if delivered != sorted(delivered):
            self.say("order", f"one commit delivers in the order {delivered}")
        top = max(delivered, default=NOTHING_DELIVERED)
        for offset, key in self.pending.items():
            if key > top:
                continue  # most of what is pending: a real run has thousands
            passed = next((other for other in delivered if key < other and offset < other[1]), None)
            if passed and not self.facts[offset].undeliverable:
                self.say("order", f"{passed} was delivered while {key} waited")

    # --- outcome rows

    def file_rows(self, fact: Committed, ended: list[int]) -> None:
        if fact.rows is None:
            return
        if self.rows is None:
            self.rows = {}
        for row in fact.rows:
            if row["off"] in self.rows:
                self.say("outcome", f"record {row['off']} has a second outcome row: {row['out']}")
            self.rows[row["off"]] = row
        if fact.after is None:
            return
        said = {row["off"] for row in fact.rows if self.kind_of(row["off"]) in _CARRIERS}
        for offset in said.symmetric_difference(ended):
            self.say("outcome", f"record {offset}: its row and its ending are not in the same commit")

    def kind_of(self, offset: int) -> str | None:
        fact = self.facts.get(offset)
        return fact.kind if fact else None

    def compare_row(self, row: dict[str, Any]) -> None:
        offset = row["off"]
        fact = self.facts.get(offset)
        if fact is None:
            self.say("outcome", f"a row for offset {offset}, which holds no record")
        elif fact.kind == OPERATION:
            self.compare_operation_row(row, fact)
        elif fact.kind in (DECISION, RULES):
            if (row["out"], row["id"], row["due"]) != ("applied", None, None):
                self.say("outcome", f"record {offset} is a {fact.kind} record, its row says {row}")
        else:
            self.compare_message_row(row, fact)

    def compare_operation_row(self, row: dict[str, Any], fact: Appended) -> None:
        said = (row["out"] in ("applied", "unmatched"), row["id"], row["due"], row["acc"], row["suc"])
        if said != (True, None, None, fact.at_ms, None):
            self.say("outcome", f"record {fact.offset} is an operation, its row says {row}")

    def compare_message_row(self, row: dict[str, Any], fact: Appended) -> None:
        if row["out"] != self.endings.get(fact.offset):
            self.say("outcome", f"record {fact.offset} ended as {self.endings.get(fact.offset)}, its row says {row}")
        if (row["id"], row["due"], row["acc"]) != (fact.id, fact.due_ms, _accepted(fact)):
            self.say("outcome", f"record {fact.offset} is {fact.id} due {fact.due_ms}, its row says {row}")
        if (row["suc"] is not None) != (row["out"] == "superseded") or row["suc"] not in (None, fact.id):
            self.say("outcome", f"record {fact.offset}: wrong successor in {row}")

    # --- the cursor

    def compare_cursors(self, before: Cursor | None, after: Cursor) -> bool:
        """Whether this is a claim."""
        if before != self.cursor:
            self.say("cursor", f"was {self.cursor}, then {before} without a commit")
        if before is None or after.epoch != before.epoch:
            self.check_claim(before, after)
            return True
        if after.writer != before.writer:
            self.say("claim", f"the writer changed within an epoch: {before} -> {after}")
        for name in ("next_offset", "delivered_key", "low_offset"):
            if getattr(after, name) < getattr(before, name):
                self.say("cursor", f"{name} went back: {before} -> {after}")
        return False

    def check_claim(self, before: Cursor | None, after: Cursor) -> None:
        start = before or Cursor(0, NOTHING_DELIVERED, 0, 0, None, after.rules_number)
        if after != start._replace(epoch=start.epoch + 1, writer=after.writer):
            self.say("claim", f"not one epoch more and nothing else: {before} -> {after}")

    def check_claim_is_bare(self, fact: Committed, after: Cursor) -> None:
        if fact.deliveries or fact.dead or fact.appended or fact.rows:
            self.say("claim", f"the claim of epoch {after.epoch} carries more than the cursor")

    def check_cursor(self, cursor: Cursor, taken: list[Key], ended: list[int]) -> None:
        delivered_key = max([self.cursor.delivered_key if self.cursor else NOTHING_DELIVERED, *taken])
        if cursor.delivered_key != delivered_key:
            self.say("cursor", f"D is {cursor.delivered_key}, the last key delivered {delivered_key}")
        self.check_sentence(cursor, ended)
        self.check_low(cursor)

    def check_sentence(self, cursor: Cursor, ended: list[int]) -> None:
        """A record is terminal when (offset < O and key <= D), or when it is named. Nothing else ends one."""
        next_offset, delivered_key = cursor.next_offset, cursor.delivered_key
        for offset, key in self.pending.items():
            if offset in self.named or (offset < next_offset and key <= delivered_key):
                self.say("sentence", f"{key} is pending, but terminal by {_place(cursor)} or by name")
        for offset in ended:
            key = (self.facts[offset].due_ms or 0, offset)
            if offset not in self.named and not (offset < next_offset and key <= delivered_key):
                self.say("sentence", f"{key} has ended, but neither {_place(cursor)} nor a name says so")

    def check_low(self, cursor: Cursor) -> None:
        low_offset = cursor.low_offset
        if low_offset > cursor.next_offset:
            self.say("low", f"L is above O: {_place(cursor)}")
        below = [offset for offset in self.pending if offset < low_offset]
        if below:
            self.say("low", f"records {below} are pending below L: {_place(cursor)}")
        in_force = max((number for number in self.rules if number[0] < low_offset), default=(0, 0))[1]
        if cursor.rules_number not in (None, in_force):
            self.say("rules", f"{in_force} are in force at L = {low_offset}, the cursor says {cursor.rules_number}")

    def check_low_water(self, marks: Sequence[tuple[int, int]]) -> None:
        """A reader closes windows of due time on these words: nothing before them may still be pending."""
        for next_offset, low_ms in marks:
            early = [key for offset, key in self.pending.items() if offset < next_offset and key[0] < low_ms]
            if early:
                self.say("low water", f"{early} are pending before the mark ({next_offset}, {low_ms})")

    def trim(self, low_offset: int) -> None:
        if self.cursor is not None and low_offset > self.cursor.low_offset:
            self.say("trim", f"cut below {low_offset}, committed is {_place(self.cursor)}")
        if any(offset < low_offset for offset in self.pending):
            self.say("trim", f"something pending was below {low_offset}")

    # --- the end

    def end(self, drained: bool) -> None:
        for row in (self.rows or {}).values():
            self.compare_row(row)
        if not drained:
            return
        if self.cursor is not None:
            self.check_sentence(self.cursor, list(self.endings))
        for offset in self.pending:
            self.say("lost", f"{self.facts[offset].id} (record {offset}) was accepted and came to nothing")
        for message_id, offset in self.carriers.items():
            if self.endings.get(offset) == "superseded":
                self.say("lost", f"{message_id} ends in record {offset}, which was superseded by nothing")
        for offset in self.facts.keys() - (self.rows if self.rows is not None else self.facts).keys():
            self.say("outcome", f"record {offset} ({self.kind_of(offset)}) has no outcome row")


def _accepted(fact: Appended) -> int:
    return fact.at_ms if fact.accepted_at_ms is None else fact.accepted_at_ms


def _identity(fact: Appended) -> tuple[Any, ...]:
    return fact.id, _accepted(fact), fact.payload


def _arrived(delivered: Delivered) -> tuple[Any, ...]:
    return delivered.due_ms, delivered.accepted_at_ms, delivered.payload


def _arrived_as(sent: Appended, delivered: Delivered) -> tuple[Any, ...]:
    """What must have arrived, as far as the reader of the target topic could see it."""
    accepted = None if delivered.accepted_at_ms is None else _accepted(sent)
    payload = None if delivered.payload is None else sent.payload
    return sent.due_ms, accepted, payload


def _place(cursor: Cursor) -> str:
    return f"O={cursor.next_offset} D={cursor.delivered_key} L={cursor.low_offset}"
