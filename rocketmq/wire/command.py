"""A frame's payload: requests, answers and pushes, in both encodings of the header.

    payload = int32 (encoding in the top byte, length of the header in the others) | header | body

    JSON header       {"code", "language", "version", "opaque", "flag", "remark", "extFields",
                       "serializeTypeCurrentRPC"}
    ROCKETMQ header   int16 code | int8 language | int16 version | int32 opaque | int32 flag
                      | int32 length, remark | int32 length, (int16 length, key | int32 length, value)*

The encoding is decided frame by frame: a server answers in its own, whatever the request came in, so that both
have to be read at any time. (`org.apache.rocketmq.remoting.protocol.RemotingCommand`, `RocketMQSerializable`)
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated, Any

import msgspec

from rocketmq.errors import InvalidRequest, Malformed, UnreadableHeader
from rocketmq.wire.frames import HEAD_BYTES, frame
from rocketmq.wire.lenient import loads_object

VERSION_5_5_0 = 513
"""The version that we report: the ordinal of V5_5_0 in `org.apache.rocketmq.common.MQVersion`. Brokers look at it,
for instance to write JSON with quoted keys only (4.9.4 and later)."""

IS_ANSWER, IS_ONE_WAY = 1, 2
"""Bits of `flag`."""

_HEAD = struct.Struct(">I")
_FIXED = struct.Struct(">hbhiii")
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")
_CODE_MIN, _CODE_MAX = -0x8000, 0x7FFF
_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_OPAQUE, _FLAG = (
    re.compile(rb"""(?<![\w\\])["']?%b["']?\s{0,8}:\s{0,8}["']?(-?[0-9]{1,10})(?![\w.])""" % name)
    for name in (b"opaque", b"flag")
)
"""Of a header that is no JSON, in any quotes. What is there twice counts as missing: one may be part of a text."""
HEADER_LENGTH_MASK = (1 << 24) - 1
"""Of the first four bytes; the others are the encoding."""


class Encoding(IntEnum):
    """Of a header (`SerializeType`)."""

    JSON = 0
    ROCKETMQ = 1


class Language(IntEnum):
    """Of the sender (`LanguageCode`). Numbers and names that are not known are read as OTHER."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


_LANGUAGES = {one.name: one for one in Language}
_LANGUAGES_BY_NUMBER = {one.value: one for one in Language}


@dataclass(slots=True)
class Command:
    """A request, an answer or a push. `opaque` pairs an answer with its request; `fields` are the ext fields."""

    code: int
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes | memoryview = b""
    opaque: int = 0
    flag: int = 0
    remark: str = ""
    language: Language = Language.PYTHON
    version: int = VERSION_5_5_0
    encoding: Encoding = Encoding.JSON

    @property
    def is_answer(self) -> bool:
        return bool(self.flag & IS_ANSWER)

    @property
    def is_one_way(self) -> bool:
        return bool(self.flag & IS_ONE_WAY)


def answer_to(
    request: Command, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", remark: str = ""
) -> Command:
    """The answer to `request`, in the encoding that it came in."""
    return Command(code, fields or {}, body, request.opaque, IS_ANSWER, remark, encoding=request.encoding)


def encode_frame(command: Command) -> tuple[bytes, ...]:
    """The whole frame, length included, in parts. Raises InvalidRequest."""
    header = _encode_json(command) if command.encoding is Encoding.JSON else _encode_binary(command)
    if len(header) > HEADER_LENGTH_MASK:
        raise InvalidRequest(f"a header of {len(header)} bytes; its length has 24 bits")
    head = _HEAD.pack(command.encoding << 24 | len(header))
    return frame((head, header, command.body) if command.body else (head, header))  # type: ignore[arg-type]


_Value = str | int | float | bool | None


class PeekedFields(msgspec.Struct):
    """Of the ext fields, those that a proxy has to know of a send: in letters, and in long names."""

    b: _Value = None
    i: _Value = None
    m: _Value = None
    topic: _Value = None
    properties: _Value = None
    batch: _Value = None


