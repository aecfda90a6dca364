"""How a client wants an operation done: on which version of the message, and how long it waits for the outcome.

If-Match: "<version>"             RFC 9110, 13.1.1: not on another version. `*` is any; a tag that is weak or none
                                  of ours is never the version
Prefer: respond-async, wait=<s>   RFC 7240: not to wait, or to wait so long; `?wait=<duration>` goes before
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import Request

from api.http.answers import RawHeaders
from api.http.endpoint import WAIT, query_of
from api.http.problems import INVALID_REQUEST, NOT_SUPPORTED, VERSION_MISMATCH, Refusal, refused
from delayline.errors import MalformedDirective
from delayline.times import format_duration, parse_duration_ms

_TAG = re.compile(rb'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
_VERSION = re.compile(rb"0|[1-9][0-9]{0,17}")
_WAIT = re.compile(r"wait=([0-9]{1,6})")
_ASYNC = "respond-async"


class OperationOptions(NamedTuple):
    """`version` is None where any will do. `applied` names in the answer the preference that was followed."""

    version: int | None
    wait_s: float
    applied: RawHeaders = ()


def options_of(request: Request, wait_max_s: float) -> OperationOptions:
    """Raises Refusal."""
    headers: Mapping[bytes, bytes] = request.scope["delayline.headers"]
    version = _version(headers.get(b"if-match", b"*").strip())
    wait_s = _asked_wait_s(query_of(request, [WAIT]).text(WAIT.name), wait_max_s)
    preferred = headers.get(b"prefer", b"").decode("latin-1").lower()
    preferences = [one.partition(";")[0].replace(" ", "") for one in preferred.split(",")]
    is_async = _ASYNC in preferences
    if wait_s is None:
        waits_s = [float(found[1]) for one in preferences if (found := _WAIT.fullmatch(one))]
        wait_s = min([*waits_s, wait_max_s]) if waits_s or not is_async else 0.0
    return OperationOptions(version, wait_s, [(b"preference-applied", _ASYNC.encode())] if is_async else ())


def _version(given: bytes) -> int | None:
    if given == b"*":
        return None
    found = _TAG.fullmatch(given)
    if found is None:
        if given.count(b'"') > 2:
            raise Refusal(NOT_SUPPORTED, "if-match takes one version, not several")
        raise Refusal(INVALID_REQUEST, 'if-match is a version in double quotes, such as "0", or *')
    if found[1] or not _VERSION.fullmatch(found[2]):
        raise Refusal(VERSION_MISMATCH, "the tag in if-match is none that a message ever has")
    return int(found[2])


def _asked_wait_s(given: str | None, wait_max_s: float) -> float | None:
    if given is None:
        return None
    try:
        wait_s = parse_duration_ms(given) / 1000
    except MalformedDirective as error:
        raise refused(INVALID_REQUEST, "?wait", "invalid-value", str(error)) from error
    if not 0 <= wait_s <= wait_max_s:
        longest = format_duration(round(wait_max_s * 1000))
        raise refused(INVALID_REQUEST, "?wait", "invalid-value", f"the longest wait is {longest}")
    return wait_s
