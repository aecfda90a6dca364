"""What an undo needs: the records of the topic `<namespace>.purged`. Page: docs/formats/purged.md.

    opening  written before a purge or a bulk cancel is asked for. Its place, `<partition>.<offset>`, is the id of the
             undo; its value has which of both it is, and where each partition of the topic ended then
    copy     of a message that was ended for good, by the commit that ended it. It is the very record that brings the
             message back into its buffer: `delayline-restores` with the id that it had, `delayline-due`, `-terms`
    mark     written together with what was brought back: `delayline-restored` is the offset below which all copies of
             this undo in this partition are back

Copies and marks have `delayline-undo`, the id. Copies of one shard are in one partition (`spread`).
"""

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from delayline.buffer.record import decode_value
from delayline.errors import MalformedMessageId, MalformedRecord
from delayline.records.headers import DUE, RESTORED, RESTORES, TERMS, UNDO
from delayline.records.message import Header, MessageId, Shard
from delayline.records.record import decode_body, decode_packed, encode_body
from delayline.schedule.terms import Terms

_NO_TERMS = Terms()


PURGE, CANCEL = "purge", "cancel"
"""What an undo is of."""

UNDO_MAX_MS = 24 * 3_600_000
"""The longest time for which an undo can be opened: the setting `history.undo`."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """`of` is PURGE or CANCEL; `topic_id` is that of the topic whose messages are meant, in hexadecimal; `ends` are
    the offsets behind the last record of each partition of `<namespace>.purged`: no copy is before them."""

    of: str
    topic: str
    topic_id: str
    undo_ms: int
    ends: dict[str, int]


class Copy(NamedTuple):
    """Of a message of `shard`, for the undo with this id."""

    undo: str
    shard: Shard


class Mark(NamedTuple):
    """All copies of the undo below `offset`, in this partition, are back."""

    undo: str
    offset: int


_OPENING = msgspec.json.Decoder(Opening)


def encode_opening(opening: Opening) -> bytes:
    return encode_body(opening.topic.encode(), msgspec.json.encode(opening))


def read_opening(body: bytes) -> Opening | None:
    """None for any other record."""
    try:
        _, value, headers = decode_body(body)
        # A copy has the value that a client gave it, which may read like an opening.
        return None if headers else _OPENING.decode(value or b"")
    except (MalformedRecord, msgspec.DecodeError):
        return None


def encode_copy(value: bytes, message_id: str, due_ms: int, undo: str, terms: Terms | None) -> bytes:
    """Of the message with this index value, that was due then and asked for `terms`. It comes back without its
    idempotency key, which its shard remembers as that of what was cancelled; and without the wish to replace others:
    who has its own id by then has come later."""
    record = decode_packed(decode_value(value)[1])
    ours: list[Header] = [
        (RESTORES, message_id.encode()),
        (UNDO, undo.encode()),
        # rule copy-due: the message would come back at another time.
        (DUE, b"%d" % due_ms),
    ]
    # rule copy-key: the message would be refused as a repetition of itself: lost.
    kept = _NO_TERMS if terms is None else replace(terms, idempotency=None, replaces=False)
    if kept != _NO_TERMS:
        # rule copy-terms: the message would come back without deadline, own id and series.
        ours.append((TERMS, kept.encoded))
    return encode_body(record.key, record.value, record.headers + ours)


def encode_mark(mark: Mark) -> bytes:
    return encode_body(None, None, [(UNDO, mark.undo.encode()), (RESTORED, b"%d" % mark.offset)])


def read_purged(body: bytes) -> Copy | Mark | None:
    """None for any other record, as of an undo that is opened."""
    try:
        headers = dict(decode_body(body).headers)
        undo = (headers.get(UNDO) or b"").decode()
        if not undo:
            return None
        if (restores := headers.get(RESTORES)) is not None:
            return Copy(undo, MessageId.parse(restores.decode()).shard)
        return Mark(undo, int(headers.get(RESTORED) or b""))
    except (MalformedRecord, MalformedMessageId, ValueError):
        return None
