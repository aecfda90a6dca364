"""One-line breakages of the core, each of which the checker must notice.

A mutant replaces exact source lines of one module, compiles the result, and builds a core from it; nothing on disk
changes. A line that is no longer there (or there twice) is an error: whoever rewrites a rule also looks at what
proves it. A rule whose mutant survives is a rule that the simulation does not test.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from tests.simulation.checker import Violation, check
from tests.simulation.scene import Core
from tests.simulation.world import World

SEEDS_MAX = 6000
"""The most elusive mutant needs a few hundred."""
SHARD, TAKEOVER, RECORDS, RULES_LOG, OPERATIONS, SERIES, DRAFT, MOVING, REGISTER = (
    "delay_service.shard",
    "delay_service.takeover",
    "delayline.buffer_record",
    "delay_service.rules_log",
    "delay_service.operations",
    "delay_service.series",
    "delay_service.draft",
    "delay_service.moving",
    "delay_service.register",
)
_IN_ORDER = (RECORDS, RULES_LOG, TAKEOVER, SERIES, OPERATIONS, DRAFT, MOVING, REGISTER, SHARD)
"""Each module may import those before it; all are built anew, so that the mutated one is the one they see."""


class LineIsGone(Exception):
    """The source no longer has the line that a mutant replaces, or has it more than once."""


class Mutant(NamedTuple):
    """`broken` says what the rule is that no longer holds; `changes` are (line, replacement) pairs."""

    broken: str
    module: str
    changes: tuple[tuple[str, str], ...]


def _one(broken: str, module: str, line: str, replacement: str) -> Mutant:
    return Mutant(broken, module, ((line, replacement),))


MUTANTS = (
    _one(
        "the low water mark passes what is pending",
        SHARD,
        "low_ms = now_ms if first_due_ms is None else min(first_due_ms, now_ms)",
        "low_ms = now_ms + 1",
    ),
    _one(
        "dispatches before it has read to the recorded log end",
        SHARD,
        "return self.position >= self.read_to",
        "return True",
    ),
    _one(
        "D is one millisecond further than the last delivered key",
        SHARD,
        "delivered_key = max(self.cursor.delivered_key, entries[-1].key) if entries else self.cursor.delivered_key",
        "delivered_key = max(self.cursor.delivered_key, Key(entries[-1].due_ms + 1, entries[-1].offset)) "
        "if entries else self.cursor.delivered_key",
    ),
    _one(
        "O passes a late record that is still pending",
        SHARD,
        "return min(remaining) if remaining else self.position",
        "return self.position",
    ),
    _one(
        "what was read while a commit was in flight is not compared with that commit's D",
        SHARD,
        "return (self._taken.batch.cursor if self._taken else self.cursor).delivered_key",
        "return self.cursor.delivered_key",
    ),
    _one(
        "deliveries above O are not named",
        SHARD,
        "if uncovered:",
        "if False:",
    ),
    _one(
        "decision records are ignored on replay",
        SHARD,
        "self._end_by_name(key)",
        "pass",
    ),
    _one(
        "replay takes everything below D for delivered, whatever its offset",
        SHARD,
        "elif offset >= covered_below or not self._inherited.covers(Key(meaning.due_ms, offset)):",
        "elif Key(meaning.due_ms, offset) > self._inherited.delivered_key:",
    ),
    _one(
        "a takeover reads on at O instead of at the index's checkpoint",
        TAKEOVER,
        "return Plan(cursor, True, checkpoint.offset, log_end, RulesLog.decode(checkpoint.state))",
        "return Plan(cursor, True, cursor.next_offset, log_end, RulesLog.decode(checkpoint.state))",
    ),
    _one(
        "an index from before the low offset is reused",
        TAKEOVER,
        "and cursor.low_offset <= checkpoint.offset <= min(cursor.next_offset, log_end)",
        "and checkpoint.offset <= min(cursor.next_offset, log_end)",
    ),
    _one(
        "the index of another topic of the same name is reused",
        TAKEOVER,
        "and checkpoint.topic_id == cursor.topic_id",
        "and True",
    ),
    _one(
        "a reused index keeps what the cursor has ended meanwhile",
        TAKEOVER,
        "index.retain(cursor.low_offset, plan.resume_offset, Covered(cursor.next_offset, cursor.delivered_key))",
        "index.retain(cursor.low_offset, plan.resume_offset, Covered(0, cursor.delivered_key))",
    ),
    _one(
        "a claim does not raise the epoch",
        TAKEOVER,
        "return replace(cursor, owner_epoch=cursor.owner_epoch + 1, writer=writer)",
        "return replace(cursor, owner_epoch=max(cursor.owner_epoch, 1), writer=writer)",
    ),
    _one(
        "a claim does not say who claims",
        TAKEOVER,
        "return replace(cursor, owner_epoch=cursor.owner_epoch + 1, writer=writer)",
        "return replace(cursor, owner_epoch=cursor.owner_epoch + 1)",
    ),
    _one(
        "the index loses records before the commit that ends them",
        SHARD,
        "self._taken = _Taken(batch, ended, draft.moved, decided, draft, now_ms, marks)",
        "self._taken = _Taken(batch, ended, draft.moved, decided, draft, now_ms, marks); "
        "self._index.remove(ended, self._checkpoint()); ended.clear()",
    ),
    _one(
        "the checkpoint passes records that are only in memory",
        SHARD,
        "lowest = (self.cursor.next_offset, self._index.memory_low(), self._register.owed_low())",
        "lowest = (self.cursor.next_offset, self._register.owed_low())",
    ),
    _one(
        "L passes pending records",
        SHARD,
        "low_offset = next_offset if lowest is None else min(lowest, next_offset)",
        "low_offset = next_offset",
    ),
    _one(
        "the cursor's rules are the latest ones, not those at L",
        SHARD,
        "rules=self._rules.at(low_offset),",
        "rules=self._rules.latest,",
    ),
    _one(
        "the checkpoint forgets which rules were in force",
        TAKEOVER,
        "return Plan(cursor, True, checkpoint.offset, log_end, RulesLog.decode(checkpoint.state))",
        "return Plan(cursor, True, checkpoint.offset, log_end, RulesLog(cursor.low_offset, cursor.rules))",
    ),
    _one(
        "the checkpoint misses rules that begin exactly there",
        RULES_LOG,
        "return msgspec.json.encode([change for change in self._changes if change[0] <= until])",
        "return msgspec.json.encode([change for change in self._changes if change[0] < until] or self._changes[:1])",
    ),
    _one(
        "rules that are still in force at L are forgotten",
        RULES_LOG,
        "while len(self._changes) > 1 and self._changes[1][0] <= offset:",
        "while len(self._changes) > 1:",
    ),
    _one(
        "the due time depends on who reads",
        SHARD,
        "meaning = read(body, accepted_at_ms, rules)",
        "meaning = read(body, accepted_at_ms, self._settings.rules)",
    ),
    _one(
        "a re-append gets an id of its own",
        DRAFT,
        'return meta.origin if meta and meta.origin else f"{self._id_prefix}{key.offset}.{key.due_ms}"',
        'return f"{self._id_prefix}{key.offset}.{key.due_ms}"',
    ),
    _one(
        "a re-append does not name the record that it replaces",
        RECORDS,
        '(REPLACES, b"%d.%d" % replaces),',
        '(REPLACES, b"%d.%d" % (replaces.due_ms, replaces.offset + 1)),',
    ),
    _one(
        "a rolled record stays in the index beside its successor",
        SHARD,
        "for key in (*taken.decided.ended, *taken.moved):",
        "for key in taken.decided.ended:",
    ),
    _one(
        "replay does not end what a re-append replaces",
        SHARD,
        "self._end_by_name(replaces)",
        "pass",
    ),
    _one(
        "a re-append moves the due time",
        RECORDS,
        '(DUE, b"%d" % due_ms),',
        '(DUE, b"%d" % (due_ms + 1)),',
    ),
    _one(
        "a late record that a name has ended still holds O back",
        SHARD,
        "self._late.pop(key.offset, None)  # it has ended",
        "pass",
    ),
    _one(
        "a late record that was delivered still holds O back",
        SHARD,
        "for key in (*taken.ended, *taken.decided.ended, *taken.moved):",
        "for key in (*taken.decided.ended, *taken.moved):",
    ),
    _one(
        "a hole at the log's end is never read past",
        SHARD,
        "self.position = max(self.position, next_offset)",
        "pass",
    ),
    _one(
        "a record at or above O is rolled",
        SHARD,
        "value = self._index.get(key) if key > delivered_key and key.offset < next_offset else None",
        "value = self._index.get(key)",
    ),
    _one(
        "delivers one millisecond early",
        SHARD,
        "due = take_due(self._index, now_ms, too_late_ms, records_max, bytes_max)",
        "due = take_due(self._index, now_ms + 1, too_late_ms, records_max, bytes_max)",
    ),
    _one(
        "delivers what is too late",
        SHARD,
        "too_late_ms = now_ms - self._settings.late_max_ms",
        "too_late_ms = -1",
    ),
    _one(
        "takes for too late what will be so in a millisecond",
        SHARD,
        "too_late_ms = now_ms - self._settings.late_max_ms",
        "too_late_ms = now_ms - self._settings.late_max_ms + 1",
    ),
    _one(
        "control records get their outcome row before O passes them, and again after it",
        SHARD,
        "draft.rows += [row for row in self._controls if row.offset < next_offset]",
        "draft.rows += self._controls",
    ),
    _one(
        "control records get another outcome row after a takeover",
        SHARD,
        "if is_new and not isinstance(meaning, Operation | Control):",
        "if not isinstance(meaning, Operation | Control):",
    ),
    _one(
        "outcome rows of control records are forgotten while O is held back",
        SHARD,
        "self._controls = [row for row in self._controls if row.offset >= cursor.next_offset]",
        "self._controls = []",
    ),
    _one(
        "a record that the target refused is thrown away without a letter",
        DRAFT,
        "draft.dead.append(encode_dead(self._shard, key, name, code, reason, original))",
        "pass",
    ),
    _one(
        "an operation is decided although its message is on the move",
        OPERATIONS,
        "return name in self._moving or self._view.is_moving(name)",
        "return name in self._moving",
    ),
    _one(
        "a message is no longer on the move although there was no room to index it",
        SHARD,
        "names = [(origin.encode(), entry.key)] if origin else []",
        'self._register.moving.pop(origin or ""); names = [(origin.encode(), entry.key)] if origin else []',
    ),
    _one(
        "an operation is decided although this batch moves its message",
        OPERATIONS,
        "return name in self._moving or self._view.is_moving(name)",
        "return self._view.is_moving(name)",
    ),
    _one(
        "an operation is decided in a commit that does not pass it",
        OPERATIONS,
        "if asked.offset > before or not deciding.decide(asked):",
        "if not deciding.decide(asked):",
    ),
    _one(
        "O passes an operation that waits",
        OPERATIONS,
        "decided.undecided = self._asked[decided.count].offset",
        "pass",
    ),
    _one(
        "two operations in one batch end the same record",
        OPERATIONS,
        "if target is None or target.key in self.decided.ended:",
        "if target is None:",
    ),
    _one(
        "operations above O are not decided after a takeover",
        SHARD,
        "self._operations.ask(offset, accepted_at_ms, meaning)",
        "self._operations.ask(offset, accepted_at_ms, meaning) if self.caught_up else None",
    ),
    _one(
        "what is cancelled is not named",
        SHARD,
        "uncovered = [key for key in ended if key.offset >= next_offset] + cancelled",
        "uncovered = [key for key in ended if key.offset >= next_offset]",
    ),
    _one(
        "what an operation ends is delivered in the same commit",
        SHARD,
        "skipped = ended.union(entry.key for entry in held)",
        "skipped = {entry.key for entry in held}",
    ),
    _one(
        "what was cancelled stays in the index",
        SHARD,
        "for key in (*taken.decided.ended, *taken.moved):",
        "for key in taken.moved:",
    ),
    _one(
        "what an operation ends is rolled as well",
        SHARD,
        "if value is None or key in decided.ended:",
        "if value is None:",
    ),
    _one(
        "a late record that an operation has ended still holds O back",
        SHARD,
        "for key in (*taken.ended, *taken.decided.ended, *taken.moved):",
        "for key in (*taken.ended, *taken.moved):",
    ),
    _one(
        "operations of an aborted batch are forgotten",
        SHARD,
        "decided = self._decide()",
        "decided = self._decide(); self._operations.forget(decided); decided.count = 0",
    ),
    _one(
        "a rescheduled message keeps its due time",
        OPERATIONS,
        "self._move(target, operation.due_ms, RESCHEDULED)",
        "self._move(target, target.key.due_ms, RESCHEDULED)",
    ),
    _one(
        "an operation carries on what only goes to the dead letters",
        OPERATIONS,
        "if target is None or target.is_dead:",
        "if target is None:",
    ),
    _one(
        "operations below O are decided again after a takeover",
        SHARD,
        "case Operation() | Control() if is_new:",
        "case Operation() | Control():",
    ),
)


def build(mutant: Mutant) -> Core:
    """A core with the mutant in it. Raises LineIsGone."""
    modules: dict[str, ModuleType] = {}
    with _restored(_IN_ORDER):
        for name in _IN_ORDER:
            changes = mutant.changes if name == mutant.module else ()
            modules[name] = sys.modules[name] = _compile(name, changes)
    return Core(modules[TAKEOVER].claim, modules[TAKEOVER].plan, modules[SHARD].Shard, modules[OPERATIONS])


@contextmanager
def _restored(names: tuple[str, ...]) -> Iterator[None]:
    """Whatever is put in the place of these modules is gone afterwards."""
    kept = {name: sys.modules[name] for name in names}
    try:
        yield
    finally:
        sys.modules.update(kept)


def _compile(name: str, changes: tuple[tuple[str, str], ...]) -> ModuleType:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise LineIsGone(f"{name} has no source")
    source = Path(spec.origin).read_text()
    for line, replacement in changes:
        source = _replace_line(source, name, line, replacement)
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, f"<mutant of {name}>", "exec"), module.__dict__)
    return module


def _replace_line(source: str, name: str, line: str, replacement: str) -> str:
    """Replace the one line that reads so; its indentation stays."""
    lines = source.split("\n")
    found = [number for number, text in enumerate(lines) if text.strip() == line]
    if len(found) != 1:
        raise LineIsGone(f"{name} has {len(found)} lines that read {line!r}")
    text = lines[found[0]]
    lines[found[0]] = text[: len(text) - len(text.lstrip())] + replacement
    return "\n".join(lines)


def hunt(mutant: Mutant, first: int = 0, seeds_max: int = SEEDS_MAX) -> tuple[int, Violation] | None:
    """The first seed under which the checker catches the mutant, and what it says; None where it survives."""
    core = build(mutant)
    for seed in range(first, first + seeds_max):
        violations = check(World(seed, core).run())
        if violations:
            return seed, violations[0]
    return None