class Peeked(msgspec.Struct):
    """What a proxy has to know of every frame. `fields` is None where the header has to be decoded for them."""

    code: int
    opaque: int = 0
    flag: int = 0
    fields: PeekedFields | None = msgspec.field(name="extFields", default=None)

    @property
    def is_answer(self) -> bool:
        return bool(self.flag & IS_ANSWER)

    @property
    def is_one_way(self) -> bool:
        return bool(self.flag & IS_ONE_WAY)


_PEEKED = msgspec.json.Decoder(Peeked)


def peek(head: memoryview) -> Peeked:
    """Of a payload, or as much of it as ends with its header. Hot: once for each frame that passes a proxy. Raises
    Malformed."""
    if head[0] == Encoding.ROCKETMQ and len(head) >= HEAD_BYTES + _FIXED.size:
        code, _, _, opaque, flag, _ = _FIXED.unpack_from(head, HEAD_BYTES)
        return Peeked(code, opaque, flag)
    if head[0] == Encoding.JSON:
        try:
            (length,) = _HEAD.unpack_from(head)
            return _PEEKED.decode(head[HEAD_BYTES : HEAD_BYTES + length])
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # not as Java writes it: read in full below
    found = decode_frame(head)
    return Peeked(found.code, found.opaque, found.flag)


def decode_body(payload: memoryview) -> memoryview:
    """Of a payload whose header was read: what stands behind it."""
    (head,) = _HEAD.unpack_from(payload)
    return payload[HEAD_BYTES + (head & HEADER_LENGTH_MASK) :]


def decode_frame(payload: memoryview) -> Command:
    """Of a payload as `FrameSplitter` cuts it; the body is a slice of it. Raises Malformed;
    UnreadableHeader where its sender can be answered."""
    if len(payload) < HEAD_BYTES:
        raise Malformed(f"a frame of {len(payload)} bytes")
    (head,) = _HEAD.unpack_from(payload)
    body_at = HEAD_BYTES + (head & HEADER_LENGTH_MASK)
    if body_at > len(payload):
        raise Malformed(f"a header of {head & HEADER_LENGTH_MASK} bytes in a frame of {len(payload)}")
    header, body = payload[HEAD_BYTES:body_at], payload[body_at:]
    try:
        match head >> 24:
            case Encoding.JSON:
                return _decode_json(header, body)
            case Encoding.ROCKETMQ:
                return _decode_binary(header, body)
    except Malformed as error:
        raise _unreadable(header, Encoding(head >> 24), error) from error
    raise Malformed(f"a header in encoding {head >> 24}")


def _unreadable(header: memoryview, encoding: Encoding, error: Malformed) -> Malformed:
    """The error, with number and flag where each is found."""
    if encoding is Encoding.ROCKETMQ:
        if len(header) < _FIXED.size:
            return error
        _, _, _, opaque, flag, _ = _FIXED.unpack_from(header)
        return UnreadableHeader(str(error), opaque, flag, encoding)
    opaques, flags = _OPAQUE.findall(header), _FLAG.findall(header) or [b"0"]
    if len(opaques) != 1 or len(flags) != 1 or not _INT32_MIN <= (opaque := int(opaques[0])) <= _INT32_MAX:
        return error
    return UnreadableHeader(str(error), opaque, int(flags[0]), encoding)


# --- JSON


def _encode_json(command: Command) -> bytes:
    header: dict[str, Any] = {
        "code": command.code,
        "flag": command.flag,
        "language": command.language.name,
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": command.version,
    }
    if command.remark:
        header["remark"] = command.remark
    if command.fields:
        header["extFields"] = command.fields
    try:
        return msgspec.json.encode(header)
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"ext fields are text: {error}") from error


_Int32 = Annotated[int, msgspec.Meta(ge=_INT32_MIN, le=_INT32_MAX)]


class _JsonHeader(msgspec.Struct):
    """As Java writes it: ext fields are text."""

    code: _Int32
    opaque: _Int32 = 0
    flag: _Int32 = 0
    remark: str | None = None
    language: str = ""
    version: _Int32 = 0
    fields: dict[str, str] | None = msgspec.field(name="extFields", default=None)


_JSON_HEADER = msgspec.json.Decoder(_JsonHeader)


