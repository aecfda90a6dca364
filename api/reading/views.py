"""Records and messages as documents."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from api.bodies.answers import (
    DeadLetterOut,
    EndingOut,
    EventOut,
    HeaderOut,
    MessageOut,
    OperationOut,
    RecordOut,
    RepeatOut,
)
from api.reading.dead_letters import Letter
from api.sending.sender import partition_label
from delayline.questions.inquiry import VERSION_MISMATCH, WAITING, Ending, Found, Resolution, State
from delayline.records.message import Header, OperationId
from delayline.records.record import decode_body
from delayline.schedule.recurrence import ticks
from delayline.schedule.terms import Series
from delayline.times import format_duration, format_moment
from mq.contract import LogRecord


def text_or_base64(data: bytes | None) -> tuple[str | None, bytes | UnsetType]:
    """(text, base64): the second only for bytes that are no UTF-8, so that every byte string survives."""
    if data is None:
        return None, UNSET
    try:
        return data.decode(), UNSET
    except UnicodeDecodeError:
        return None, data


def headers_out(headers: Sequence[Header]) -> list[HeaderOut]:
    """Names are text by the protocols' own rules; bytes in them that are none are shown as replaced."""
    return [HeaderOut(name.decode("utf-8", "replace"), *text_or_base64(value)) for name, value in headers]


def record_out(partition: str, log_record: LogRecord) -> RecordOut:
    """Raises MalformedRecord for a body that no adapter should have handed out."""
    record = decode_body(log_record.body)
    key, key_base64 = text_or_base64(record.key)
    value, value_base64 = text_or_base64(record.value)
    return RecordOut(
        partition=partition_label(partition),
        offset=log_record.offset,
        timestamp=format_moment(log_record.appended_at_ms),
        key=key,
        value=value,
        headers=headers_out(record.headers),
        key_base64=key_base64,
        value_base64=value_base64,
    )


def message_out(found: Found, *, full: bool) -> MessageOut:
    """The message; with `full` and while it waits, what it carries, too."""
    shard = found.id.shard
    payload = full and found.state in WAITING
    key, key_base64 = text_or_base64(found.key) if payload else (UNSET, UNSET)
    value, value_base64 = text_or_base64(found.value) if payload else (UNSET, UNSET)
    return MessageOut(
        message_id=str(found.id),
        topic=shard.topic,
        partition=partition_label(shard.partition),
        state=found.state,
        accepted_at=format_moment(found.accepted_at_ms),
        due_at=format_moment(found.due_ms),
        version=found.version,
        outcome=None if found.ending is None else ending_out(found.ending),
        **_terms_out(found),
        key=key,
        key_base64=key_base64,
        value=value,
        value_base64=value_base64,
        headers=headers_out(found.headers) if payload else UNSET,
        history=[EventOut(format_moment(event.at_ms), *event[1:]) for event in found.history],
    )


def _terms_out(found: Found) -> dict[str, Any]:
    """What the message asked for beside its time, while it waits."""
    terms = found.terms
    if terms is None:
        return {}
    series, expires_ms = terms.series, terms.expires_ms(found.due_ms)
    next_due_ms = None if series is None else next(islice(ticks(series, found.due_ms), 1, 2), None)
    ends = next_due_ms is None or (terms.expire_at_ms is not None and next_due_ms > terms.expire_at_ms)
    return {
        "own_id": terms.own_id,
        "next_due_at": None if next_due_ms is None or ends else format_moment(next_due_ms),
        "expires_at": UNSET if expires_ms is None else format_moment(expires_ms),
        "repeat": UNSET if series is None else _repeat_out(series),
    }


def _repeat_out(series: Series) -> RepeatOut:
    return RepeatOut(
        cron=series.cron,
        time_zone=None if series.cron is None else series.zone,
        every=None if series.every_ms is None else format_duration(series.every_ms),
        backoff=series.backoff,
        missed=series.missed,
        times_left=series.times_left,
        occurrence=series.occurrence,
    )


def row_out(found: Found) -> MessageOut:
    """A message as a row of a list: of what it carries, the key alone, while it waits."""
    key, key_base64 = text_or_base64(found.key) if found.state in WAITING else (UNSET, UNSET)
    return replace(message_out(found, full=False), key=key, key_base64=key_base64, history=UNSET)


def dead_letter_out(letter: Letter) -> DeadLetterOut:
    content = letter.content
    key, key_base64 = text_or_base64(content.original.key)
    value, value_base64 = text_or_base64(content.original.value)
    return DeadLetterOut(
        id=letter.id,
        message_id=content.message_id,
        topic=content.topic,
        partition=partition_label(content.partition),
        offset=content.offset,
        due_at=format_moment(content.due_ms),
        dead_at=format_moment(letter.dead_at_ms),
        error_code=content.code,
        reason=content.reason,
        key=key,
        key_base64=key_base64,
        value=value,
        value_base64=value_base64,
        headers=headers_out(content.original.headers),
    )


def operation_out(operation: OperationId, resolution: Resolution | None, target: str) -> OperationOut:
    """An operation; None: it is not decided yet."""
    if resolution is None:
        return OperationOut(str(operation), State.ACCEPTED, target)
    is_mismatch = resolution.reason == VERSION_MISMATCH
    return OperationOut(str(operation), VERSION_MISMATCH if is_mismatch else resolution.outcome, target)


def ending_out(ending: Ending) -> EndingOut:
    return EndingOut(ending.outcome, format_moment(ending.at_ms), ending.lateness_ms, ending.reason)
