"""Outcomes of buffer records, and the audit rows that testify to them.

Every record of a buffer topic gets exactly one outcome row, written in the commit that made it true. About a
thousand rows travel in one audit record as JSON columns, so that Spark explodes them without Python.
Page: docs/formats/audit.md.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from delayline.errors import UnknownFormat
from delayline.records.message import Shard
from delayline.records.record import encode_body

AUDIT_VERSION = 1
ROWS_PER_RECORD_MAX = 1000


class Outcome(StrEnum):
    """The outcome of a buffer record. Each is terminal: pending -> one of these, once."""

    DELIVERED = "delivered"  # its message stands in the target topic
    CANCELLED = "cancelled"  # a cancel was decided before its due time
    EXPIRED = "expired"  # its deadline had passed when it could have been delivered
    DEAD = "dead"  # it cannot be delivered; it stands in the dead-letter topic with a reason
    DUPLICATE = "duplicate"  # another pending message has its own id
    SUPERSEDED = "superseded"  # a later record carries the message on, or replaced it
    APPLIED = "applied"  # it was no message but an instruction, and was followed
    UNMATCHED = "unmatched"  # an operation that found nothing to act on


CANCELLED, RESCHEDULED, FORWARDED, PURGED = "cancelled", "rescheduled", "forwarded", "purged"
"""Reasons that tie rows together: what an operation did, or a purge, in its own row and in those of the records that
it ended so. All that an operation did is in one commit; a purge's own row is in the last one of its
commits."""

REPLACED = "replaced"
"""The reason of an outcome row whose successor is another message of the same own id."""

ROLL, SCHEDULED, REPAIR = "roll", "scheduled", "repair"
"""Reasons of `superseded` where the record that carries the message on is due at the same time."""

DEADLINE, LATE_MAX, MISSED = "deadline", "late-max", "missed"
"""Reasons of the outcome `expired`: the message's own deadline, its topic's rule, the end of a series whose last time
was missed."""


class AuditRow(NamedTuple):
    """One outcome. Times are epoch ms UTC; `id`, `due_ms` are None for records that are no messages. `successor` is
    what the message is called in the record that carries it on, if one does; of a duplicate, or of a message that was
    replaced, the other message's id."""

    offset: int
    id: str | None
    due_ms: int | None
    accepted_at_ms: int
    outcome: Outcome
    successor: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows of plain messages that one commit delivers, at most ROWS_PER_RECORD_MAX, ascending by due time. Their ids
    are made of their own offsets and due times, the outcome is `delivered`, successors and reasons there are none. By
    column, because nearly every row is one of these, and objects would cost more than all that is done with them.

    `places` are `<offset>.<due_ms>`, what their ids end with; `accepted` is the column `acc` of their audit record,
    as JSON without its brackets: most are never asked for it."""

    offsets: Sequence[int]
    dues_ms: Sequence[int]
    places: Sequence[bytes]
    accepted: bytes

    def __len__(self) -> int:
        return len(self.offsets)

    def accepted_at_ms(self) -> list[int]:
        return moments(self.accepted)

    def rows(self, shard: Shard) -> Iterator[AuditRow]:
        """The same, one by one."""
        prefix = f"{shard.topic}.{shard.partition}."
        columns = zip(self.offsets, self.places, self.dues_ms, self.accepted_at_ms(), strict=True)
        for offset, place, due_ms, accepted_at_ms in columns:
            yield AuditRow(offset, prefix + place.decode(), due_ms, accepted_at_ms, Outcome.DELIVERED)


def moments(column: bytes) -> list[int]:
    """The numbers of a column that is JSON without its brackets."""
    return _MOMENTS.decode(b"[%b]" % column)


_MOMENTS = msgspec.json.Decoder(list[int])


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of an audit record of one shard and one commit.

    kind `outcomes`: rows by column; index i of each column is one row. kind `low_water`: every record of the shard
    with an offset below `next` and a due time before `low` (epoch ms) is terminal; of all that its owner has read,
    `pending` are not (None: the writer did not record it). kind `skipped`: an operator has had the offsets from
    `first` up to `next`, which is not among them, passed over."""

    v: int
    kind: str
    topic: str
    shard: str
    epoch: int
    at: int
    off: Sequence[int] = ()
    id: Sequence[str | None] = ()
    due: Sequence[int | None] = ()
    acc: Sequence[int] = ()
    out: Sequence[str] = ()
    suc: Sequence[str | None] = ()
    rsn: Sequence[str | None] = ()
    next: int | None = None
    low: int | None = None
    pending: int | None = None
    first: int | None = None


OUTCOMES, LOW_WATER, SKIPPED = "outcomes", "low_water", "skipped"


