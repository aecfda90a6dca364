"""Records of a queue as rows: Arrow batches, made by executors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from delayline.buffer.facts import BufferFact, fact_of
from delayline.errors import UnknownFormat
from delayline.records.content import digest_of_delivered
from delayline.records.headers import DUE, ID
from delayline.records.message import Shard
from delayline.records.record import decode_body
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.contract import LogRecord
from reconcile.errors import CannotJudge
from reconcile.frames.schemas import ACCEPTED
from reconcile.logic.ledger import SKIPPED
from reconcile.logic.plan import Range, Read

BATCH_ROWS = 5000
"""Enough for what a batch costs by itself to be nothing beside its rows."""

_DIGITS_OF_A_LONG = 19

RAW = StructType(
    [
        StructField("audit_partition", IntegerType(), False),
        StructField("audit_offset", LongType(), False),
        StructField("value", BinaryType(), True),
    ]
)
"""A record of the audit topic as it is there."""


def batch(schema: StructType, columns: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Columns in the schema's order."""
    arrow = to_arrow_schema(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def accepted(read: Read, chunks: Iterable[Sequence[LogRecord]], name: str = "") -> Iterator[pa.RecordBatch]:
    """Rows by `schemas.ACCEPTED` of one shard's records, in order from where `read` begins. Hot: once per record.
    `name` is the shard's, if that is not its number.

    Raises CannotJudge for a record of ours that this program does not know: it cannot know what the outcome of that
    record should be, nor of those behind it."""
    rules = DEFAULT_RULES if read.rules is None else _decoded(read)
    shard = Shard(read.topic, name or str(read.shard))
    rows = skipped(read, name)
    for chunk in chunks:
        for record in unskipped(read, chunk):
            fact = _fact(shard, record, rules)
            rules = fact.rules or rules
            rows.append((read.topic, read.shard, record.offset, *_columns(fact, record.appended_at_ms)))
        if len(rows) >= BATCH_ROWS:
            yield batch(ACCEPTED, list(zip(*rows, strict=True)))
            rows = []
    if rows:
        yield batch(ACCEPTED, list(zip(*rows, strict=True)))


def skipped(read: Read, name: str = "") -> list[tuple[Any, ...]]:
    """Rows by `schemas.ACCEPTED` of the places in the log that the read skips, called as their dead letters are."""
    shard = name or str(read.shard)
    ids = ((skip, f"{read.topic}.{shard}.{skip.first}.{skip.at_ms}") for skip in read.skips if skip.is_place)
    return [
        (read.topic, read.shard, skip.first, SKIPPED, id_, skip.at_ms, skip.at_ms, skip.at_ms, *[None] * 8)
        for skip, id_ in ids
        if read.start <= skip.first < read.end
    ]


def unskipped(read: Read, records: Sequence[LogRecord]) -> Sequence[LogRecord]:
    if not read.skips:
        return records
    places = [range(skip.first, skip.end) for skip in read.skips if skip.is_place]
    return [record for record in records if not any(record.offset in place for place in places)]


def stretches(read: Read) -> Iterator[Range]:
    """What is to be read: the places between those that are skipped may not be readable."""
    start = read.start
    for skip in sorted((skip for skip in read.skips if skip.is_place), key=lambda skip: skip.first):
        if start < min(skip.first, read.end):
            yield Range(start, min(skip.first, read.end))
        start = max(start, skip.end)
    if start < read.end:
        yield Range(start, read.end)


def _decoded(read: Read) -> Rules:
    try:
        return Rules.decode((read.rules or "").encode())
    except UnknownFormat as error:
        raise CannotJudge(f"{read.topic}, shard {read.shard}: at offset {read.start} {error}") from error


def _fact(shard: Shard, record: LogRecord, rules: Rules) -> BufferFact:
    try:
        return fact_of(shard, record.offset, record.appended_at_ms, record.body, rules)
    except UnknownFormat as error:
        raise CannotJudge(f"{shard.topic}, shard {shard.partition}, offset {record.offset}: {error}") from error


def _columns(fact: BufferFact, appended_ms: int) -> tuple[Any, ...]:
    """From `kind` on."""
    kind, name, due_ms, accepted_ms, replaces, rules, asks, ref, expires_ms, moves_to_ms, digest = fact
    replaces_due_ms, replaces_offset = replaces or (None, None)
    written = None if rules is None else rules.encoded.decode()
    times, moved = (due_ms, accepted_ms, appended_ms), (replaces_due_ms, replaces_offset)
    return kind, name, *times, *moved, written, asks, ref, expires_ms, moves_to_ms, digest


def raw(partition: int, chunks: Iterable[Sequence[tuple[int, bytes | None]]]) -> Iterator[pa.RecordBatch]:
    """Rows by `RAW` of (offset, value)."""
    for chunk in chunks:
        offsets, values = zip(*chunk, strict=True)
        yield batch(RAW, ([partition] * len(chunk), offsets, values))


def value_of(record: LogRecord) -> tuple[int, bytes | None]:
    """(offset, value) of a body."""
    return record.offset, decode_body(record.body).value


def delivery(body: bytes) -> tuple[str, int | None, int] | None:
    """(id, due time, digest) of a delivered record; None for one that did not come from here, which has no id."""
    if ID not in body:  # most of a busy topic may never have been delayed
        return None
    headers = decode_body(body).headers
    found = dict(reversed(headers))  # of two of a name, the first
    name, due = found.get(ID), found.get(DUE)
    if name is None:
        return None
    due_ms = int(due) if due is not None and due.isdigit() and len(due) < _DIGITS_OF_A_LONG else None
    return name.decode(errors="replace"), due_ms, digest_of_delivered(body, headers)
