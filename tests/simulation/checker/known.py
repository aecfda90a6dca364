"""What the judge knows about one shard."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.simulation.checker.repeats import Next
from tests.simulation.history import Appended, Committed, Cursor, Key, Name

NOTHING_DELIVERED = (-1, -1)


class Violation(NamedTuple):
    """A broken promise; `at` is the index of the fact that showed it."""

    rule: str
    shard: str
    at: int
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text} [{self.shard}, fact {self.at}]"


class Closed(NamedTuple):
    """A message that had an idempotency key and has ended."""

    id: str
    digest: str
    epoch: int | None  # of its owner then; None: in this very commit


class Known:
    """Only outcome rows show what is cancelled and what expired: without them, whatever a client has cancelled may
    be so, everything where there is a limit, and what asks for more than a time."""

    def __init__(self, shard: str, violations: list[Violation], knows_rows: bool) -> None:
        self.shard = shard
        self.knows_rows = knows_rows
        self.at = 0
        self.violations = violations
        self.facts: dict[int, Appended] = {}
        self.pending: dict[int, Key] = {}  # offset -> key
        self.endings: dict[int, str] = {}  # offset -> outcome, by what was seen in the topics
        self.rows: dict[int, dict[str, Any]] | None = None
        self.successors: dict[int, str | None] = {}  # offset -> the message that its row must name
        self.carriers: dict[str, int] = {}  # message id -> offset of the newest record that carries it
        self.first: dict[str, int] = {}  # message id -> offset of the first one
        self.named: set[int] = set()
        self.rules: list[tuple[int, int]] = []  # (offset, number)
        self.cursor: Cursor | None = None
        self.mark: tuple[int, int, int] | None = None  # the last one: next offset, due time, pending
        self.late_max_ms: int | None = None
        self.purged_below = 0  # what was accepted before a client's purge; without rows only
        self.requests: dict[str, list[int | None]] = {}  # message id -> what was ever asked for, as `due_ms`
        self.waiting: set[int] = set()  # operations, controls and claims that O has not passed
        self.holders: dict[Name, str] = {}  # name -> id of the pending message that has it
        self.held_before: dict[Name, str] = {}  # the latest commit
        self.edge_before: dict[Name, str] = {}
        self.remembered: dict[Name, Closed] = {}
        self.going_on: dict[str, Next] = {}  # message id -> the record that this commit must carry it on in
        self.now_ended: list[int] = []  # offsets, in this commit
        self.fired: dict[str, list[int]] = {}  # message id -> occurrences that have been taken or left out
        self.skips_asked: set[tuple[int, int]] = set()
        self.skipped: set[int] = set()  # offsets
        self.counted: dict[str, int] = {}  # message id -> how many of them count for its `times`

    def complain(self, rule: str, text: str) -> None:
        self.violations.append(Violation(rule, self.shard, self.at, text))

    def has_rows(self, fact: Committed) -> bool:
        """Whether the history has all there is to know about this commit, and it is not the claim of an owner."""
        if fact.before is None or fact.after is None or fact.rows is None:
            return False
        return fact.before.epoch == fact.after.epoch

    def carrier(self, message_id: str) -> Appended | None:
        """The record that carries this message and waits."""
        offset = self.carriers.get(message_id)
        return None if offset is None or offset not in self.pending else self.facts[offset]

    def end_record(self, offset: int, outcome: str) -> None:
        before = self.endings.get(offset)
        if before is not None:
            self.complain("duplicate", f"record {offset} ends as {outcome}, but it was {before}")
        self.endings[offset] = outcome
        self.now_ended.append(offset)
        self.pending.pop(offset, None)

    def set_free(self, ended: Iterable[int], epoch: int) -> None:
        """Names of messages that have ended for good. Their keys are known for as long as their owner lives."""
        for offset in ended:
            fact = self.facts[offset]
            if fact.id is None or self.carriers.get(fact.id) != offset:
                continue  # another record carries it on
            for name in fact.terms.names:
                if self.holders.get(name) != fact.id:
                    continue
                del self.holders[name]
                if name[0] == "key" and fact.terms.idempotency is not None:
                    self.remembered[name] = Closed(fact.id, fact.terms.idempotency[1], epoch)

    def kind_of(self, offset: int) -> str | None:
        fact = self.facts.get(offset)
        return fact.kind if fact else None
