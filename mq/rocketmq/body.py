"""Records as RocketMQ's messages, and back, byte for byte.

    key       the property KEYS           value     the message's body
    headers   properties, in their order

Consumers of RocketMQ find keys, tags and properties as its own clients write them. Properties cannot hold everything
(a key or a header that is empty, null or no text, a name twice, a null value). Such a record is also in the property
`delayline-record`: Base64 of the record without its value, from which we read it back. The other properties hold as
much of it as they can. Consumers get more properties, which are no part of the record (`added`). How a producer of
RocketMQ has sent a message is a header of the record (`sent`).
"""

import base64
import binascii
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from delayline.errors import MalformedRecord
from delayline.records.headers import DUE, EXACT, ID, STEP
from delayline.records.message import Header
from delayline.records.record import decode_body, encode_body
from mq.contract import HEADER_ROOM_BYTES
from mq.rocketmq.added import NAMES, added, is_added
from mq.rocketmq.sent import sent_header_of, sys_flag_of
from rocketmq.errors import BodyTooLarge, InvalidRequest, Malformed, UnknownCompression
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.properties import BYTES_MAX
from rocketmq.wire.stored import StoredMessage, SysFlag

KEYS = b"KEYS"
MARK = STEP
"""Names the step (`journal.ShardStep`), on the first message of each batch that it writes. No part of the record."""

_NAME_ENDS, _VALUE_ENDS = b"\x01", b"\x02"
_ROOM = 512
"""Of the properties' bytes, for the mark and for what is added."""
PROPERTIES_BYTES_MAX = BYTES_MAX - _ROOM
"""Of the user's and the worker's."""
ACCEPTED_BYTES_MAX = PROPERTIES_BYTES_MAX - 2 * HEADER_ROOM_BYTES
"""Of what is accepted: a worker adds headers when it delivers a message, moves it, or makes a dead letter of it, and
`delayline-record` may have them a second time."""
MEMBER_BYTES = 22
"""Of a message in a batch, beside body and properties."""
BATCH_BYTES_MAX = 4 << 20
"""Of a request: a broker's default for a message, and for a batch (`maxMessageSize`)."""
MEMBERS_BYTES_MAX = BATCH_BYTES_MAX - 64 * 1024
"""The rest is for a mark, and for what a broker adds when it stores a message."""
_DIGITS_MAX = 14
"""Of a moment: there are dates for as many milliseconds."""


class Identity(NamedTuple):
    """Of a message that consumers read: a name that is its alone, and a moment (epoch ms) no later than it is
    stored. What is delivered has both in its headers."""

    name: bytes
    at_ms: int


def to_member(
    body: bytes, identity: Identity | None = None, properties_bytes_max: int = PROPERTIES_BYTES_MAX
) -> BatchMember:
    """`identity` is for what goes straight to its topic. Hot: once per message. Raises MalformedRecord for what is no
    record, InvalidRequest for headers that are larger than a message's properties may be."""
    return member_of(*decode_body(body), identity, properties_bytes_max)


def member_of(
    key: bytes | None,
    value: bytes | None,
    headers: list[Header],
    identity: Identity | None = None,
    properties_bytes_max: int = PROPERTIES_BYTES_MAX,
) -> BatchMember:
    """Of a record's parts. Hot. Raises InvalidRequest."""
    found = dict(headers)
    if not NAMES.isdisjoint(found):  # a consumer may send on what it has received
        headers = [header for header in headers if not is_added(*header)]
        found = dict(headers)
    pairs = headers if key is None else [(KEYS, key), *headers]
    as_it_is = value is not None and KEYS not in found  # a header of that name would be read as the key
    properties = _exact_properties(pairs, dict(pairs)) if as_it_is else None
    if properties is None:
        properties = _properties_with_record(key, value, headers, pairs)
    if len(properties) > properties_bytes_max:
        raise InvalidRequest(f"headers of {len(properties)} bytes; the limit is {properties_bytes_max} beside a body")
    if identity is None and DUE in found:
        identity = _of_delivered(found)
    if identity is not None:
        properties += added(found, *identity)
    return BatchMember(value or b"", properties.decode())


