"""The cursor: how far delivery of one shard got, and whose word it is.

One sentence gives the cursor its meaning:

    A record of the shard is terminal when (offset < O and key <= D), or when a decision record or a re-append
    names its offset. Nothing else; but for what an operator has had skipped, which is never read.

    O  next_offset    the read position, or earlier: the first pending record <= D. Fixed when the batch is taken
    D  delivered_key  the key of the last delivered record; it only grows, and it is never the clock
    L  low_offset     no record below it is pending; L <= O. The buffer may be trimmed up to a committed L

The cursor is committed in the same atomic step as what it describes. Page: docs/formats/cursor.md.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from delayline.errors import UnknownFormat
from delayline.records.message import BEFORE_ALL, Key
from delayline.schedule.rules import DEFAULT_RULES, Rules

VERSION = 3
WITHOUT_SKIPPED = 2
"""Still written where nothing was skipped, which is nearly always: an older program can go on."""

_FIXED = struct.Struct(">BQqqQI16s?BH")
_FIXED_1 = struct.Struct(">BQqqQI16sBH")
"""Version 1 knew no pause."""
CURSOR_BYTES_MAX = 2048
SKIPPED_MAX = 64
"""Ranges at once: 1,025 bytes. They are forgotten when the low offset has passed them."""

_RANGE = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """See the module docstring. `topic_id` is the buffer topic's 16-byte identity: a topic that was deleted and
    made again has another one. `rules` are those in force at `low_offset`. While it is `paused`, nothing is
    delivered. `skipped` are ranges of offsets (the end is not among them) that could not be read, and that an
    operator has ordered to pass over; in the order in which that was."""

    topic_id: bytes
    next_offset: int = 0
    delivered_key: Key = BEFORE_ALL
    low_offset: int = 0
    owner_epoch: int = 0
    writer: str = ""
    rules: Rules = field(default=DEFAULT_RULES)
    paused: bool = False
    skipped: tuple[tuple[int, int], ...] = ()

    @property
    def progress(self) -> tuple[int, Key, int, int, tuple[tuple[int, int], ...]]:
        """Of two cursors of a shard, the one that was committed later does not have less of it."""
        return self.owner_epoch, self.delivered_key, self.next_offset, self.low_offset, self.skipped

    def skipped_until(self, offset: int) -> int | None:
        """Where reading goes on behind `offset`, where that was skipped."""
        return next((end for start, end in self.skipped if start <= offset < end), None)

    def covers(self, key: Key) -> bool:
        """Whether a record with this key is terminal by the cursor alone (it may be terminal by name, too)."""
        return key.offset < self.next_offset and key <= self.delivered_key

    def uncovered(self, entries: list[tuple[int, int, bytes]]) -> list[tuple[int, int, bytes]]:
        """Those of them, as `(due_ms, offset, value)`, that are not terminal by the cursor alone. Offsets ascend."""
        if not entries or entries[0][1] >= self.next_offset:
            return entries
        next_offset, delivered = self.next_offset, self.delivered_key
        return [entry for entry in entries if entry[1] >= next_offset or entry[:2] > delivered]

    def unskipped(self, records: Sequence[tuple[int, int, bytes]]) -> Sequence[tuple[int, int, bytes]]:
        """Those of them, as `(offset, time, body)`, that are to be read."""
        if not self.skipped:
            return records
        return [record for record in records if self.skipped_until(record[0]) is None]

    def encode(self) -> bytes:
        """Less than CURSOR_BYTES_MAX: Kafka takes 4096 bytes of commit metadata."""
        writer, rules = self.writer.encode(), self.rules.encoded
        assert len(self.topic_id) == 16, "a shorter one would be padded, and then be another"
        ranges = b"".join(_RANGE.pack(*one) for one in self.skipped)
        ranges = bytes((len(self.skipped),)) + ranges if ranges else b""
        fixed = _FIXED.pack(
            VERSION if ranges else WITHOUT_SKIPPED,
            self.next_offset,
            *self.delivered_key,
            self.low_offset,
            self.owner_epoch,
            self.topic_id,
            self.paused,
            len(writer),
            len(rules),
        )
        return fixed + writer + rules + ranges

    @classmethod
    def decode(cls, data: bytes) -> "Cursor":
        """Raises UnknownFormat: a cursor that cannot be read must stop its shard, never be guessed."""
        version = data[0] if data else 0
        if version not in (1, WITHOUT_SKIPPED, VERSION):
            raise UnknownFormat(f"cursor format {version or 'missing'}, this program knows {VERSION}")
        layout = _FIXED_1 if version == 1 else _FIXED
        if len(data) < layout.size:
            raise UnknownFormat("a cursor that is cut short")
        _, next_offset, due_ms, offset, low, epoch, topic_id, *paused, writer_len, rules_len = layout.unpack_from(
            data
        )
        rules_at = layout.size + writer_len
        ranges = data[rules_at + rules_len :]
        count = ranges[0] if version == VERSION and ranges else 0
        if len(data) != rules_at + rules_len + (1 + count * _RANGE.size if version == VERSION else 0):
            raise UnknownFormat("a cursor of the wrong length")
        try:
            writer = data[layout.size : rules_at].decode()
        except UnicodeDecodeError as error:
            raise UnknownFormat("a cursor whose writer is not UTF-8") from error
        return cls(
            topic_id=topic_id,
            next_offset=next_offset,
            delivered_key=Key(due_ms, offset),
            low_offset=low,
            owner_epoch=epoch,
            writer=writer,
            rules=Rules.decode(data[rules_at : rules_at + rules_len]),
            paused=any(paused),
            skipped=tuple(_RANGE.iter_unpack(ranges[1:])),
        )


def newest(*found: Cursor | None) -> Cursor | None:
    """The one that was committed last; of equal ones the first."""
    return max((cursor for cursor in found if cursor is not None), key=lambda cursor: cursor.progress, default=None)