def _decode_json(header: memoryview, body: memoryview) -> Command:
    """Hot."""
    try:
        found = _JSON_HEADER.decode(header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_lenient(header, body)
    language = _LANGUAGES.get(found.language, Language.OTHER)
    return Command(
        *(found.code, found.fields or {}, body, found.opaque, found.flag, found.remark or "", language, found.version)
    )


def _decode_lenient(header: memoryview, body: memoryview) -> Command:
    """Old clients leave out what they do not need, and write numbers and booleans where text belongs, or text where
    numbers do."""
    found = loads_object(header)
    if "code" not in found:
        raise Malformed("a header without code")
    fields = found.get("extFields") or {}
    if not isinstance(fields, dict):
        raise Malformed("extFields that are no object")
    return Command(
        _int32(found, "code"),
        {
            key: value if type(value) is str else _text(key, value)
            for key, value in fields.items()
            if value is not None
        },
        body,
        _int32(found, "opaque"),
        _int32(found, "flag"),
        _text("remark", found.get("remark") or ""),
        _LANGUAGES.get(str(found.get("language")), Language.OTHER),
        _int32(found, "version"),
        Encoding.JSON,
    )


def _int32(header: dict[str, Any], name: str) -> int:
    value = header.get(name, 0)
    if type(value) is str and _NUMBER.fullmatch(value):
        value = int(value)
    if type(value) is not int or not _INT32_MIN <= value <= _INT32_MAX:
        raise Malformed(f"{name} is no 32-bit number")
    return value


def _text(name: str, value: Any) -> str:
    """As Java's `toString` has it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
    raise Malformed(f"{name} is neither text nor a number")


# --- ROCKETMQ


def _encode_binary(command: Command) -> bytes:
    """Java cuts a code of more than 16 bits off; POP's are such, and can be sent in JSON alone."""
    if not _CODE_MIN <= command.code <= _CODE_MAX:
        raise InvalidRequest(f"code {command.code} does not fit the encoding ROCKETMQ, which has 16 bits for it")
    try:
        remark = command.remark.encode()
        pairs = b"".join([_pair(key, value) for key, value in command.fields.items()])
        fixed = _FIXED.pack(
            *(command.code, command.language, command.version, command.opaque, command.flag, len(remark))
        )
    except (AttributeError, UnicodeEncodeError, struct.error) as error:
        raise InvalidRequest(f"a header that cannot be encoded: {error}") from error
    return b"".join((fixed, remark, _INT32.pack(len(pairs)), pairs))


def _pair(key: str, value: str) -> bytes:
    name, text = key.encode(), value.encode()
    return b"".join((_INT16.pack(len(name)), name, _INT32.pack(len(text)), text))


def _decode_binary(header: memoryview, body: memoryview) -> Command:
    try:
        code, language, version, opaque, flag, remark_bytes = _FIXED.unpack_from(header)
        fields_at = _FIXED.size + remark_bytes + _INT32.size
        (fields_bytes,) = _INT32.unpack_from(header, fields_at - _INT32.size if remark_bytes >= 0 else len(header))
        remark = str(header[_FIXED.size : _FIXED.size + remark_bytes], "utf-8", "replace")
        fields = _read_pairs(header[fields_at:], fields_bytes)
    except struct.error as error:
        raise Malformed(f"not a header: {error}") from error
    known = _LANGUAGES_BY_NUMBER.get(language, Language.OTHER)
    return Command(code, fields, body, opaque, flag, remark, known, version, Encoding.ROCKETMQ)


def _read_pairs(data: memoryview, length: int) -> dict[str, str]:
    """Raises Malformed and struct.error. What is no UTF-8 is replaced, as Java does."""
    if length != len(data):
        raise Malformed(f"{length} bytes of ext fields where there are {len(data)}")
    fields, at = {}, 0
    while at < length:
        key, at = _read_text(data, at, _INT16)
        fields[key], at = _read_text(data, at, _INT32)
    return fields


def _read_text(data: memoryview, at: int, prefix: struct.Struct) -> tuple[str, int]:
    (length,) = prefix.unpack_from(data, at)
    begins = at + prefix.size
    if not 0 <= length <= len(data) - begins:
        raise Malformed(f"a text of {length} bytes in {len(data) - begins}")
    return str(data[begins : begins + length], "utf-8", "replace"), begins + length