def _of_delivered(headers: Mapping[bytes, bytes | None]) -> Identity | None:
    """A delivered record, and a dead letter, has its message's id and due time."""
    name, due = headers.get(ID), headers.get(DUE)
    if name and due and due.isdigit() and len(due) <= _DIGITS_MAX:
        return Identity(name, int(due))
    return None


def marked(batch: Sequence[BatchMember], mark: str) -> list[BatchMember]:
    """The batch, with the mark at its first member."""
    first, *others = batch
    return [first._replace(properties=f"{MARK.decode()}\x01{mark}\x02{first.properties}"), *others]


def has_mark(message: StoredMessage, mark: str) -> bool:
    """Hot: once per message of a target that a takeover reads back."""
    return message.properties.startswith(b"%s\x01%s\x02" % (MARK, mark.encode()))


def member_bytes(member: BatchMember) -> int:
    """What it takes of a batch."""
    return MEMBER_BYTES + len(member.body) + len(member.properties.encode())


def chunks(members: Sequence[BatchMember]) -> Iterator[list[BatchMember]]:
    """As many at a time as a request may hold: its members are delivered with one sysFlag."""
    chunk: list[BatchMember] = []
    room, sys_flag = MEMBERS_BYTES_MAX, 0
    for member in members:
        taken, its_flag = member_bytes(member), sys_flag_of(member)
        if chunk and (taken > room or its_flag != sys_flag):
            yield chunk
            chunk, room = [], MEMBERS_BYTES_MAX
        chunk.append(member)
        sys_flag = its_flag
        room -= taken
    yield chunk


def _exact_properties(pairs: Sequence[tuple[bytes, bytes | None]], names: Collection[bytes]) -> bytes | None:
    """The pairs as properties; None where a reader would not get them back. `names` are all of theirs. Hot."""
    if not all(map(all, pairs)) or len(names) != len(pairs) or EXACT in names or MARK in names:
        return None
    text = b"".join([b"%b\x01%b\x02" % pair for pair in pairs])  # type: ignore[str-format]  # none is null
    is_exact = text.count(_NAME_ENDS) == text.count(_VALUE_ENDS) == len(pairs) and _is_text(text)
    return text if is_exact else None


def _properties_with_record(
    key: bytes | None, value: bytes | None, headers: list[Header], pairs: list[tuple[bytes, bytes | None]]
) -> bytes:
    fit = {name: value for name, value in pairs if _exact_properties([(name, value)], (name,)) is not None}
    exact = base64.b64encode(encode_body(key, None if value is None else b"", headers))
    text = _exact_properties(list(fit.items()), fit)
    assert text is not None, "each pair is exact by itself, and no name is there twice"
    return text + b"".join((EXACT, _NAME_ENDS, exact, _VALUE_ENDS))


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def to_body(message: StoredMessage) -> bytes:
    """The record. Hot: once per message read. Producers of a topic may write anything: a property of our name that
    cannot be read is a header like others, and a body that cannot be decompressed stays as it is."""
    key: bytes | None = None
    sent = sent_header_of(message)
    headers: list[Header] = [] if sent is None else [sent]
    exact: bytes | None = None
    for item in message.properties.split(_VALUE_ENDS):
        name, _, value = item.partition(_NAME_ENDS)
        if not name or not value or name == MARK or is_added(name, value):
            continue
        if name == KEYS:
            key = value
        else:
            headers.append((name, value))
            if name == EXACT:
                exact = value
    is_foreign = sent is None and message.sys_flag & SysFlag.COMPRESSED
    value = _plain(message) if is_foreign else message.body
    return encode_body(key, value, headers) if exact is None else _exactly(exact, value, key, headers)


def _exactly(exact: bytes, value: bytes, key: bytes | None, headers: list[Header]) -> bytes:
    try:
        record = decode_body(base64.b64decode(exact, validate=True))
    except (binascii.Error, MalformedRecord):
        return encode_body(key, value, headers)
    return encode_body(record.key, None if record.value is None else value, record.headers)


def _plain(message: StoredMessage) -> bytes:
    try:
        return message.plain_body()
    except (Malformed, BodyTooLarge, UnknownCompression):
        return message.body
