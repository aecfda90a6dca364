"""The part of a shard's index that is on disk, and what makes it cheap to take from.

Records leave at the low end, and RocksDB turns what has left into tombstones that a scan from the start would have to
walk again and again. So a shard remembers where its records begin:

    head     the lowest record rows on disk, ascending, none left out up to its last one
    floor    every row that is not in `head` is at or above it

    scan     starts at head[0], or at floor; leaves in `head` what it saw and the row that it stopped at
    put      below the floor cuts `head` there and becomes its last one: nothing is ever put where no scan looks
    remove   of the first n of `head` is one range deletion, because nothing else lies between them

A removal that the disk has no room for is *owed*: readers do not see what it names, and it goes before
everything else into the next write, so that the disk still holds a prefix of what happened.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from operator import itemgetter

import structlog
from rocksdict import WriteBatch

from delayline.buffer.record import is_repeat
from delayline.records.message import Key
from store import keys
from store.counts import Counts
from store.database import Database, bounded_by
from store.errors import StoreFull
from store.index import Checkpoint, Covered, Entry, PlainEntry

log = structlog.get_logger(__name__)

_RETAIN_ROWS = 1024
"""Of a step, which takes 1.4 ms of CPU: a shard's owner does other things in between."""
_DUE, _OFFSET, _VALUE = itemgetter(0), itemgetter(1), itemgetter(2)


@dataclass(slots=True)
class _Removal:
    """Rows to delete: all in [first, end), which is empty or begins at the shard's lowest record, and `rows`.
    `checkpoint` is to be stored with it. Bounded by what is on disk: a range, and a row for each further record."""

    first: bytes = b""
    end: bytes = b""
    rows: set[bytes] = field(default_factory=set)
    checkpoint: Checkpoint | None = None
    freed_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.end or self.rows or self.checkpoint)

    def hides(self, row: bytes) -> bool:
        # A range starts at the lowest record of the shard, so every row below its end is removed: no lower bound is
        # needed.
        return row < self.end or row in self.rows

    def add(self, later: "_Removal") -> None:
        """Two ranges at the low end with nothing present between them are one."""
        if later.end:
            self.first, self.end = self.first or later.first, later.end
        self.rows |= later.rows
        self.freed_bytes += later.freed_bytes
        # The later checkpoint replaces the earlier one: both belong to removals that are written together.
        self.checkpoint = later.checkpoint or self.checkpoint

    def write_to(self, batch: WriteBatch, number: int) -> int:
        """How many range deletions it took."""
        if self.end:
            # One tombstone instead of one per record: draining a million records in order costs a few range
            # deletions.
            batch.delete_range(self.first, self.end)
        for row in self.rows:
            batch.delete(row)
        if self.checkpoint is not None:
            batch.put(keys.checkpoint_row(number), keys.encode_checkpoint(self.checkpoint))
        return 1 if self.end else 0


