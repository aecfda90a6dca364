"""A message's properties as the protocol has them: `name 0x01 value 0x02`, again and again; the last 0x02 may be
missing.

Java's reader passes over what has no name, no value or no 0x01 (`MessageDecoder.string2messageProperties`); so do we.
"""

from collections.abc import Mapping

from rocketmq.errors import InvalidRequest, Malformed

BYTES_MAX = 32767
"""A signed 16-bit length stands before them where they are stored."""

MSG_REGION, DEFAULT_REGION = "MSG_REGION", "DefaultRegion"
"""A property that brokers add to a single message, and a field of their answers: their `regionId`. Java's clients
write no trace of what has none (`AsyncTraceDispatcher`)."""

_NAME_ENDS, _VALUE_ENDS = "\x01", "\x02"


def encode_properties(properties: Mapping[str, str]) -> str:
    """Raises InvalidRequest for what a reader would not get back."""
    parts: list[str] = []
    for name, value in properties.items():
        if not name or not value:
            raise InvalidRequest(f"property {name!r} = {value!r}: neither may be empty, readers drop it")
        parts += (name, _NAME_ENDS, value, _VALUE_ENDS)
    text = "".join(parts)
    if text.count(_NAME_ENDS) != len(properties) or text.count(_VALUE_ENDS) != len(properties):
        raise InvalidRequest("a property holds one of the characters 1 and 2, which separate properties")
    size = len(text) if text.isascii() else _utf8_bytes(text)
    if size > BYTES_MAX:
        raise InvalidRequest(f"properties of {size} bytes; there may be {BYTES_MAX}")
    return text


def _utf8_bytes(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"a property that is no text: {error}") from error


def decode_properties(text: str | bytes | memoryview) -> dict[str, str]:
    """The last one of a name counts. Raises Malformed."""
    if not isinstance(text, str):
        try:
            text = str(text, "utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(f"properties that are no UTF-8: {error}") from error
    pairs = [item.partition(_NAME_ENDS) for item in text.split(_VALUE_ENDS)]
    return {name: value for name, _, value in pairs if name and value}
