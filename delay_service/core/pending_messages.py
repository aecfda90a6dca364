"""The pending messages of a shard by message id and by name: what the index knows, and what it cannot know yet.

Names (own ids and idempotency keys) are unique among pending messages, and a conditional message gets its names only
by a decision (`operations`). Two things make them more than a column of the index:

  - While a shard is read again, two records may stand side by side that had the same name one after the other,
    because the record that ended the first one is read later. Their names are *contested* until all has been read.
  - A disk without room takes no new names. They are *owed*, and the checkpoint does not pass their records.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from delay_service.core.batch_draft import BatchDrafter
from delay_service.core.dead import as_it_came
from delay_service.core.pending_reappends import PendingReappends
from delay_service.core.pending_record import Known, PendingRecord
from delayline.buffer.record import Operation
from delayline.questions.inquiry import Held, RequestedNames
from delayline.records.message import Key, MessageId, Shard
from delayline.records.record import Record, accepted_at_ms_of, decode_packed
from delayline.schedule.terms import Terms, key_name, own_name
from mq.contract import Append
from store.errors import StoreFull
from store.index import ShardIndex

REMEMBERED_MAX = 100_000
"""Idempotency keys of ended messages, per shard: about 300 B each."""

Name = tuple[bytes, Key]
Forward = Callable[[Operation], Append | None]


class Pending(NamedTuple):
    """A message that waits, as its owner knows it."""

    message_id: str
    key: Key
    record: Record
    accepted_at_ms: int
    version: int
    terms: Terms | None = None


class PendingMessages:
    """See the module docstring. A `pending_record.View` for `operations`."""

    def __init__(
        self, shard: Shard, index: ShardIndex, drafter: BatchDrafter, forward: Forward, retention_ms: int
    ) -> None:
        self.moving = PendingReappends()
        self.forward = forward
        self._shard = shard
        self._index = index
        self._drafter = drafter
        self._retention_ms = retention_ms
        self._contested: dict[bytes, list[Key]] = {}
        self._owed: dict[bytes, Key] = {}
        self._remembered: OrderedDict[bytes, tuple[int, Known]] = OrderedDict()  # its oldest is found at once

    def waiting(self) -> tuple[ShardIndex, Mapping[str, tuple[Key, bytes]]]:
        """The index, and by message id what is re-appended and not read back: its new due time, its old value."""
        return self._index, self.moving.all()

    def repeats(self) -> int:
        """How many messages that repeat are pending, with those that are re-appended and not read back."""
        return self._index.repeats() + self.moving.repeats()

    # --- names

    def free(self, names: Iterable[Name]) -> list[Name]:
        """Those that no message has, of a conditional message that was decided, or a re-append that is read; the
        others are contested."""
        free: list[Name] = []
        for name, key in names:
            holder = self._index.lookup(name)
            # rule name-held: a name would be taken from the message that has it.
            if holder is None or holder == key or self._index.get(holder) is None:
                free.append((name, key))
            else:
                self._contested.setdefault(name, [holder]).append(key)
        return free

    def resolve_contested(self) -> None:
        """Everything has been read: of those that had a name one after the other, at most one is still there."""
        for name, keys in self._contested.items():
            if self._bound(name) is None:
                # rule name-resolved: a message would not be found by a name that two records had one after the other.
                self._owed.update((name, key) for key in keys if self._index.get(key) is not None)
        self._contested.clear()
        self.write_owed()

    def bind(self, names: Mapping[bytes, Key], ended: Collection[tuple[int, int]]) -> None:
        """Give names to records that a commit leaves. Those that it `ended` get none: the re-append that carries the
        message on may have been read before the commit was known to be true, and has the name then."""
        self._owed.update(names)
        self._owed = {name: key for name, key in self._owed.items() if key not in ended}
        self.write_owed()

    def write_owed(self) -> None:
        """As far as the disk has room."""
        try:
            while self._owed:
                name, key = next(iter(self._owed.items()))
                if self._index.get(key) is not None:
                    self._index.bind(name, key)
                del self._owed[name]
        except StoreFull:
            return

    @property
    def has_unbound_names(self) -> bool:
        """Whether names wait for the next batch."""
        return bool(self._contested or self._owed)

    @property
    def owes(self) -> bool:
        """Whether the disk has had no room for some names."""
        return bool(self._owed)

    def owed_low(self) -> int | None:
        """The lowest offset of a record whose name is owed."""
        return min((key.offset for key in self._owed.values()), default=None)

    def _key_of(self, name: bytes) -> Key | None:
        """Of a record that is present. A name may be contested for a moment."""
        # rule name-contested: until it is resolved no message would be found by the name, and a second one could get
        # it.
        return self._bound(name) or self._present(self._contested.get(name, ()))

    def _bound(self, name: bytes) -> Key | None:
        # rule name-owed: a name that the disk had no room for would be free.
        return self._present((self._owed.get(name), self._index.lookup(name)))

    def _present(self, keys: Iterable[Key | None]) -> Key | None:
        return next((key for key in keys if key is not None and self._index.get(key) is not None), None)

    # --- pending_record.View

    def carrier(self, ref: MessageId) -> PendingRecord | None:
        """The record that carries this message, or the series that it is an occurrence of, now."""
        key = self.key(ref)
        return None if key is None else self.at(key)

    def key(self, ref: MessageId) -> Key | None:
        if ref.shard != self._shard:
            return None
        # rule series-id: the index knows the series: an operation on an occurrence would find nothing.
        found = self._index.lookup(str(ref._replace(occurrence=None)).encode())
        return found or Key(ref.due_ms, ref.offset)

    def holder(self, name: bytes) -> PendingRecord | None:
        key = self._key_of(name)
        return None if key is None else self.at(key)

    def at(self, key: Key) -> PendingRecord | None:
        value = self._index.get(key)
        return None if value is None else self._drafter.pending_record(key, value)

    def scan(self, after: Key, limit: int) -> list[PendingRecord]:
        return [self._drafter.pending_record(entry.key, entry.value) for entry in self._index.scan(after, limit)]

    def remembered(self, name: bytes) -> Known | None:
        found = self._remembered.get(name)
        return None if found is None else found[1]

    # --- for people

    def find(self, message_id: MessageId) -> Pending | None:
        """A pending message by the id of its first acceptance; an occurrence only while it waits."""
        series_id = str(message_id._replace(occurrence=None))
        moved = self.moving.get(series_id)
        if moved is not None:
            pending = self._drafter.pending_record(moved.key, moved.value)._replace(message_id=series_id)
            return self._pending(pending, version=pending.version + 1)
        found = self.carrier(message_id)
        if found is None or (message_id.occurrence is not None and found.row_id != str(message_id)):
            return None
        return self._pending(found, version=found.version)

    def find_named(self, name: bytes) -> Pending | None:
        """The pending message with this own id (`terms.own_name`) or idempotency key (`terms.key_name`)."""
        # rule find-moving: a message on its way to another record would be called unknown.
        moved = self.moving.holder(name)
        if moved is not None:
            return self.find(MessageId.parse(moved[0]))
        found = self.holder(name)
        return None if found is None else self._pending(found, version=found.version)

    def held(self, requested: RequestedNames) -> Held:
        """Who has one of these names. An accepted request comes first, as where conditional messages are decided."""
        own_id, key = requested
        if key is not None and (self.remembered(key_name(key)) or self.find_named(key_name(key))):
            return Held.REQUEST
        holder = None if own_id is None else self.find_named(own_name(own_id))
        if holder is None:
            return Held.FREE
        return Held.REPEAT if holder.terms is not None and holder.terms.series is not None else Held.MESSAGE

    @staticmethod
    def _pending(pending: PendingRecord, version: int) -> Pending:
        key, _, meta, packed, message_id, _ = pending
        if meta is not None and meta.dead_code is not None:
            return Pending(message_id, key, as_it_came(packed), meta.accepted_at_ms, 0)
        record = decode_packed(packed)
        shown = record._replace(headers=record.headers[:-1])
        return Pending(message_id, key, shown, accepted_at_ms_of(packed), version, pending.terms)

    # --- what has ended

    def remember(self, ended: Iterable[tuple[bytes, Known]], at_ms: int) -> None:
        """Whose request a repetition would be, for as long as history is kept."""
        self._remembered.update((name, (at_ms, known)) for name, known in ended)
        while self._remembered:
            oldest = next(iter(self._remembered))
            if len(self._remembered) <= REMEMBERED_MAX and at_ms - self._remembered[oldest][0] <= self._retention_ms:
                return
            del self._remembered[oldest]
