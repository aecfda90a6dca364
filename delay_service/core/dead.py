"""Dead letters: the record as it came, with headers for what it was and why it could not be delivered."""

from hashlib import sha256
from typing import NamedTuple

from delayline.errors import MalformedRecord
from delayline.records import headers as names
from delayline.records.message import Header, Key, Shard
from delayline.records.record import Record, decode_body, encode_body


class Refusal(NamedTuple):
    """Why a record goes to the dead letters. `left_out`: without what it holds, because that is too large there, too;
    `ends`: whatever it carries on would be refused as well."""

    code: str
    reason: str
    left_out: bool = False
    ends: bool = False


def left_out(original: Record) -> Record:
    """What its dead letter has instead of a record that no dead letter has room for."""
    body = encode_body(*original)
    text = f"{len(body)} bytes, sha256 {sha256(body).hexdigest()}"
    return Record(None, None, [(names.LEFT_OUT, text.encode())])


def encode_dead(shard: Shard, key: Key, message_id: str, code: str, reason: str, original: Record) -> bytes:
    """The body of a dead letter."""
    ours: list[Header] = [
        (names.DEAD_ID, message_id.encode()),
        (names.TOPIC, shard.topic.encode()),
        (names.DEAD_PARTITION, shard.partition.encode()),
        (names.DEAD_OFFSET, b"%d" % key.offset),
        (names.DEAD_DUE, b"%d" % key.due_ms),
        (names.REASON, reason.encode()),
        (names.DEAD_ERROR_CODE, code.encode()),
    ]
    return encode_body(original.key, original.value, original.headers + ours)


def as_it_came(body: bytes) -> Record:
    """The record of `body`; bytes that are no record become the value, so that nothing is thrown away."""
    try:
        return decode_body(body)
    except MalformedRecord:
        return Record(None, body, [])
