"""JSON as RocketMQ writes it: name servers below 4.9.4 (or asked without `acceptStandardJsonOnly`) and cluster
information of every version have maps with numbers as keys, unquoted: `{0:"127.0.0.1:10911"}`."""

import re
from typing import Any

import msgspec

from rocketmq.errors import Malformed

_STRING_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|([{,]\s*)(-?\d{1,20})(?=\s*:)', re.DOTALL)
"""A whole string, so that nothing inside one is taken for a key; one without an end reaches to the end of the
text, which keeps the search linear."""
_HIGH, _LOW = r"u[dD][89abAB][0-9a-fA-F]{2}", r"u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf"\\(?:{_HIGH}\\{_LOW}|(?P<lone>{_HIGH}|{_LOW})|.)", re.DOTALL)
"""Each escape as a whole: a backslash that is escaped begins none. `lone` is a half of a surrogate pair."""


def loads(data: bytes | memoryview) -> Any:
    """The JSON's value; keys that are numbers become text. Raises Malformed."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _loads_lenient(bytes(data))


def loads_object(data: bytes | memoryview) -> dict[str, Any]:
    """Like `loads`, of something that must be an object. Raises Malformed."""
    found = loads(data)
    if not isinstance(found, dict):
        raise Malformed("JSON that is no object")
    return found


def _loads_lenient(data: bytes) -> Any:
    """What is no UTF-8, and a half of a surrogate pair, becomes what Java makes of it when it stores the text."""
    text = _ESCAPE.sub(_paired, data.decode(errors="replace"))
    try:
        return msgspec.json.decode(_STRING_OR_KEY.sub(_quoted, text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from error


def _quoted(found: re.Match[str]) -> str:
    return found[0] if found[2] is None else f'{found[1]}"{found[2]}"'


def _paired(found: re.Match[str]) -> str:
    return "?" if found["lone"] else found[0]