def spread(shard: Shard, partitions: int) -> int:
    """The partition of the audit, and of its like, that has the rows of a shard: always the same one, so that it
    stays in order."""
    return crc32(".".join(shard).encode()) % partitions


def encode_audit(
    shard: Shard, owner_epoch: int, done_at_ms: int, rows: Iterable[AuditRow], plain: Sequence[PlainRows] = ()
) -> Iterator[bytes]:
    """Bodies of audit records for the rows of one commit; the key keeps a shard's rows in one partition. Where
    those that are `plain` leave room in a record, others stand behind them."""
    remaining = iter(rows)
    for block in plain:
        room = ROWS_PER_RECORD_MAX - len(block)
        columns = _joined(_plain_columns(shard, block), _columns(islice(remaining, room)))
        yield _outcomes(shard, owner_epoch, done_at_ms, columns)
    while columns := _columns(islice(remaining, ROWS_PER_RECORD_MAX)):
        yield _outcomes(shard, owner_epoch, done_at_ms, columns)


def _columns(rows: Iterable[AuditRow]) -> list[bytes]:
    """As JSON without brackets, in the order of `AuditRecord`; none for no rows."""
    return [msgspec.json.encode(column)[1:-1] for column in zip(*rows, strict=True)]


def _plain_columns(shard: Shard, rows: PlainRows) -> list[bytes]:
    """As `_columns`. Hot: once per delivered message, so everything is done to a column at a time."""
    opened = msgspec.json.encode(f"{shard.topic}.{shard.partition}.")[:-1]  # a string without its end
    ids = opened + (b'",' + opened).join(rows.places) + b'"'
    offsets, dues = (msgspec.json.encode(column)[1:-1] for column in (rows.offsets, rows.dues_ms))
    delivered, none = (text[: -len(",")] for text in (_DELIVERED * len(rows), _NONE * len(rows)))
    return [offsets, ids, dues, rows.accepted, delivered, none, none]


_DELIVERED, _NONE = msgspec.json.encode(Outcome.DELIVERED) + b",", b"null,"


def _joined(first: list[bytes], second: list[bytes]) -> list[bytes]:
    return [b"%b,%b" % pair for pair in zip(first, second, strict=True)] if second else first


def _outcomes(shard: Shard, owner_epoch: int, done_at_ms: int, columns: list[bytes]) -> bytes:
    raw: Any = (msgspec.Raw(b"[%b]" % column) for column in columns)
    record = AuditRecord(AUDIT_VERSION, OUTCOMES, shard.topic, shard.partition, owner_epoch, done_at_ms, *raw)
    return _body(shard, record)


def encode_low_water(
    shard: Shard, owner_epoch: int, at_ms: int, next_offset: int, low_ms: int, pending: int
) -> bytes:
    """The body of an audit record that records how far the shard is done, for readers who close windows of due
    time."""
    version, topic, partition = AUDIT_VERSION, shard.topic, shard.partition
    record = AuditRecord(
        version, LOW_WATER, topic, partition, owner_epoch, at_ms, next=next_offset, low=low_ms, pending=pending
    )
    return _body(shard, record)


def encode_skipped(shard: Shard, owner_epoch: int, at_ms: int, first: int | None, end: int) -> bytes:
    """The body of an audit record with the offsets that an operator has had passed over: what pends among them has
    ended by it. Without `first`, all below `end`: what was given up at a takeover."""
    record = AuditRecord(
        AUDIT_VERSION, SKIPPED, shard.topic, shard.partition, owner_epoch, at_ms, first=first, next=end
    )
    return _body(shard, record)


def _body(shard: Shard, record: AuditRecord) -> bytes:
    return encode_body(f"{shard.topic}.{shard.partition}".encode(), msgspec.json.encode(record))


_DECODER = msgspec.json.Decoder(AuditRecord)


def decode_audit(value: bytes) -> tuple[AuditRecord, list[AuditRow]]:
    """An audit record's value and its rows, none for a low water mark. Raises UnknownFormat."""
    try:
        record = _DECODER.decode(value)
        if record.v != AUDIT_VERSION:
            raise UnknownFormat(f"an audit record of version {record.v}, this program knows {AUDIT_VERSION}")
        columns = zip(record.off, record.id, record.due, record.acc, record.out, record.suc, record.rsn, strict=True)
        rows = [AuditRow(off, id_, due, acc, Outcome(out), suc, rsn) for off, id_, due, acc, out, suc, rsn in columns]
    except ValueError as error:  # msgspec.DecodeError is one
        raise UnknownFormat(f"an audit record that cannot be read: {error}") from error
    return record, rows
