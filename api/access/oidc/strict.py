"""JSON and JWTs from others, taken apart strictly: what two parsers could read in two ways is refused."""

import binascii
import json
import re
from base64 import urlsafe_b64decode
from typing import Any, NamedTuple, NoReturn

TOKEN_BYTES_MAX = 16 << 10
"""Tokens of a few hundred groups have half of it."""

_TOKEN = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")

Object = dict[str, Any]


class NotAccepted(Exception):
    """A token, or an answer, that is not what it has to be. The text is for the client: nothing of the token."""


class Parts(NamedTuple):
    """Of a token whose signature nothing has checked."""

    header: Object
    claims: Object


def take_apart(token: bytes) -> Parts:
    """Raises NotAccepted."""
    found = _TOKEN.fullmatch(token) if len(token) <= TOKEN_BYTES_MAX else None
    if found is None:
        raise NotAccepted("this is no signed token")
    return Parts(read_object(_decoded(found[1])), read_object(_decoded(found[2])))


def read_object(data: bytes) -> Object:
    """A JSON object in which no name stands twice (RFC 7519, 4: else each parser chooses). Raises NotAccepted."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):  # Unicode's errors are values, too
        raise NotAccepted("it is not the JSON that it has to be") from None
    if not isinstance(found, dict):
        raise NotAccepted("it is no JSON object")
    return found


def _decoded(part: bytes) -> bytes:
    try:
        return urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except binascii.Error:
        raise NotAccepted("a part of the token is no base64url") from None


def _once(pairs: list[tuple[str, Any]]) -> Object:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