class DiskTier:
    """The records of shard `number` on disk. `retain` or `reset` comes first where there are any from before."""

    def __init__(self, database: Database, number: int) -> None:
        self._database = database
        self._number = number
        self._bound = bounded_by(keys.shard_end(number))
        self._start_empty()

    def _start_empty(self) -> None:
        self._count = 0
        self._named = 0  # names on disk; 0 spares every look for them
        self._head: list[bytes] = []
        self._floor = keys.shard_end(self._number)
        self._seen_names: dict[bytes, list[bytes]] = {}  # of the records that the last read returned
        self._row_bytes = keys.RECORD_BYTES  # the mean of the last read
        self._owed = _Removal()

    def __len__(self) -> int:
        return self._count

    def has_rows(self) -> bool:
        """Whether anything of an earlier time is on disk."""
        found = next(self._database.keys(keys.shard_start(self._number), self._bound), None)
        return found is not None or self.checkpoint() is not None

    def checkpoint(self) -> Checkpoint | None:
        stored = self._database.get(keys.checkpoint_row(self._number))
        return None if stored is None else keys.decode_checkpoint(stored)

    # --- taking in

    def put(
        self, entries: Sequence[PlainEntry], names: Sequence[tuple[bytes, Key]], *, reserve: bool = False
    ) -> None:
        """Take in ascending entries. Hot: once per record, 2 us, most of them RocksDB's own. `reserve` lets it use
        the room that is kept free. Raises StoreFull; then nothing of it is present."""
        batch = self._database.batch()
        ranges = self._owed.write_to(batch, self._number)
        rows = list(map(keys.encode_record, repeat(self._number), map(_DUE, entries), map(_OFFSET, entries)))
        # The loop runs in C: a Python loop here costs as much again as RocksDB itself.
        deque(map(batch.put, rows, self._database.stored(rows, map(_VALUE, entries))), maxlen=0)
        for name, key in self._hidden(names):
            batch.put(keys.name_row(keys.encode_record(self._number, *key), name), b"")
            batch.put(keys.lookup_row(self._number, name), keys.encode_key(key))
        # Before the write: RocksDB accepts a batch into memory and fails at the flush, when the caller has gone on.
        self._database.space.admit(sum(map(len, map(_VALUE, entries))), reserve=reserve)
        self._database.write(batch, ranges)
        self._owed = _Removal()
        self._count += len(rows)
        self._named += len(names)
        # `_rows` starts at the floor: a record below it would not be found.
        if rows and rows[0] < self._floor:
            self._lower_floor(rows[0])

    def _hidden(self, names: Sequence[tuple[bytes, Key]]) -> Iterator[tuple[bytes, Key]]:
        return ((self._database.name(name), key) for name, key in names)

    def bind(self, name: bytes, key: Key) -> None:
        """Raises StoreFull."""
        name = self._database.name(name)
        record = keys.encode_record(self._number, *key)
        batch = self._database.batch()
        ranges = self._owed.write_to(batch, self._number)
        batch.put(keys.name_row(record, name), b"")
        batch.put(keys.lookup_row(self._number, name), keys.encode_key(key))
        self._database.write(batch, ranges)
        self._owed = _Removal()
        self._named += 1
        # The names of this record as the last read saw them are outdated: a removal would leave the new one behind.
        self._seen_names.pop(record, None)

    def _lower_floor(self, row: bytes) -> None:
        # What the head knows above the new row is dropped: it is no longer known that nothing lies between.
        del self._head[bisect_left(self._head, row) :]
        self._head.append(row)
        self._floor = keys.behind(row)

    # --- reading

    def read(self, until_ms: int, records_max: int, bytes_max: int) -> list[PlainEntry]:
        """The lowest records due at or before `until_ms`, up to and with the one that passes `bytes_max`: the
        caller merges them with those in memory, and must know where to stop. Copies one record more. Hot: once per
        record."""
        limit = keys.first_after_ms(self._number, until_ms)
        if not self._count or (self._head and self._head[0] >= limit):
            return []
        head: list[bytes] = []
        values: list[bytes] = []
        names: dict[bytes, list[bytes]] = {}
        size = 0
        encrypted = self._database.cipher is not None
        for row, value in self._rows():
            if len(row) != keys.RECORD_BYTES:
                names.setdefault(head[-1], []).append(keys.name_of(row))
                continue
            head.append(row)
            # The row is kept as the head although it is not returned: it is the next due time, known without another
            # seek.
            if row >= limit or len(values) == records_max or size > bytes_max:
                break
            if encrypted:
                value = self._database.value(row, value)
            values.append(value)
            size += len(value)
        self._head = head
        self._row_bytes = keys.RECORD_BYTES + size // max(1, len(values))
        self._seen_names = {row: names.get(row, []) for row in head[: len(values)]} if self._named else {}
        # Read to the end, the floor is the end of the shard: everything present is in the head, and a put lowers it.
        self._floor = keys.behind(head[-1]) if len(head) > len(values) else keys.shard_end(self._number)
        return _entries(head, values)

    def _rows(self) -> Iterator[tuple[bytes, bytes]]:
        """From the lowest record on."""
        # Never from the start of the shard: an iterator there walks all tombstones of what was delivered.
        rows = self._database.rows(self._head[0] if self._head else self._floor, self._bound)
        return rows if not self._owed else _visible(rows, self._owed)

    def next_due_ms(self) -> int | None:
        if not self._count:
            return None
        if not self._head:
            lowest = next(row for row, _ in self._rows() if len(row) == keys.RECORD_BYTES)
            self._head, self._floor = [lowest], keys.behind(lowest)
        return keys.due_of(self._head[0])

    def scan(self, after: Key, limit: int, bytes_max: int) -> list[Entry]:
        """Records with keys above `after`, up to and with the one that passes `bytes_max`."""
        if not self._count:
            return []
        rows = self._database.rows(self._above(after), self._bound)
        records = ((row, value) for row, value in rows if len(row) == keys.RECORD_BYTES and not self._owed.hides(row))
        found: list[tuple[bytes, bytes]] = []
        size = 0
        for row, stored in islice(records, limit):
            value = self._database.value(row, stored)
            found.append((row, value))
            size += len(value)
            if size > bytes_max:
                break
        return list(map(Entry._make, _entries([row for row, _ in found], [value for _, value in found])))

    def keys(self, after: Key, limit: int) -> list[Key]:
        if not self._count:
            return []
        rows = self._database.keys(self._above(after), self._bound)
        found = list(
            islice((row for row in rows if len(row) == keys.RECORD_BYTES and not self._owed.hides(row)), limit)
        )
        return [Key(due_ms, offset) for _, due_ms, offset in keys.decode_records(found)]

    def _above(self, after: Key) -> bytes:
        """The first row that a record with a greater key can have."""
        above = keys.behind(keys.encode_record(self._number, *after)) if after.due_ms >= 0 else b""
        return max(above, self._head[0] if self._head else self._floor)

    def get(self, key: Key) -> bytes | None:
        row = keys.encode_record(self._number, *key)
        stored = None if self._owed.hides(row) else self._database.get(row)
        return None if stored is None else self._database.value(row, stored)

    def lookup(self, name: bytes) -> Key | None:
        row = keys.lookup_row(self._number, self._database.name(name))
        found = None if row in self._owed.rows else self._database.get(row)
        return None if found is None else keys.decode_key(found)

    # --- removing

    def remove(self, gone: Sequence[tuple[int, int]], checkpoint: Checkpoint | None) -> None:
        """Drop records that are all present, ascending, and store the checkpoint, in one write or, on a full disk,
        in one of the next ones."""
        rows = [keys.encode_record(self._number, *key) for key in gone]
        removal = _Removal(checkpoint=checkpoint)
        # The usual case: what the last read returned is removed in order, so one range covers it, names included.
        if rows and rows == self._head[: len(rows)]:
            removal.first, removal.end = rows[0], keys.behind(rows[-1])
            removal.freed_bytes = len(rows) * self._row_bytes
            del self._head[: len(rows)]
        else:
            removal.rows.update(rows)
            self._head = [row for row in self._head if row not in removal.rows]
        if self._named:
            self._remove_names(rows, removal)
        # Counted now, even if the disk refuses the write: for every reader the records are gone (`hides`).
        self._count -= len(rows)
        self._owed.add(removal)
        self._try_write_owed()

    def _remove_names(self, rows: Iterable[bytes], removal: _Removal) -> None:
        """A name that a later record has taken over stays with that one."""
        for row in rows:
            for name in self._names_of(row):
                self._named -= 1
                # A range deletion covers the name rows, which sort behind their record; single deletions do not.
                if not removal.end:
                    removal.rows.add(keys.name_row(row, name))
                lookup_row = keys.lookup_row(self._number, name)
                if self._database.get(lookup_row) == row[-16:]:
                    removal.rows.add(lookup_row)

    def _names_of(self, row: bytes) -> list[bytes]:
        seen = self._seen_names.pop(row, None)
        if seen is not None:
            return seen
        named = bounded_by(keys.behind(row))
        return [keys.name_of(found) for found in self._database.keys(keys.name_row(row, b""), named)]

    def discard(self, key: Key) -> bool:
        present = self.get(key) is not None
        if present:
            self.remove([key], None)
        return present

    def write_owed(self) -> None:
        """Write what is owed. Raises StoreFull."""
        if not self._owed:
            return
        batch = self._database.batch()
        ranges = self._owed.write_to(batch, self._number)
        self._database.write(batch, ranges, self._owed.freed_bytes)
        self._owed = _Removal()

    def _try_write_owed(self) -> None:
        try:
            self.write_owed()
        except StoreFull as error:
            # Not raised: the commit is true already, so the caller cannot take the removal back.
            log.warning("index removal postponed: no room on disk", shard_number=self._number, detail=str(error))

    # --- taking over

    def reset(self) -> None:
        """Raises StoreFull."""
        batch = self._database.batch()
        batch.delete(keys.checkpoint_row(self._number))
        batch.delete_range(keys.shard_start(self._number), keys.shard_end(self._number))
        # Lookup rows are kept apart from the records, so that a name is found by one get; a reset needs a range of
        # its own.
        batch.delete_range(keys.lookup_row(self._number, b""), keys.lookup_row(self._number + 1, b""))
        self._database.write(batch, ranges=2)
        self._start_empty()

    def retain(self, low_offset: int, resume_offset: int, covered: Covered, counts: Counts) -> Iterator[None]:
        """One scan, in steps: drop what `ShardIndex.retain` describes, count the rest. Raises StoreFull.

        A checkpoint above `resume_offset` goes first: until the records dropped there are read again, the index
        cannot vouch for them, not even after a crash between here and there."""
        stored = self.checkpoint()
        self._start_empty()
        if stored is not None and stored.offset > resume_offset:
            batch = self._database.batch()
            batch.delete(keys.checkpoint_row(self._number))
            self._database.write(batch)
        # The same rule as Cursor.covers, written out: this runs once per record of a takeover, over millions.
        next_offset, delivered = covered

        def ends(due_ms: int, offset: int) -> bool:
            passed = offset < next_offset and (due_ms, offset) <= delivered
            # Below L nothing is pending; at or above the resume offset the log is read again, and a put expects
            # absence.
            return passed or not low_offset <= offset < resume_offset

        for rows, names, repeats in self._chunks():
            self._retain_chunk(rows, names, ends, counts)
            counts.repeats.add_known(
                offset for _, due_ms, offset in keys.decode_records(repeats) if not ends(due_ms, offset)
            )
            yield

    def _retain_chunk(
        self,
        rows: list[bytes],
        names: list[tuple[bytes, bytes]],
        ends: Callable[[int, int], bool],
        counts: Counts,
    ) -> None:
        records = list(keys.decode_records(rows))
        gone = {row for row, (_, due_ms, offset) in zip(rows, records, strict=True) if ends(due_ms, offset)}
        self._drop_chunk(rows, gone, [(row, name) for row, name in names if row in gone])
        kept = [record for row, record in zip(rows, records, strict=True) if row not in gone] if gone else records
        counts.add([due_ms for _, due_ms, _ in kept], [offset for _, _, offset in kept])
        self._count += len(kept)
        self._named += sum(row not in gone for row, _ in names)
        # The first record that is kept is the head, so that a fresh owner knows the next due time without another
        # scan.
        if kept and not self._head:
            self._head = [keys.encode_record(*kept[0])]
            self._floor = keys.behind(self._head[0])

    def _drop_chunk(self, rows: list[bytes], gone: set[bytes], names: list[tuple[bytes, bytes]]) -> None:
        if not gone:
            return
        removal = _Removal()
        # A whole chunk goes as one range; mixed ones row by row, since a range would take the kept records along.
        if len(gone) == len(rows):
            removal.first, removal.end = rows[0], keys.behind(rows[-1])
        else:
            removal.rows.update(gone)
        for row, name in names:
            removal.rows.add(keys.name_row(row, name))
            lookup_row = keys.lookup_row(self._number, name)
            if self._database.get(lookup_row) == row[-16:]:
                removal.rows.add(lookup_row)
        batch = self._database.batch()
        ranges = removal.write_to(batch, self._number)
        self._database.write(batch, ranges)

    def _chunks(self) -> Iterator[tuple[list[bytes], list[tuple[bytes, bytes]], list[bytes]]]:
        """Record rows, some thousand at a time, the names behind them as (record row, name), and which of the rows
        are of messages that repeat."""
        rows: list[bytes] = []
        names: list[tuple[bytes, bytes]] = []
        repeats: list[bytes] = []
        for row, stored in self._database.rows(keys.shard_start(self._number), self._bound):
            if len(row) != keys.RECORD_BYTES:
                names.append((rows[-1], keys.name_of(row)))
                continue
            # Cut only at a record row: the names behind a record must be in the chunk of their record.
            if len(rows) == _RETAIN_ROWS:
                yield rows, names, repeats
                rows, names, repeats = [], [], []
            rows.append(row)
            value = self._database.value(row, stored)
            if value[:1] > b"\0" and is_repeat(value):
                repeats.append(row)
        if rows:
            yield rows, names, repeats


def _visible(rows: Iterable[tuple[bytes, bytes]], owed: _Removal) -> Iterator[tuple[bytes, bytes]]:
    return ((row, value) for row, value in rows if not owed.hides(row))


def _entries(rows: list[bytes], values: list[bytes]) -> list[PlainEntry]:
    """Of the first records of `rows`, as many as there are values."""
    records = keys.decode_records(rows[: len(values)])
    return [(due_ms, offset, value) for (_, due_ms, offset), value in zip(records, values, strict=True)]
