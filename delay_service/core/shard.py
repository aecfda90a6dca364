"""One shard: what a record changes, what is due, what the next commit contains. Pure but for the index it is handed.

The rules by which no message is lost or delivered twice; each has a mutant that shows what breaks without it:

  - What the cursor, a decision or a re-append ends is never indexed again; nothing else is inferred on replay.
  - Nothing is dispatched before the log has been read up to the end that was recorded after the claim.
  - D is the highest key delivered. O never passes a pending record with a key <= D (a *late* record: it became
    readable when delivery had already passed its key), and every delivery at or above O is named in the same commit.
  - L is counted with everything uncommitted still pending.
  - The index loses a record only after the commit that ended it, together with the checkpoint; the checkpoint never
    passes a record that is held only in memory.
  - A control record (decision, rules) gets its outcome row in the commit whose O passes it.
  - Operations are decided in log order, in the commit whose O passes them (`operations.py`).

States of a shard: catching up (position < read_to) -> idle <-> in flight (one batch taken; `committed` or `aborted`
ends it). A commit whose fate is unknown ends the object: the shard is taken over anew.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from operator import itemgetter

from delay_service.core.batch_draft import BatchDraft, BatchDrafter
from delay_service.core.dead import Refusal
from delay_service.core.due import Due, DueRecords, Limits
from delay_service.core.forwarding import forward
from delay_service.core.in_flight import CommitResult, InFlightBatch
from delay_service.core.late import LateRecords
from delay_service.core.low_water import LowWater, add_mark
from delay_service.core.operations import NOTHING, Decided, Operations
from delay_service.core.pending_messages import PendingMessages
from delay_service.core.pending_reappends import PendingReappend
from delay_service.core.pending_record import PendingRecord
from delay_service.core.read_to import ReadTo
from delay_service.core.refusals import Refusals
from delay_service.core.rolls import Rollable, Rolls
from delay_service.core.shard_settings import ShardSettings
from delay_service.core.skipping import skip
from delay_service.core.takeover import Plan, log_id, prepare
from delay_service.core.weight import weight
from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import AuditRow, Outcome, encode_audit
from delayline.buffer.record import (
    BufferRecord,
    Control,
    Decision,
    Message,
    Operation,
    RulesChange,
    encode_rules,
    read,
    version_of,
)
from delayline.buffer.shapes import PlainRecords, reader_of
from delayline.errors import Bug
from delayline.records.message import Key
from delayline.records.message import Shard as ShardId
from mq.contract import Append, LogRecord, ShardBatch
from mq.errors import Refused
from store.index import Checkpoint, Entry, Named, PlainEntry, ShardIndex

_KEY = itemgetter(0, 1)
SURPLUS = "duplicate", "a repair sent it again at the moment at which it ended"


class Shard:
    """The state of one owned shard. Called from one thread."""

    def __init__(
        self, shard: ShardId, plan: Plan, index: ShardIndex, settings: ShardSettings, *, is_prepared: bool = False
    ) -> None:
        if not is_prepared:  # in steps, by `preparing`
            prepare(index, plan)
        self.id = shard
        self.cursor = plan.cursor
        self.position = plan.resume_offset
        self.read_to = ReadTo(plan.read_to)
        self.partitions: Collection[str] = ()  # of the topic, as last seen; set by the worker
        self.cut = False  # the latest batch had no room for all that was due
        self._starved = False  # and nothing due fitted beside what was decided: next time it comes first
        self.spills = False  # nothing more may wait in memory only; set by the worker
        self.rate_max = settings.rate_max  # deliveries per second of its whole topic; the worker keeps to it
        self._index = index
        self._settings = settings
        self._rules = plan.rules
        self._drafter = BatchDrafter(shard, settings.names, settings.timestamp)
        self.messages = PendingMessages(shard, index, self._drafter, self._forward, settings.idempotency_retention_ms)
        self._inherited = plan.cursor
        self._run = plan.run
        self._late = LateRecords()
        self._due = DueRecords(index, self._late, self._drafter)
        self.rolls = Rolls(index, self._drafter)
        self._controls: list[AuditRow] = []
        self._operations = Operations()
        self.refusals = Refusals()
        self.in_flight: InFlightBatch | None = None
        self._low_water = LowWater(settings.low_water_interval_ms)

    @property
    def caught_up(self) -> bool:
        """Whether everything that an earlier owner can have decided has been read."""
        # rule read-to: a decision that is not read yet may have ended what is due: delivered twice.
        return self.position >= self.read_to.end

    @property
    def is_authoritative(self) -> bool:
        """Whether it has caught up and the configured rules are in force: from here on, answers are true."""
        return self.caught_up and self._rules.latest.same_as(self._settings.rules)

    @property
    def waits(self) -> bool:
        """Whether what is due may have to wait for what is still to be read: a resume, a re-append."""
        return self.cursor.paused or bool(self._operations)

    @property
    def has_news(self) -> bool:
        """Whether the next batch has content although nothing is due and no checkpoint is wanted."""
        if self._operations or self.rolls or self.messages.has_unbound_names:
            return True
        return self._rules.announcement(self._settings.rules) is not None

    # --- reading

    def ingest(self, records: PlainRecords, now_ms: int) -> None:
        """Take in the next records of the log, from `position` on. Raises StoreFull and UnknownFormat; `position` is
        then where to read again."""
        near_until_ms = self._near_until_ms(now_ms)
        # rule skip-read: the next owner would stop at what an operator has had skipped, or deliver it.
        records = self.cursor.unskipped(records)
        if records and records[0][0] < self.position:
            raise Bug(f"{self.id}: offset {records[0][0]} read again, position is {self.position}")
        at = 0
        while at < len(records):
            entries: list[PlainEntry] = []
            begin, meaning = at, None
            try:
                # rule rules-read: the due time would depend on who reads: early, or late.
                at, meaning = reader_of(self._rules.latest).read(records, at, entries)
            finally:  # records and holes before one of an unknown format are read all the same
                at = begin + len(entries)
                # rule D-late: a late record below D, at or above O, has not been delivered: lost.
                entries = self._inherited.uncovered(entries)
                # rule read-holes: the shard would not stop right at the record that cannot be read.
                self._put(entries, near_until_ms, records[at][0] if at < len(records) else records[-1][0] + 1)
            if meaning is not None:
                self._obey(*records[at][:2], meaning, near_until_ms)
                at += 1

    def advance(self, next_offset: int) -> None:
        """Everything below `next_offset` has been read: what `ingest` was not given there are holes."""
        # rule read-end: a log that ends with holes would never be read to its end.
        self.position = max(self.position, next_offset)

    def _near_until_ms(self, now_ms: int) -> int | None:
        """Up to which due time records may wait in memory only. While catching up, none: a backlog can be large."""
        if not self.caught_up:
            return None
        return -1 if self.spills else now_ms + self._settings.near_due_ms

    def _highest_delivered(self) -> Key:
        """D, as if the commit in flight had succeeded."""
        # rule D-flight: a record below the D of the commit in flight would not count as late: lost.
        return (self.in_flight.batch.cursor if self.in_flight else self.cursor).delivered_key

    def _put(
        self, entries: Sequence[PlainEntry], near_until_ms: int | None, end: int, names: Sequence[Named] = ()
    ) -> None:
        """Index the records read so far; only then is everything below `end` read."""
        if entries:
            self._index.put(entries, near_until_ms, names)
            self._late.read(entries, self._highest_delivered())
        self.position = max(self.position, end)

    def _obey(self, offset: int, accepted_at_ms: int, meaning: BufferRecord, near_until_ms: int | None) -> None:
        """Apply a record that is no plain message. A re-append or a decision ends the records that it names, rules
        come into force, an operation or a control waits to be decided."""
        is_new = offset >= self._inherited.next_offset
        match meaning:
            case Message(replaces=None):
                self._take_in(offset, accepted_at_ms, meaning, near_until_ms)
                return
            case Message():
                self._succeed(offset, meaning, near_until_ms)
                return
            # rule op-below-O: an operation below O has been decided, and would be decided twice.
            case Operation() | Control() if is_new:
                # rule op-above-O: an operation above O has not been decided by the last owner: lost.
                self._operations.ask(offset, accepted_at_ms, meaning)
            case Decision(ended):
                for key in ended:
                    # rule decision-ended: what a decision names has ended: delivered twice.
                    self._end_by_decision(key, offset)
            case RulesChange(rules):
                self._rules.change(offset, rules)
        # rule row-once: below O the row has been written: twice in the audit.
        if is_new and not isinstance(meaning, Operation | Control):
            self._controls.append(AuditRow(offset, None, None, accepted_at_ms, Outcome.APPLIED))
        self.position = offset + 1

    def _take_in(self, offset: int, accepted_at_ms: int, message: Message, near_until_ms: int | None) -> None:
        """A message that asks for more than a time. A conditional message that O has passed has been decided: one
        that was a matter of a calendar is in a re-append now, another has had its names."""
        entry = Entry(message.due_ms, offset, message.value)
        names: list[Named] = []
        terminal = self._inherited.covers(entry.key)
        is_new = offset >= self._inherited.next_offset
        if message.terms is not None and message.is_conditional and not is_new and not terminal:
            series = message.terms.series
            terminal = series is not None and series.cron is not None
            # rule conditional-names: a message decided by an earlier owner has its names; another would get them too.
            names = [] if terminal else self.messages.free((name, entry.key) for name in message.terms.names)
        self._put([] if terminal else [entry], near_until_ms, offset + 1, names)
        # rule conditional-below-O: a conditional message below O has been decided, and would be decided twice.
        if message.is_conditional and is_new:
            # rule conditional-asked: a conditional message that is never decided is never delivered.
            self._operations.ask(offset, accepted_at_ms, entry.key)

    def _succeed(self, offset: int, message: Message, near_until_ms: int | None) -> None:
        """A re-append carries on the message of the record that it replaces."""
        due_ms, value, origin, replaces, terms = message
        entry = Entry(due_ms, offset, value)
        if replaces is not None:
            # rule reappend-ends: both records of the message would be pending: delivered twice.
            self._end_by_reappend(replaces, entry.key)
        terminal = self._inherited.covers(entry.key)
        # rule moving-room: until the record is indexed the message counts as moving, or an operation would not find
        # it.
        names = [(origin.encode(), entry.key)] if origin else []
        # rule reappend-names: the message would lose its own id and its idempotency key.
        names += self.messages.free((name, entry.key) for name in (terms.names if terms else ()))
        self._put([] if terminal else [entry], near_until_ms, entry.offset + 1, names)
        self.messages.moving.pop(origin or "")  # not before it is indexed: there may be no room

    def _end_by_decision(self, key: Key, offset: int) -> None:
        """A decision that we read at `offset` ends `key`. Behind the end that was recorded at the takeover it is our
        own word, read back: `committed` has done it, or is about to."""
        # rule own-decision: after a lapse, too, or the commit would take the record from the index a second time: the
        # counts of what is pending would be too low, and L would pass a pending record: lost.
        if offset < self.read_to.recorded:
            self._index.discard(key)
            # rule late-decided: a record that has ended would hold O back for ever.
            self._late.forget(key.offset)

    def _end_by_reappend(self, key: Key, successor: Key) -> None:
        """A re-append that we read replaces `key`. It need not be ours: a repair puts messages into the log again.
        Where it was mistaken and the record is pending, only one of the two may be delivered, and the log decides
        which. What is in flight ends with its commit, or here if that fails."""
        if self.in_flight is not None and self.in_flight.ends(key):
            self.in_flight.replaced.append((key, successor))
            return
        self._index.discard(key)
        self._late.forget(key.offset)
        self.rolls.cancel(key)

    # --- taking a batch

    def take(
        self, now_ms: int, records_max: int, bytes_max: int, *, checkpoint: bool = False, last: bool = False
    ) -> ShardBatch | None:
        """What is due at `now_ms` (`due.py`) and the cursor of it, or None. With `checkpoint`, also a batch that only
        moves the cursor or reports how far the shard is done; the `last` one reports it before it is time again. One
        batch is in flight at most; `committed` or `aborted` must follow."""
        if self.in_flight is not None or not self.caught_up:
            return None
        budget = 0 if self._starved else max(1, bytes_max // 2)  # the other half is for what is due
        # rule abort-safe: nothing may be true of a decision before its commit: an aborted one would be lost.
        decided = self._decide(budget)
        # rule pause-kept: a pause would end with the next commit.
        paused = self.cursor.paused if decided.paused is None else decided.paused
        # rule lateness-max: too old a message would be delivered, or expire too early.
        expired_before_ms = now_ms - self._settings.late_max_ms
        limits = Limits(now_ms, expired_before_ms, records_max, bytes_max - decided.bytes)
        due = self._due.select(limits, decided, self.cursor.delivered_key, paused=paused)
        self.cut, self._starved = due.cut, due.starved
        rules = self._rules.announcement(self._settings.rules)
        if not (due.entries or due.carried_on or checkpoint or self.rolls or decided or rules):
            return None
        ended = list(map(_KEY, due.entries))
        # rule D-key: a D above the last key would take the record between for delivered: lost.
        delivered_key = max(self.cursor.delivered_key, Key(*ended[-1])) if ended else self.cursor.delivered_key
        gone = (*ended, *decided.ended, *(record.key for record in due.carried_on))
        # O passes no operation that is not decided: the next owner decides it.
        next_offset = min(self._next_offset(gone), decided.undecided)
        draft = self._drafter.draft(due.entries, now_ms, expired_before_ms, self.refusals)
        self._fill(draft, due, decided, next_offset, delivered_key)
        draft.decide(ended, next_offset, decided.cancelled)
        if rules is not None:
            draft.appends.append(encode_rules(rules))
            self._rules.announced = True
        # rule row-O: above O the record is read again, and its row would be written twice.
        draft.rows += [row for row in self._controls if row.offset < next_offset]
        cursor = self._next_cursor(next_offset, delivered_key, paused)
        pending = self._low_water.pending_to_report(cursor, self._index, (*gone, *draft.moved), now_ms, last=last)
        news = cursor != self.cursor or draft.rows or pending is not None
        if not (ended or draft.appends or decided or (checkpoint and news)):
            return None
        audit = list(encode_audit(self.id, cursor.owner_epoch, now_ms, draft.rows, draft.plain))
        batch = ShardBatch(
            self.id, cursor, draft.deliveries, draft.appends, audit, draft.dead, decided.copies, draft.cross_partition
        )
        if pending is not None:
            add_mark(batch, self._index, due.entries, pending, now_ms)
        # rule index-after: the index loses nothing before the commit is true: an aborted batch would be lost.
        self.in_flight = InFlightBatch(batch, ended, draft.moved, decided, draft, now_ms, pending)
        return batch

    def _fill(self, draft: BatchDraft, due: Due, decided: Decided, next_offset: int, delivered_key: Key) -> None:
        """Add what is decided, and the records that go on in another one."""
        draft.appends += decided.appends
        draft.cross_partition += decided.cross_partition
        draft.rows += decided.rows
        draft.moved |= decided.moved
        rolled: Iterable[PendingRecord] = ()
        if self.rolls and decided.purged_to is None:
            bytes_left = due.bytes_left - sum(weight(value) for _, _, value in due.entries)
            rollable = Rollable(next_offset, delivered_key, decided.ended)
            rolled = self.rolls.chosen(rollable, bytes_left, alone=not (draft.rows or draft.plain))
        for record in (*due.carried_on, *rolled):
            draft.roll(record)

    def _decide(self, bytes_max: int) -> Decided:
        """O passes no late record that waits, so it passes no operation behind one either."""
        self.messages.resolve_contested()
        if not self._operations:
            return NOTHING
        lowest = self._late.lowest()
        before = (self.position if lowest is None else lowest) if bytes_max else -1
        return self._operations.decide(before, self.messages, bytes_max)

    def _forward(self, operation: Operation) -> Append | None:
        return forward(operation, self.id, self.partitions, self._settings.names)

    def _next_offset(self, taken: Sequence[tuple[int, int]]) -> int:
        """O: the read position, or the first late record that stays behind."""
        lowest = self._late.lowest(without={offset for _, offset in taken}) if self._late else None
        # rule O-late: a takeover would begin behind a late record that is still pending: lost.
        return lowest if lowest is not None else self.position

    def _next_cursor(self, next_offset: int, delivered_key: Key, paused: bool) -> Cursor:
        lowest = self._index.low_offset()
        # rule L-pending: a rebuilt index would begin behind a pending record: lost.
        low_offset = next_offset if lowest is None else min(lowest, next_offset)
        low_offset = max(low_offset, self.cursor.low_offset)
        return replace(
            self.cursor,
            next_offset=next_offset,
            delivered_key=delivered_key,
            low_offset=low_offset,
            # rule L-rules: what stands from L on would be read again under later rules: early, or late.
            rules=self._rules.at(low_offset),
            # rule pause-cursor: the next owner would not know of the pause.
            paused=paused,
            # rule skip-kept: a range would be forgotten before L has passed it, or never.
            skipped=tuple(one for one in self.cursor.skipped if one[1] > low_offset),
        )

    def take_skip(self, through: int, body: bytes, now_ms: int, reason: str) -> ShardBatch:
        """A batch that passes over what stands from `position` up to the offset `through`, whether or not the shard
        has caught up; none may be in flight. `body` is what could be read of it."""
        self.in_flight = skip(self.id, self.cursor, (self.position, through), body, now_ms, reason)
        return self.in_flight.batch

    # --- the commit's result

    def committed(self) -> CommitResult:
        """The batch in flight is true: the index may forget what it ended."""
        taken = self._ending()
        self.in_flight = None
        self.cursor = cursor = taken.batch.cursor
        if taken.pending is not None:
            self._low_water.committed(cursor, taken.pending, taken.at_ms)
        if self._late:
            # rule late-gone: a late record that has ended would hold O back for ever.
            for _, offset in (*taken.ended, *taken.decided.ended, *taken.moved):
                self._late.forget(offset)
        self._operations.forget(taken.decided)
        # rule row-kept: while O is held back the rows wait, or they would be lost.
        self._controls = [row for row in self._controls if row.offset >= cursor.next_offset]
        values = [(key, move, self._index.get(key)) for key, move in taken.moved.items()]
        self.refusals.forget((*taken.ended, *taken.decided.ended))
        self.rolls.committed(cursor.delivered_key, taken.moved.keys() | taken.decided.ended)
        # rule key-kept: a repeated request would be accepted as a new one: delivered twice.
        self.messages.remember((*taken.decided.closed.items(), *taken.draft.closed), taken.at_ms)
        # rule index-gone: the old record would stay pending beside its successor, or though cancelled: delivered
        # twice.
        gone = taken.decided.ended.union(taken.moved)
        if taken.decided.named or self.messages.owes:
            # rule bind: a message would not be found by its name, or the name would go to a record that has ended.
            self.messages.bind(taken.decided.named, gone.union(taken.ended))
        self._index.remove(sorted(gone.union(taken.ended)) if gone else taken.ended, self._checkpoint())
        for key, (message_id, due_ms, names), value in values:
            if value is not None and self._index.lookup(message_id.encode()) is None:
                self.messages.moving.add(message_id, PendingReappend(Key(due_ms, key.offset), value, names))
        self.dead_letter(taken.surplus, *SURPLUS)
        self._rules.forget_below(cursor.low_offset)
        versions = {move.message_id: version_of(value) + 1 for _, move, value in values if value is not None}
        return CommitResult(taken.draft.rows, taken.at_ms, taken.decided.resolved, versions, taken.draft.plain)

    def aborted(self) -> None:
        """For certain nothing of the batch in flight was written; the same records will be taken again."""
        replaced = self._ending().replaced
        self.in_flight = None
        self._rules.announced = False
        # rule abort-late: what the batch has not made late would hold O back, and be delivered out of turn.
        self._late.keep_up_to(self.cursor.delivered_key)
        for key, successor in replaced:
            self._end_by_reappend(key, successor)

    def refused(self, code: str, reason: str, what: Refused = Refused.DELIVERY) -> bool:
        """For certain nothing was written, because a record of the batch in flight is refused. A batch of one has
        found it: it goes to the dead-letter topic with the next batch. Else take fewer. False: nothing is left."""
        taken = self._ending()
        key = taken.only_key
        if what is Refused.APPEND and (key is None or taken.moved.keys() != {key}):
            self.rolls.clear()  # what is carried on for an operation, or only to be moved
            key = None
        helps = len(taken.ended) > 1 or (key is not None and self.refusals.learn(key, code, reason, what))
        self.aborted()
        return helps

    def dead_letter(self, keys: Iterable[Key], code: str, reason: str) -> None:
        """These pending records go to the dead-letter topic when they are due, with this reason."""
        self.refusals.update(dict.fromkeys(keys, Refusal(code, reason)))

    def _ending(self) -> InFlightBatch:
        if self.in_flight is None:
            raise Bug(f"{self.id}: no batch is in flight")
        return self.in_flight

    def _checkpoint(self) -> Checkpoint:
        # rule checkpoint: a record or a name that only the memory holds would not be read again after a crash: lost.
        lowest = (self.cursor.next_offset, self.position, self._index.memory_low(), self.messages.owed_low())
        offset = max(min(offset for offset in lowest if offset is not None), self.cursor.low_offset)
        return Checkpoint(offset, log_id(self.cursor, self._run), self._rules.encode(offset))

    # --- requests

    def due_ms(self, record: LogRecord) -> int | None:
        """When the message of a buffer record is due; None for a record that is no message."""
        _, accepted_at_ms, body = record
        meaning = read(body, accepted_at_ms, self._rules.latest)
        return meaning.due_ms if isinstance(meaning, Message) else None
