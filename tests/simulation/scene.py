"""What all players of a run share: the broker, who owns what, the record of what became true, and chance."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import msgspec

from delay_service.core import operations
from delay_service.core.shard import Shard as RealShard
from delay_service.core.takeover import Plan, claim, plan
from delayline.buffer.cursor import Cursor
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.contract import LogRecord, ShardBatch
from mq.errors import DeliveryRefused, Fenced
from tests.simulation import facts, habits
from tests.simulation.broker import Broker, Request
from tests.simulation.history import RULES, Committed, Fact, Limited
from tests.simulation.traffic import REFUSED_BY_TARGET, InForce

CLOCK_SHOWN_MS = 100_000_000
RULES_POOL = tuple(
    msgspec.structs.replace(DEFAULT_RULES, levels_ms=levels, default_delay_ms=default_ms)
    for levels, default_ms in (((10, 40, 90), 0), ((30, 5, 200), 60), ((70, 71, 72), 25))
)

APPLIED, ABORTED, LOST, LATE, UNHEARD = "applied", "aborted", "lost", "late", "applied, answer lost"
"""What can become of a commit; after the last three its sender knows nothing."""


class Core(NamedTuple):
    """The code under test: the real one, or a mutant of it."""

    claim: Callable[..., Cursor]
    plan: Callable[..., Plan]
    shard: type[RealShard]
    operations: Any  # the module: a run chooses how much one commit decides


REAL = Core(claim, plan, RealShard, operations)


class Scene:
    """`history` is for the checker, `seen` counts what really occurred, `wire` holds commits nobody waits for."""

    def __init__(self, rnd: Random, answers: Random, core: Core, show: Callable[[str], None] | None) -> None:
        """`answers` decides by itself which commits take effect before their senders hear of it."""
        self.rnd = rnd
        self._answers = answers
        self._unheard = answers.choice((0.0, 0.5, 0.9))
        self.core = core
        self.habits = habits.choose(rnd)
        self.history: list[Fact] = []
        self.seen: Counter[str] = Counter()
        self.shards = [Shard("orders", str(number)) for number in range(2 if rnd.random() < 0.2 else 1)]
        self.owner: dict[Shard, str] = {}
        self.broker = Broker(self.shards, self._applied, _refuses)
        self.wire: list[Request] = []
        self._rules: dict[Shard, list[tuple[int, InForce]]] = {
            shard: [(-1, InForce(DEFAULT_RULES.levels_ms, 0))] for shard in self.shards
        }
        self._show = show
        self.hear_copies: Callable[[ShardBatch], None] = lambda _: None
        if self.habits.late_max_ms is not None:
            self.history += [Limited(name_of(shard), self.habits.late_max_ms) for shard in self.shards]

    def trace(self, text: str, *parts: object) -> None:
        """A line of the trace; formatted only where somebody reads it."""
        if self._show is not None:
            self._show(f"{self.broker.now_ms % CLOCK_SHOWN_MS:>8} {text.format(*map(_shown, parts))}")

    # --- rules

    def rules_at(self, shard: Shard, offset: int) -> InForce:
        """In force for a record at `offset`, by the log."""
        return next(rules for start, rules in reversed(self._rules[shard]) if start < offset)

    def configured_rules(self, shard: Shard) -> Rules:
        """What a worker that starts now has in its settings: the rules in force, or others, because somebody has
        changed them."""
        offset, rules = self._rules[shard][-1]
        if offset < 0 or self.rnd.random() < 0.3:
            return self.rnd.choice(RULES_POOL)
        return msgspec.structs.replace(DEFAULT_RULES, **rules._asdict())

    # --- commits

    def fate(self) -> str:
        if self.rnd.random() >= self.habits.fault:
            return APPLIED
        return self.rnd.choice((ABORTED, UNHEARD, LOST, LATE))

    def takes_effect_early(self) -> bool:
        """Whether the commit under way is applied before anything else happens, its answer still to come."""
        return self._answers.random() < self._unheard

    def send_off(self, request: Request, fate: str) -> None:
        """Nobody waits for this request any more."""
        if fate == LATE:
            self.wire.append(request)
        elif fate == UNHEARD:
            self.arrive_unheard(request)

    def arrive_unheard(self, request: Request) -> None:
        try:
            self.broker.arrive(request)
        except (Fenced, DeliveryRefused) as error:
            self.seen["request fenced on its way"] += isinstance(error, Fenced)
            self.trace("on the wire: {}", error)

    def _applied(self, part: ShardBatch, before: Cursor | None, written: list[LogRecord], sent_ms: int) -> None:
        """Write down what one shard's part of a commit has made true."""
        fact = facts.committed(name_of(part.shard), part, before, written, max(sent_ms, self.broker.now_ms), sent_ms)
        self.history.append(fact)
        for record, appended in zip(written, fact.appended, strict=True):
            self.seen[f"{appended.kind} record written"] += 1
            if appended.kind == RULES:
                self._rules[part.shard].append((record.offset, facts.rules_of(record.body)))
        for row in fact.rows or ():
            if row["rsn"] is not None:
                self.seen[f"{'operation ' if row['id'] is None else ''}{row['out']}: {row['rsn']}"] += 1
        self._note(fact)
        self.hear_copies(part)
        self.seen["message delivered"] += len(fact.deliveries)
        self.seen["message expired"] += sum(row["out"] == "expired" for row in fact.rows or ())
        self.seen["dead letter written"] += len(fact.dead)
        self.trace("COMMIT {} wrote {}", part, [(each.kind, each.offset) for each in fact.appended])

    def _note(self, fact: Committed) -> None:
        rows = fact.rows or ()
        outcomes = {(row["out"], row["rsn"]) for row in rows}
        self.seen["purge in stretches"] += ("cancelled", "purged") in outcomes and (
            "applied",
            "purged",
        ) not in outcomes
        self.seen["series went on"] += sum(row["out"] == "delivered" and row["suc"] is not None for row in rows)
        carried_on = {appended.id for appended in fact.appended}
        cancelled = [row["id"] for row in rows if row["out"] == "cancelled" and "~" in row["id"]]
        self.seen["occurrence left out"] += sum(name.split("~")[0] in carried_on for name in cancelled)


def name_of(shard: Shard) -> str:
    return f"{shard.topic}.{shard.partition}"


def _refuses(body: bytes) -> bool:
    return REFUSED_BY_TARGET in body


def _shown(part: object) -> object:
    if isinstance(part, Shard):
        return name_of(part)
    return _shown_batch(part) if isinstance(part, ShardBatch) else part


def _shown_batch(part: ShardBatch) -> str:
    cursor = part.cursor
    due_ms, offset = cursor.delivered_key
    return (
        f"{name_of(part.shard)} epoch {cursor.owner_epoch}: "
        f"{len(part.deliveries)} deliveries, {len(part.dead)} dead, {len(part.appends)} appends, "
        f"O={cursor.next_offset} D=({due_ms % CLOCK_SHOWN_MS}, {offset}) L={cursor.low_offset}"
    )
