"""From the bytes of a body to structs, or to a refusal that points at what is wrong."""

import re
from typing import TypeVar

import msgspec

from api.problems import INVALID_BODY, Refusal, refused

T = TypeVar("T")

_DETAIL_CHARS_MAX = 300
_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")


def check_text(body: bytes) -> None:
    """JSON text is UTF-8 (RFC 8259, 8.1); the decoder looks only at the strings that it converts itself.
    Raises Refusal."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise refused(INVALID_BODY, "", "not-utf-8", f"the body is not UTF-8 at byte {error.start}") from error


def decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw) -> T:
    """Raises Refusal."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _refusal(str(error)) from error
    except msgspec.DecodeError as error:
        raise refused(INVALID_BODY, "", "malformed", str(error)) from error
    except RecursionError as error:
        raise refused(INVALID_BODY, "", "too-deep", "the body is nested too deeply") from error


def has_unknown_field(refusal: Refusal, names: frozenset[str]) -> bool:
    """Whether the body was refused because of a field at its top that is one of `names`."""
    return any(fault.code == "unknown-field" and fault.pointer[1:] in names for fault in refusal.faults)


def _refusal(message: str) -> Refusal:
    found = _PLACE.fullmatch(message)
    what, path = (found["what"], found["path"] or "") if found else (message, "")
    pointer = "".join(f"/{name or index}" for name, index in _STEP.findall(path))
    if unknown := _UNKNOWN_FIELD.fullmatch(what):
        return _about(f"{pointer}/{_escaped(unknown[1])}", "unknown-field", what)
    if missing := _MISSING_FIELD.fullmatch(what):
        return _about(f"{pointer}/{missing[1]}", "missing-field", what)
    return _about(pointer, "invalid-value", what)


def _about(pointer: str, code: str, detail: str) -> Refusal:
    """Names of unknown fields are the client's own text: what is handed back of them is bounded."""
    return refused(INVALID_BODY, pointer[:_DETAIL_CHARS_MAX], code, detail[:_DETAIL_CHARS_MAX])


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
