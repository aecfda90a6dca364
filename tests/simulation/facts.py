"""From the bytes of a commit to facts for the checker.

Reads the documented formats (docs/formats) header by header instead of asking `delayline.buffer.record`, so that a
mistake in how the service reads its own records does not excuse itself.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from delayline.buffer.cursor import Cursor
from delayline.errors import MalformedRecord
from delayline.records.message import Header
from delayline.records.record import Record, decode_body
from mq.contract import LogRecord, ShardBatch
from tests.simulation import history
from tests.simulation.history import (
    DECISION,
    NO_TERMS,
    REAPPEND,
    RULES,
    Appended,
    Committed,
    Copy,
    Dead,
    Delivered,
    Key,
    Terms,
)
from tests.simulation.traffic import InForce
from tests.simulation.wishes import CALENDARS_MS, cron_text

SEAL = [b"delayline-accepted", b"delayline-id", b"delayline-due"]
_ROW_COLUMNS = ("off", "id", "due", "acc", "out", "suc", "rsn")


def committed(
    shard: str, part: ShardBatch, before: Cursor | None, written: Sequence[LogRecord], clock_ms: int, taken_ms: int
) -> Committed:
    """The content of one shard's part of an applied commit."""
    return Committed(
        shard,
        cursor(before) if before else None,
        cursor(part.cursor),
        [delivered(body) for body, _ in part.deliveries],
        [dead(body) for body in part.dead],
        [own_record(shard, record) for record in written],
        [row for body in part.audit for row in rows(body)],
        clock_ms,
        taken_ms,
        [mark for body in part.audit for mark in low_water(body)],
        [one for body in part.audit for one in skips(body)],
        list(map(copy_of, part.purged)),
    )


def cursor(stored: Cursor) -> history.Cursor:
    key = (stored.delivered_key.due_ms, stored.delivered_key.offset)
    return history.Cursor(
        stored.next_offset,
        key,
        stored.low_offset,
        stored.owner_epoch,
        stored.writer,
        stored.rules.number,
        stored.paused,
        stored.skipped,
    )


def payload_of(record: Record) -> tuple[Any, ...]:
    """What a sender gave and a consumer must get: key, value and the headers that are not ours."""
    return record.key, record.value, tuple(header for header in record.headers if not _is_ours(header))


def _is_ours(header: Header) -> bool:
    return header[0].startswith(b"delayline-")


def delivered(body: bytes) -> Delivered:
    record = decode_body(body)
    ours = [header for header in record.headers if _is_ours(header)]
    if [name for name, _ in ours] != SEAL or record.headers[-3:] != ours:
        return Delivered("", 0, None, ("not sealed", tuple(record.headers)))
    accepted, message_id, due = (_text(value) for _, value in ours)
    return Delivered(message_id, int(due), int(accepted), payload_of(record))


def dead(body: bytes) -> Dead:
    record = decode_body(body)
    ours = dict(record.headers)
    message_id, due, offset = (_text(ours[b"delayline-" + name]) for name in (b"id", b"due", b"offset"))
    return Dead(message_id, int(due), int(offset), payload_of(record))


def copy_of(body: bytes) -> Copy:
    record = decode_body(body)
    ours = dict(record.headers)
    message_id, undo, due = (_text(ours[b"delayline-" + name]) for name in (b"restores", b"undo", b"due"))
    return Copy(message_id, undo, int(due), payload_of(record), _terms(ours.get(b"delayline-terms")))


def rows(body: bytes) -> list[dict[str, Any]]:
    """The outcome rows of an audit record: its columns, side by side."""
    columns = _audit(body)
    if columns["kind"] != "outcomes":
        return []
    by_row = zip(*(columns[name] for name in _ROW_COLUMNS), strict=True)
    return [dict(zip(_ROW_COLUMNS, row, strict=True)) for row in by_row]


def low_water(body: bytes) -> list[tuple[int, int, int]]:
    """(next offset, due time, pending) of an audit record with how far a shard is done."""
    mark = _audit(body)
    return [(mark["next"], mark["low"], mark["pending"])] if mark["kind"] == "low_water" else []


def skips(body: bytes) -> list[tuple[int, int]]:
    """The range that an operator has had skipped, from an audit record."""
    audit = _audit(body)
    return [(audit["first"], audit["next"])] if audit["kind"] == "skipped" else []


def _audit(body: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(decode_body(body).value or b"")
    return fields


def own_record(shard: str, record: LogRecord) -> Appended:
    """A record that the service wrote into the buffer."""
    offset, at_ms, body = record
    try:
        content = decode_body(body)
    except MalformedRecord:
        return Appended(shard, offset, "unreadable", at_ms)
    ours = dict(content.headers)
    if b"delayline-decision" in ours:
        columns = msgspec.msgpack.decode(content.value or b"")
        return Appended(shard, offset, DECISION, at_ms, names=tuple(zip(columns["due"], columns["off"], strict=True)))
    if b"delayline-rules" in ours:
        return Appended(shard, offset, RULES, at_ms, rules_number=_number(ours[b"delayline-rules"]))
    return _reappend(shard, record, content, ours)


def rules_of(body: bytes) -> InForce:
    """What a rules record puts in force."""
    rules = msgspec.json.decode(decode_body(body).value or b"")
    return InForce(tuple(rules["levels_ms"]), rules["default_delay_ms"])


def _reappend(shard: str, record: LogRecord, content: Record, ours: dict[bytes, bytes | None]) -> Appended:
    origin, replaces = ours.get(b"delayline-origin"), ours.get(b"delayline-replaces")
    return Appended(
        shard,
        record.offset,
        REAPPEND,
        record.appended_at_ms,
        id=None if origin is None else origin.decode(),
        due_ms=_number(ours.get(b"delayline-due")),
        accepted_at_ms=_number(ours.get(b"delayline-accepted")),
        payload=payload_of(content),
        replaces=None if replaces is None else _key(replaces),
        terms=_terms(ours.get(b"delayline-terms")),
        version=_number(ours.get(b"delayline-version")) or 0,
    )


def _terms(written: bytes | None) -> Terms:
    """As they stand in a re-append, or a copy."""
    if written is None:
        return NO_TERMS
    fields: dict[str, Any] = msgspec.json.decode(written)
    series, idempotency = fields.pop("series", {}), fields.pop("idempotency", None)
    terms = Terms(
        idempotency=idempotency and (idempotency["key"], idempotency["digest"]),
        gap_ms=series.pop("every_ms", None),
        cron=cron_text(series["cron"], series.pop("zone", "UTC")) if "cron" in series else None,
        calendar_ms=CALENDARS_MS[series.pop("cron")] if "cron" in series else None,
    )
    return terms._replace(**fields, **series)


def _number(value: bytes | None) -> int | None:
    return None if value is None else int(value)


def _key(value: bytes) -> Key:
    due_ms, offset = value.split(b".")
    return int(due_ms), int(offset)


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
