"""From the bytes of a body to structs, or to a refusal that points at what is wrong."""

import re
from typing import TypeVar

import msgspec

from api.http.problems import INVALID_BODY, Refusal, refused

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
        raise refused(INVALID_BODY, "", "malformed", _why_malformed(bytes(body), str(error))) from error
    except RecursionError as error:
        raise refused(INVALID_BODY, "", "too-deep", "the body is nested too deeply") from error


def has_unknown_field(refusal: Refusal, names: frozenset[str]) -> bool:
    """Whether the body was refused because of a field at its top that is one of `names`."""
    return any(fault.code == "unknown-field" and fault.pointer[1:] in names for fault in refusal.faults)


_HALF_A_PAIR = re.compile(
    rb"(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
_NO_NUMBER = re.compile(rb"[:,\[]\s*(NaN|-?Infinity)")


def _why_malformed(body: bytes, found: str) -> str:
    """The decoder reports where it stopped; these two mistakes have a name."""
    if half := _HALF_A_PAIR.search(body):
        escape = (half[1] or half[2]).decode()
        return f"a string has one half of a surrogate pair, `{escape}`: no character, and UTF-8 has no bytes for it"
    if number := _NO_NUMBER.search(body):
        return f"`{number[1].decode()}` is no number in JSON"
    return "the JSON ends in the middle" if found == "Input data was truncated" else found


def _refusal(message: str) -> Refusal:
    found = _PLACE.fullmatch(message)
    what, path = (found["what"], found["path"] or "") if found else (message, "")
    pointer = "".join(f"/{name or index}" for name, index in _STEP.findall(path))
    if unknown := _UNKNOWN_FIELD.fullmatch(what):
        detail = f"no field `{unknown[1]}` is known here"
        return _about(f"{pointer}/{_escaped(unknown[1])}", "unknown-field", detail)
    if missing := _MISSING_FIELD.fullmatch(what):
        return _about(f"{pointer}/{missing[1]}", "missing-field", f"the field `{missing[1]}` is missing")
    return _about(pointer, "invalid-value", f"{_named(path)}{_plain(what)}")


_EXPECTED = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`)?(.*)", re.DOTALL)
_KINDS = {
    "str": "a string",
    "bytes": "a string of base64",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
}
_GOT = {"bool": "a boolean", "float": "a number with a fraction"}
_BOUNDS = (
    (" of length >=", ", its length at least"),
    (" of length <=", ", its length at most"),
    (" >=", " of at least"),
    (" <=", " of at most"),
)
_FIELD = re.compile(r"([^.\[\]]+)(?:\[[0-9.]*\])*\Z")


def _named(path: str) -> str:
    """The field that is meant; what stands at the body's top has no name."""
    found = _FIELD.search(path)
    return "" if found is None else f"`{found[1]}`: "


def _plain(what: str) -> str:
    """The decoder's sentence, which speaks of Python's types, in words of JSON."""
    found = _EXPECTED.fullmatch(what)
    if found is None:
        return what[:1].lower() + what[1:]
    kinds, got, bound = found.groups()
    for written, meant in _BOUNDS:
        bound = bound.replace(written, meant)
    wanted = " or ".join(_KINDS.get(kind, kind) for kind in kinds.split(" | ") if kind != "null")
    return f"expected {wanted}{bound}" + (f", not {_GOT.get(got, _KINDS.get(got, got))}" if got else "")


def _about(pointer: str, code: str, detail: str) -> Refusal:
    """Names of unknown fields are the client's own text: what is handed back of them is bounded."""
    return refused(INVALID_BODY, pointer[:_DETAIL_CHARS_MAX], code, detail[:_DETAIL_CHARS_MAX])


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
