"""What operations did: the row of an operation, and the row of the record that it ended, are in one commit. Pure.

The two rows are about different records, so no cell can compare them. Commits can: operations and the records that
they ended are counted, commit by commit.

    an operation that cancelled or moved a message, and no row of its commit     confirmed_in_vain
    a message that was cancelled or moved, and no operation of its commit        unasked
    a message that was purged, and no purge behind it                            unasked
    an operation whose row reports another act than its record asks for         wrong_outcome

An operation names its message by its id, and then it must be that one; or by the sender's own id, which only the
message's shard knows: of those, the numbers must agree.

Only what is `ready` is judged. The rest waits for the next run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from delayline.buffer.facts import OWN_ID
from delayline.buffer.outcome import CANCELLED, PURGED, RESCHEDULED, Outcome
from reconcile.logic.ledger import Category
from reconcile.logic.testimony import Found, Row, first_id, found_of_row


class Act(NamedTuple):
    """An outcome row that is one side of an act, `is_operation` which one. `bound`: the end of its shard's buffer
    when the row was read; the operation that asked for it is below. `is_read`: whether its record is one that runs
    read. `is_untold`: audit records that may hold the other side could not be read."""

    row: Row
    act: str
    is_operation: bool
    bound: int
    is_read: bool
    is_untold: bool

    @property
    def commit(self) -> tuple[str, int, int, int, str]:
        row = self.row
        return row.topic, row.shard, row.epoch, row.done_ms, self.act


class Asked(NamedTuple):
    """An operation's record: the reason in its row if it is done, the message that it names, and the due time that it
    asks for."""

    asks: str | None = None
    ref: str | None = None
    moves_to_ms: int | None = None

    @property
    def names_an_id(self) -> bool:
        return self.ref is not None and not self.ref.startswith(OWN_ID)


class Moved(NamedTuple):
    """A record whose message an operation has moved, and when that was due from then on."""

    topic: str
    shard: int
    offset: int
    due_ms: int
    moves_to_ms: int


class Coverage(NamedTuple):
    """What is known of a shard's rows: all that was committed with those before this offset of the audit has been
    read, and of all records below `next` the outcome. `skipped_at`: where in the audit its last skip stands, or
    -1."""

    below: int
    next: int
    skipped_at: int


class Paired(NamedTuple):
    """`waiting`: for the next run."""

    found: list[Found]
    waiting: list[Act]
    moved: list[Moved]


OfShard = Mapping[tuple[str, int], Coverage]
Operations = Mapping[tuple[str, int, int], Asked]
"""By topic, shard and offset."""

Place = tuple[int, int]
"""In the audit: offset, and time."""


def side_of(row: Row) -> tuple[str, bool] | None:
    """The act that a row records, and whether it is the operation's; None of all other rows."""
    is_operation = row.id is None and row.outcome == Outcome.APPLIED
    tied = row.reason if row.reason in (CANCELLED, RESCHEDULED, PURGED) else None
    if is_operation:
        return (tied, True) if tied else None
    is_moved = row.outcome == Outcome.SUPERSEDED and row.reason == RESCHEDULED
    if row.id is not None and (row.outcome == Outcome.CANCELLED or is_moved):
        return tied or CANCELLED, False
    return None


def last_purges(acts: Iterable[Act]) -> dict[tuple[str, int], Place]:
    """By topic and shard."""
    found: dict[tuple[str, int], Place] = {}
    for act in acts:
        if act.act == PURGED and act.is_operation:
            shard, place = (act.row.topic, act.row.shard), (act.row.audit_offset, act.row.done_ms)
            found[shard] = max(found.get(shard, place), place)
    return found


def paired(
    acts: Iterable[Act], coverage: OfShard, asked: Operations, purges: Mapping[tuple[str, int], Place]
) -> Paired:
    """Of whole commits. Rows of shards without `coverage` are not read any more. `asked`: at least the operations
    among the rows."""
    whole = Paired([], [], [])
    commits: dict[tuple[str, int, int, int, str], list[Act]] = {}
    for act in acts:
        shard = coverage.get((act.row.topic, act.row.shard))
        if shard is None:
            continue
        if act.act == PURGED:
            _purged(act, shard, purges, whole)
        else:
            commits.setdefault(act.commit, []).append(act)
    for rows in commits.values():
        below = coverage[rows[0].row.topic, rows[0].row.shard].below
        if all(act.row.audit_offset < below for act in rows):
            _Commit(rows, asked).judge(whole)
        else:
            whole.waiting.extend(rows)
    return whole


