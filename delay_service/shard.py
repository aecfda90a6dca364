"""One shard: what a record changes, what is due, what the next commit says. Pure but for the index it is handed.

The whole question "may this message be lost, or delivered twice?" is answered in this file. The rules, each of which
has a mutant in tests/simulation that shows what breaks without it:

  - What the cursor or a name ends is never indexed again; nothing else is inferred on replay.
  - Nothing is dispatched before the log has been read up to the end that was recorded after the claim.
  - D is the highest key delivered. O never passes a pending record with a key <= D (a *late* record: it became
    readable when delivery had already passed its key), and every delivery at or above O is named in the same commit.
  - L is counted with everything not yet committed still pending.
  - The index loses a record only after the commit that ended it, together with the checkpoint; the checkpoint never
    passes a record that is held only in memory.
  - A control record (decision, rules) gets its outcome row in the commit whose O passes it.
  - Operations are decided in log order, in the commit whose O passes them (`operations.py`).

States of a shard: catching up (position < read_to) -> idle <-> in flight (one batch taken; `committed` or `aborted`
ends it). A commit whose fate is unknown ends the object: the shard is taken over anew.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from delay_service.dead import as_it_came, encode_dead
from delay_service.forwarding import forward
from delay_service.lateness import LATE_MAX, NEVER_MS, take_due
from delay_service.operations import NOTHING, Decided, Move, Operations, Target
from delay_service.takeover import Plan, prepare
from delayline.buffer_record import (
    BufferRecord,
    Decision,
    Message,
    Meta,
    Operation,
    RulesChange,
    decode_value,
    encode_decision,
    encode_reappend,
    encode_rules,
    read,
)
from delayline.cursor import Cursor
from delayline.errors import Bug
from delayline.message import Key, MessageId
from delayline.message import Shard as ShardId
from delayline.names import Names
from delayline.outcome import AuditRow, Outcome, encode_audit, encode_low_water
from delayline.record import Record, accepted_at_ms_of, decode_packed, seal
from delayline.rules import Rules
from mq.contract import Append, Delivery, LogRecord, ShardBatch
from store.index import Checkpoint, Entry, ShardIndex

ROLL_REASON = "roll"
ROLLED_BYTES_MAX = 1 << 20
"""Per commit, so that what is due does not wait behind what is merely old."""


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """What the configuration says about the shards of a topic. `timestamp` is `delivery`, `due` or `accepted`."""

    rules: Rules
    names: Names
    near_due_ms: int = 2000
    timestamp: str = "delivery"
    late_max_ms: int = NEVER_MS
    rate_max: int | None = None  # deliveries of the whole topic per second: the worker keeps to it
    low_water_interval_ms: int = 30_000


@dataclass(slots=True)
class _Taken:
    """A batch in flight: `ended` are the keys that it delivers or buries, `moved` those that it re-appends."""

    batch: ShardBatch
    ended: list[Key]
    moved: dict[Key, Move]
    decided: Decided
    rows: list[AuditRow]
    at_ms: int
    marks_low_water: bool


class Finished(NamedTuple):
    """What a commit made true: for metrics, history and waiting callers."""

    rows: Sequence[AuditRow]
    at_ms: int


class Pending(NamedTuple):
    """A message that waits, as its owner knows it."""

    key: Key
    record: Record
    accepted_at_ms: int
    version: int


@dataclass(slots=True)
class _Draft:
    """The parts of a batch under construction."""

    deliveries: list[Delivery] = field(default_factory=list)
    appends: list[bytes] = field(default_factory=list)
    dead: list[bytes] = field(default_factory=list)
    elsewhere: list[Append] = field(default_factory=list)
    rows: list[AuditRow] = field(default_factory=list)


class Shard:
    """The state of one owned shard. Called from one thread."""

    def __init__(self, shard: ShardId, plan: Plan, index: ShardIndex, settings: ShardSettings) -> None:
        prepare(index, plan)
        self.id = shard
        self.cursor = plan.cursor
        self.position = plan.resume_offset
        self.read_to = plan.read_to
        self.partitions: Collection[str] = ()  # of the topic, as last seen; the worker says
        self._index = index
        self._settings = settings
        self._rules = plan.rules
        self._id_prefix = f"{shard.topic}.{shard.name}."
        self._inherited = plan.cursor
        self._late: set[int] = set()
        self._controls: list[AuditRow] = []
        self._to_roll: dict[Key, None] = {}
        self._moving: dict[str, tuple[Key, bytes]] = {}  # re-appended, not read back: new time, old offset, value
        self._operations = Operations()
        self._refused: dict[Key, tuple[str, str]] = {}
        self._taken: _Taken | None = None
        self._rules_announced = False
        self._low_water_said: tuple[int, Cursor | None] = 0, None

    @property
    def caught_up(self) -> bool:
        """Whether everything that an earlier owner can have decided has been read."""
        return self.position >= self.read_to

    @property
    def settled(self) -> bool:
        """Whether it has caught up and the configured rules are in force: from here on, answers are true."""
        return self.caught_up and self._rules.latest.same_as(self._settings.rules)

    @property
    def in_flight(self) -> int:
        """How many records the batch in flight ends; 0 also for one that only moves the cursor."""
        return len(self._taken.ended) if self._taken else 0

    @property
    def busy(self) -> bool:
        """Whether a batch is in flight."""
        return self._taken is not None

    # --- reading

    def ingest(self, records: Sequence[LogRecord], now_ms: int) -> None:
        """Take in the next records of the log, from `position` on. Raises StoreFull and UnknownFormat; `position`
        then says from where to read again."""
        near_until_ms = self._near_until_ms(now_ms)
        if records and records[0].offset < self.position:
            raise Bug(f"{self.id}: offset {records[0].offset} read again, position is {self.position}")
        entries: list[Entry] = []
        rules, covered_below = self._rules.latest, self._inherited.next_offset
        for offset, accepted_at_ms, body in records:
            meaning = read(body, accepted_at_ms, rules)
            if type(meaning) is not Message or meaning.replaces is not None:
                self._put(entries, near_until_ms, offset)
                entries = []
                self._obey(offset, accepted_at_ms, meaning, near_until_ms)
                rules = self._rules.latest
            elif offset >= covered_below or not self._inherited.covers(Key(meaning.due_ms, offset)):
                entries.append(Entry(meaning.due_ms, offset, meaning.value))
        if records:
            self._put(entries, near_until_ms, records[-1].offset + 1)

    def advance(self, next_offset: int) -> None:
        """Everything below `next_offset` has been read: what `ingest` was not given there are holes."""
        self.position = max(self.position, next_offset)

    def _near_until_ms(self, now_ms: int) -> int | None:
        """Up to which due time records may wait in memory only. While catching up, none: a backlog can be large."""
        return now_ms + self._settings.near_due_ms if self.caught_up else None

    def _highest_delivered(self) -> Key:
        """D, as if the commit in flight had succeeded."""
        return (self._taken.batch.cursor if self._taken else self.cursor).delivered_key

    def _put(
        self, entries: list[Entry], near_until_ms: int | None, end: int, names: Sequence[tuple[bytes, Key]] = ()
    ) -> None:
        """Index the records read so far; only then is everything below `end` read."""
        if entries:
            self._index.put(entries, near_until_ms, names)
            passed = self._highest_delivered()
            self._late.update([offset for due_ms, offset, _ in entries if (due_ms, offset) <= passed])
        self.position = max(self.position, end)

    def _obey(self, offset: int, accepted_at_ms: int, meaning: BufferRecord, near_until_ms: int | None) -> None:
        """Records of our own: what they name has ended, what they say is in force. And operations."""
        is_new = offset >= self._inherited.next_offset
        match meaning:
            case Message(due_ms, value, origin, replaces):
                self._succeed(Entry(due_ms, offset, value), origin, replaces, near_until_ms)
                return
            case Operation() if is_new:
                self._operations.ask(offset, accepted_at_ms, meaning)
            case Decision(names):
                for key in names:
                    self._end_by_name(key)
            case RulesChange(rules):
                self._rules.change(offset, rules)
                self._rules_announced = False
        if is_new and not isinstance(meaning, Operation):
            self._controls.append(AuditRow(offset, None, None, accepted_at_ms, Outcome.APPLIED))
        self.position = offset + 1

    def _succeed(self, entry: Entry, origin: str | None, replaces: Key | None, near_until_ms: int | None) -> None:
        """A re-append carries on the message of the record that it replaces."""
        if replaces is not None:
            self._end_by_name(replaces)
        terminal = self._inherited.covers(entry.key)
        names = [(origin.encode(), entry.key)] if origin else []
        self._put([] if terminal else [entry], near_until_ms, entry.offset + 1, names)
        self._moving.pop(origin or "", None)  # not before it is indexed: there may be no room

    def _end_by_name(self, key: Key) -> None:
        """A record that we read names `key`. Behind the recorded end it is our own word, read back: `committed`
        has done it, or is about to."""
        if not self.caught_up:
            self._index.discard(key)
            self._late.discard(key.offset)

    # --- taking a batch

    def take(self, now_ms: int, records_max: int, bytes_max: int, *, checkpoint: bool = False) -> ShardBatch | None:
        """What is due at `now_ms` and the cursor that goes with it, or None. With `checkpoint`, also a batch that
        only moves the cursor. One batch is in flight at most; `committed` or `aborted` must follow."""
        if self._taken is not None or not self.caught_up:
            return None
        decided = self._decide()
        too_late_ms = now_ms - self._settings.late_max_ms
        entries = take_due(self._index, now_ms, too_late_ms, records_max, bytes_max)
        if gone := decided.ended:
            entries = [entry for entry in entries if entry.key not in gone]
        if not (entries or checkpoint or self._to_roll or decided.count or self._rules_to_announce()):
            return None
        delivered_key = max(self.cursor.delivered_key, entries[-1].key) if entries else self.cursor.delivered_key
        ended = [Key(due_ms, offset) for due_ms, offset, _ in entries]
        next_offset = min(self._next_offset((*ended, *gone)), decided.undecided)
        draft = self._draft(entries, too_late_ms)
        draft.appends += decided.appends
        draft.elsewhere += decided.elsewhere
        draft.rows += decided.rows
        moved = self._roll(draft, delivered_key, next_offset, decided) | decided.moved
        self._name(draft, ended, next_offset, decided.cancelled)
        self._announce_rules(draft)
        draft.rows += [row for row in self._controls if row.offset < next_offset]
        cursor = self._next_cursor(next_offset, delivered_key)
        marks = checkpoint and self._marks_low_water(cursor, now_ms)
        anything = ended or draft.appends or decided.count or marks
        if not (anything or (checkpoint and (cursor != self.cursor or draft.rows))):
            return None
        audit = list(encode_audit(self.id, cursor.owner_epoch, now_ms, draft.rows))
        if marks:
            audit.append(self._low_water(cursor, entries, now_ms))
        batch = ShardBatch(self.id, cursor, draft.deliveries, draft.appends, audit, draft.dead, draft.elsewhere)
        self._taken = _Taken(batch, ended, moved, decided, draft.rows, now_ms, marks)
        return batch

    def _decide(self) -> Decided:
        """O passes no late record that waits, so it passes no operation behind one either."""
        if not self._operations:
            return NOTHING
        before = min(self._late, default=self.position)
        return self._operations.decide(before, self._target, self._moving.__contains__, self._forward)

    def _forward(self, operation: Operation) -> Append | None:
        return forward(operation, self.id, self.partitions, self._settings.names)

    def _target(self, message_id: MessageId) -> Target | None:
        """A pending record of this shard, by the id of its message's first acceptance. What is only on its way to the
        dead letters has no message."""
        key = self._key(message_id)
        value = self._index.get(key) if message_id.shard == self.id else None
        if value is None:
            return None
        meta, packed = decode_value(value)
        is_dead = meta is not None and meta.dead_code is not None
        return None if is_dead else Target(key, value, accepted_at_ms_of(packed))

    def _key(self, message_id: MessageId) -> Key:
        """Where the record stands that carries the message now, if it is pending."""
        return self._index.lookup(str(message_id).encode()) or Key(message_id.due_ms, message_id.offset)

    def _marks_low_water(self, cursor: Cursor, now_ms: int) -> bool:
        """Whether it is time to say how far this shard is done, and there is something new to say."""
        said_at_ms, said = self._low_water_said
        news = said is None or cursor != said or self._index.pending() > 0
        return news and now_ms - said_at_ms >= self._settings.low_water_interval_ms

    def _low_water(self, cursor: Cursor, entries: list[Entry], now_ms: int) -> bytes:
        """Below O nothing is pending that is due before D, nor before the first record still indexed."""
        first_due_ms = entries[0].due_ms if entries else self._index.next_due_ms()
        low_ms = now_ms if first_due_ms is None else min(first_due_ms, now_ms)
        low_ms = max(low_ms, cursor.delivered_key.due_ms)
        return encode_low_water(self.id, cursor.owner_epoch, now_ms, cursor.next_offset, low_ms)

    def _next_offset(self, taken: Sequence[Key]) -> int:
        """O: the read position, or the first late record that stays behind."""
        remaining = self._late.difference(key.offset for key in taken) if self._late else self._late
        return min(remaining) if remaining else self.position

    def _next_cursor(self, next_offset: int, delivered_key: Key) -> Cursor:
        lowest = self._index.low_offset()
        low_offset = next_offset if lowest is None else min(lowest, next_offset)
        low_offset = max(low_offset, self.cursor.low_offset)
        return replace(
            self.cursor,
            next_offset=next_offset,
            delivered_key=delivered_key,
            low_offset=low_offset,
            rules=self._rules.at(low_offset),
        )

    def _draft(self, entries: list[Entry], too_late_ms: int) -> _Draft:
        """Hot: once per delivered message (see bench/floors.py)."""
        draft = _Draft()
        timestamp, refused = self._settings.timestamp, self._refused
        for entry in entries:
            due_ms, offset, value = entry
            meta, packed = decode_value(value)
            message_id = self._message_id(due_ms, offset, meta)
            if meta is not None and meta.dead_code is not None:
                self._bury(draft, entry, message_id, meta, packed)
                continue
            accepted_at_ms = accepted_at_ms_of(packed)
            if refused and entry.key in refused:
                self._dead(draft, entry, message_id, accepted_at_ms, refused[entry.key], decode_packed(packed))
                continue
            if due_ms < too_late_ms:
                row = AuditRow(offset, message_id, due_ms, accepted_at_ms, Outcome.EXPIRED, None, LATE_MAX)
                draft.rows.append(row)
                continue
            stamp = None if timestamp == "delivery" else due_ms if timestamp == "due" else accepted_at_ms
            draft.deliveries.append(Delivery(seal(packed, message_id.encode(), due_ms), stamp))
            draft.rows.append(AuditRow(offset, message_id, due_ms, accepted_at_ms, Outcome.DELIVERED))
        return draft

    def _message_id(self, due_ms: int, offset: int, meta: Meta | None) -> str:
        """A message keeps the id of its first acceptance."""
        return meta.origin if meta and meta.origin else f"{self._id_prefix}{offset}.{due_ms}"

    def _bury(self, draft: _Draft, entry: Entry, message_id: str, meta: Meta, body: bytes) -> None:
        """A record that could not be read, or whose directive was refused: it goes as it came."""
        why = meta.dead_code or "", meta.dead_reason or ""
        self._dead(draft, entry, message_id, meta.accepted_at_ms, why, as_it_came(body))

    def _dead(
        self,
        draft: _Draft,
        entry: Entry,
        message_id: str,
        accepted_at_ms: int,
        why: tuple[str, str],
        original: Record,
    ) -> None:
        draft.dead.append(encode_dead(self.id, entry.key, message_id, *why, original))
        row = AuditRow(entry.offset, message_id, entry.due_ms, accepted_at_ms, Outcome.DEAD, None, why[0])
        draft.rows.append(row)

    def _roll(self, draft: _Draft, delivered_key: Key, next_offset: int, decided: Decided) -> dict[Key, Move]:
        """Re-append the records that `roll` asked for and that this commit neither delivers nor leaves unread."""
        rolled: dict[Key, Move] = {}
        room = ROLLED_BYTES_MAX
        for key in self._to_roll:
            if room <= 0:
                break
            value = self._index.get(key) if key > delivered_key and key.offset < next_offset else None
            if value is None or key in decided.ended:
                continue
            room -= len(value)
            meta, packed = decode_value(value)
            if meta is not None and meta.dead_code is not None:
                continue  # due at once: it pins nothing for long
            message_id = self._message_id(key.due_ms, key.offset, meta)
            draft.appends.append(encode_reappend(value, key, message_id, key.due_ms))
            accepted_at_ms = accepted_at_ms_of(packed)
            superseded = Outcome.SUPERSEDED
            row = AuditRow(key.offset, message_id, key.due_ms, accepted_at_ms, superseded, message_id, ROLL_REASON)
            draft.rows.append(row)
            rolled[key] = Move(message_id, key.due_ms)
        return rolled

    def _name(self, draft: _Draft, ended: list[Key], next_offset: int, cancelled: list[Key]) -> None:
        """What ends otherwise than by the cursor of this commit is named by a decision record: deliveries that it
        does not cover, and what is cancelled."""
        uncovered = [key for key in ended if key.offset >= next_offset] + cancelled
        if uncovered:
            draft.appends.append(encode_decision(uncovered))

    def _rules_to_announce(self) -> bool:
        return not (self._rules_announced or self._rules.latest.same_as(self._settings.rules))

    def _announce_rules(self, draft: _Draft) -> None:
        """Configured rules that differ from those in force go into the log before anything relies on them."""
        if self._rules_to_announce():
            number = self._rules.latest.number + 1
            draft.appends.append(encode_rules(self._settings.rules.numbered(number)))
            self._rules_announced = True

    # --- the commit's result

    def committed(self) -> Finished:
        """The batch in flight is true: the index may forget what it ended."""
        taken = self._in_flight()
        self._taken = None
        self.cursor = cursor = taken.batch.cursor
        if taken.marks_low_water:
            self._low_water_said = taken.at_ms, cursor
        self._late.difference_update(key.offset for key in (*taken.ended, *taken.decided.ended))
        self._operations.forget(taken.decided.count)
        self._controls = [row for row in self._controls if row.offset >= cursor.next_offset]
        for key, (message_id, due_ms) in taken.moved.items():
            value = self._index.get(key)
            self._index.discard(key)
            if value is not None and self._index.lookup(message_id.encode()) is None:
                self._moving[message_id] = Key(due_ms, key.offset), value
        self._forget_requests(taken)
        for key in taken.decided.cancelled:
            self._index.discard(key)
        self._index.remove(taken.ended, self._checkpoint())
        self._rules.forget_below(cursor.low_offset)
        return Finished(taken.rows, taken.at_ms)

    def aborted(self) -> None:
        """For certain nothing of the batch in flight was written; the same records will be taken again."""
        self._in_flight()
        self._taken = None
        self._rules_announced = False

    def refused(self, code: str, reason: str) -> None:
        """For certain nothing was written, because the target refuses a record of the batch in flight. A batch of one
        has found it: it goes to the dead-letter topic with the next batch. Else take fewer."""
        ended = self._in_flight().ended
        if len(ended) == 1:
            self.bury(ended, code, reason)
        self.aborted()

    def bury(self, keys: Iterable[Key], code: str, reason: str) -> None:
        """These pending records go to the dead-letter topic when they are due, with this reason."""
        self._refused.update(dict.fromkeys(keys, (code, reason)))

    def _forget_requests(self, taken: _Taken) -> None:
        for key in (*taken.ended, *taken.decided.ended) if self._refused else ():
            self._refused.pop(key, None)
        passed = taken.batch.cursor.delivered_key
        gone = taken.moved.keys() | taken.decided.ended
        self._to_roll = {key: None for key in self._to_roll if key > passed and key not in gone}

    def _in_flight(self) -> _Taken:
        if self._taken is None:
            raise Bug(f"{self.id}: no batch is in flight")
        return self._taken

    def _checkpoint(self) -> Checkpoint:
        held = self._index.memory_low()
        offset = self.cursor.next_offset if held is None else min(held, self.cursor.next_offset)
        offset = max(offset, self.cursor.low_offset)
        return Checkpoint(offset, self.cursor.topic_id, self._rules.encode(offset))

    # --- requests

    def roll(self, keys: Iterable[Key]) -> None:
        """Re-append these pending records in the next commits, so that they no longer pin the low offset."""
        self._to_roll.update(dict.fromkeys(keys))

    def find(self, message_id: MessageId) -> Pending | None:
        """A pending message of this shard by the id of its first acceptance."""
        key = self._key(message_id)
        moving = self._moving.get(str(message_id))
        key, value = moving or (key, self._index.get(key))
        if value is None:
            return None
        meta, packed = decode_value(value)
        if meta is not None and meta.dead_code is not None:
            return Pending(key, as_it_came(packed), meta.accepted_at_ms, 0)
        record = decode_packed(packed)
        shown = record._replace(headers=record.headers[:-1])
        return Pending(key, shown, accepted_at_ms_of(packed), (meta.version if meta else 0) + (moving is not None))

    def pending(self) -> tuple[ShardIndex, Mapping[str, tuple[Key, bytes]]]:
        """The index, and by message id what is re-appended and not read back: its new due time, its old value."""
        return self._index, self._moving

    def due_ms(self, record: LogRecord) -> int | None:
        """When the message of a buffer record is due; None for a record that is no message."""
        meaning = read(record.body, record.appended_at_ms, self._rules.latest)
        return meaning.due_ms if isinstance(meaning, Message) else None