def _purged(act: Act, shard: Coverage, purges: Mapping[tuple[str, int], Place], into: Paired) -> None:
    """A message must have a purge of its shard behind it, or in its commit. Where something was skipped since, it may
    have been the purge."""
    place = act.row.audit_offset, act.row.done_ms
    last = purges.get((act.row.topic, act.row.shard))
    if act.is_operation or act.row.audit_offset < shard.skipped_at or (last is not None and last >= place):
        return
    if act.row.audit_offset < shard.below and act.bound <= shard.next:
        into.found.extend(_judged(act, Category.UNASKED, act.row.id, "no purge stands behind it"))
    else:
        into.waiting.append(act)


@dataclass
class _Commit:
    """The rows of one commit about one act."""

    rows: Sequence[Act]
    asked: Operations
    named: list[tuple[Act, Asked]] = field(default_factory=list)  # operations that name a message id
    others: list[tuple[Act, Asked]] = field(default_factory=list)
    names: dict[str, list[Act]] = field(default_factory=dict)  # what has ended, by each name that can mean it
    loose: list[Act] = field(default_factory=list)  # what has ended, and none of those names it

    def judge(self, into: Paired) -> None:
        self._sort()
        into.found.extend(self._found())
        into.moved.extend(dict.fromkeys(self._moved()))

    def _sort(self) -> None:
        for act in self.rows:
            row = act.row
            if act.is_operation:
                asked = self.asked.get((row.topic, row.shard, row.offset), Asked())
                (self.named if asked.names_an_id else self.others).append((act, asked))
            else:
                for name in dict.fromkeys((row.id, first_id(row.id))):
                    self.names.setdefault(name or "", []).append(act)
        meant = {id(act) for _, asked in self.named for act in self.names.get(asked.ref or "", ())}
        self.loose = [act for act in self.rows if not act.is_operation and id(act) not in meant]

    def _found(self) -> Iterator[Found]:
        """What only one side has. If one side has too many, the job cannot know which those are."""
        for act, asked in self.named:
            if asked.ref not in self.names:
                why = f"no row of this commit ends {asked.ref}"
                yield from _judged(act, Category.CONFIRMED_IN_VAIN, asked.ref, why)
        for act, asked in self.others if len(self.others) > len(self.loose) else ():
            why = f"this commit ends fewer messages than its operations confirm; it names {asked.ref or '?'}"
            yield from _judged(act, Category.CONFIRMED_IN_VAIN, None, why)
        for act in self.loose if len(self.loose) > len(self.others) else ():
            yield from _judged(act, Category.UNASKED, act.row.id, "no operation of its commit asked for it")
        for act, asked in (*self.named, *self.others):
            if asked.asks is not None and asked.asks != act.act:
                why = f"its record asks that a message be {asked.asks}"
                yield from _judged(act, Category.WRONG_OUTCOME, None, why)

    def _moved(self) -> Iterator[Moved]:
        """Where it is known which operation moved it."""
        known = [(act, asked) for _, asked in self.named for act in self.names.get(asked.ref or "", ())]
        if len(self.others) == len(self.loose) == 1:
            known.append((self.loose[0], self.others[0][1]))
        for act, asked in known:
            row = act.row
            if asked.moves_to_ms is not None and row.due_ms is not None:
                yield Moved(row.topic, row.shard, row.offset, row.due_ms, asked.moves_to_ms)


def _judged(act: Act, category: Category, identity: str | None, why: str) -> Iterator[Found]:
    if act.is_read:
        judged_as = Category.UNAUDITABLE if act.is_untold else category
        found = found_of_row(act.row, judged_as, f"{act.row.described}; {why}")
        yield found._replace(id=identity, lateness_ms=None)
