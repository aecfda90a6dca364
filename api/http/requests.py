"""Reading requests strictly: bodies within their bounds, and query parameters that are known."""

import asyncio
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from api.http.answers import BODY, BODY_ENDED, has_body
from api.http.decoding import check_text
from api.http.hosts import ACT
from api.http.in_flight import Ticket
from api.http.metering import account_of
from api.http.problems import (
    FORBIDDEN,
    INVALID_BODY,
    INVALID_REQUEST,
    LIMIT_EXCEEDED,
    REQUEST_TIMEOUT,
    TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    Refusal,
    refused,
)
from delayline.access.ledger import Account
from delayline.errors import MalformedDirective
from delayline.questions.inquiry import LAST_MS
from delayline.times import parse_moment_ms

_JSON_TYPE = re.compile(rb'application/(?:[\w.-]+\+)?json *(?:; *charset *= *"?utf-?8"? *)?', re.IGNORECASE)
_CONTENT_LENGTH = re.compile(rb"[0-9]{1,18}")
QUERY_BYTES_MAX = 4096
_INTEGER = re.compile(r"[0-9]{1,18}")


async def read_body(request: Request, bytes_max: int, timeout_s: float) -> bytes:
    """The body of a JSON request. Raises Refusal: wrong media type, too large (also when no length was announced),
    too slow, too much in flight, or not UTF-8; and OverQuota."""
    body = await _read(request, bytes_max, timeout_s)
    check_text(body)
    request.scope[BODY] = body
    return body


async def _read(request: Request, bytes_max: int, timeout_s: float) -> bytes:
    scope = request.scope
    headers: Mapping[bytes, bytes] = scope["delayline.headers"]
    _check_type(headers)
    _check_announced_length(headers.get(b"content-length"), bytes_max)
    if (account := account_of(request)) is not None:
        account.check_bytes()
    ticket: Ticket = scope["delayline.ticket"]
    message = await request.receive()
    if not message.get("more_body", False):
        scope[BODY_ENDED] = True
        body: bytes = message.get("body", b"")
        _take(ticket, account, len(body), 0, bytes_max)
        return bytes(body)
    try:
        async with asyncio.timeout(timeout_s):
            return await _read_rest(request, message.get("body", b""), ticket, account, bytes_max)
    except TimeoutError as error:
        scope[BODY_ENDED] = True
        raise Refusal(REQUEST_TIMEOUT, f"the body took longer than {timeout_s:g} s", close=True) from error


async def _read_rest(
    request: Request, first: bytes, ticket: Ticket, account: Account | None, bytes_max: int
) -> bytes:
    chunks = [bytes(first)]
    total = len(first)
    _take(ticket, account, total, 0, bytes_max)
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Refusal(INVALID_REQUEST, "the connection ended inside the body")
        chunk = bytes(message.get("body", b""))
        more = message.get("more_body", False)
        request.scope[BODY_ENDED] = not more
        _take(ticket, account, len(chunk), total, bytes_max)
        total += len(chunk)
        chunks.append(chunk)
    return b"".join(chunks)


def _take(ticket: Ticket, account: Account | None, count: int, before: int, bytes_max: int) -> None:
    if account is not None:
        account.pay_bytes(count)
    if before + count > bytes_max:
        raise _too_large(bytes_max)
    ticket.grow(count)


def _too_large(bytes_max: int) -> Refusal:
    return Refusal(TOO_LARGE, f"a body has at most {bytes_max} bytes", close=True)


def refuse_body(request: Request) -> None:
    """For requests whose parameters are in the query: a body would be ignored, and a purge that was to be
    a dry run would be none. Raises Refusal."""
    headers: Mapping[bytes, bytes] = request.scope["delayline.headers"]
    if has_body(headers):
        raise Refusal(INVALID_BODY, "this request takes no body; put its parameters into the query", close=True)


def check_act(headers: Mapping[bytes, bytes]) -> None:
    """A POST has a JSON body, or a header that no form can send (see `api.http.hosts`). Raises Refusal."""
    if ACT in headers:
        return
    if b"content-type" in headers or has_body(headers):
        _check_type(headers)
    else:
        detail = "a POST without a body needs the header `Delayline-Request: 1`, which no form can send"
        raise Refusal(FORBIDDEN, detail)


def _check_type(headers: Mapping[bytes, bytes]) -> None:
    """JSON must be declared as JSON. A browser lets any page post forms and plain text to any address, the user's own
    machine included; before it sends a page's `application/json` elsewhere, it asks there whether it may."""
    given = headers.get(b"content-type")
    if given != b"application/json" and (given is None or not _JSON_TYPE.fullmatch(given)):
        raise Refusal(UNSUPPORTED_MEDIA_TYPE, "send content-type: application/json, in UTF-8 (curl: --json)")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refusal(UNSUPPORTED_MEDIA_TYPE, "compressed bodies are not understood; leave content-encoding out")


def _check_announced_length(announced: bytes | None, bytes_max: int) -> None:
    if announced is None:
        return
    if not _CONTENT_LENGTH.fullmatch(announced):
        raise Refusal(INVALID_REQUEST, "content-length is not a number of bytes", close=True)
    if int(announced) > bytes_max:
        raise _too_large(bytes_max)


class Query:
    """The query parameters of a request. Every one must be known to the route and stand once: a parameter that is
    accepted and ignored would be a lie."""

    def __init__(self, request: Request, *known: str, others: bool = False) -> None:
        """`others` is for what another server makes up, and may add to (RFC 6749, 4.1.2). Raises Refusal."""
        self._given: dict[str, str] = {}
        for name, value in _pairs(request.scope["query_string"]):
            if name not in known and not others:
                detail = f"parameters here: {', '.join(known)}" if known else "no parameters are known here"
                raise refused(INVALID_REQUEST, f"?{name[:100]}", "unknown-parameter", detail)
            if name in self._given:
                raise refused(INVALID_REQUEST, f"?{name}", "duplicate", f"`{name}` stands twice")
            self._given[name] = value

    def choice(self, name: str, *choices: str) -> str | None:
        """One of `choices`; None where it is not given. Raises Refusal."""
        value = self._given.get(name)
        if value is not None and value not in choices:
            raise refused(INVALID_REQUEST, f"?{name}", "invalid-value", f"`{name}` is one of: {', '.join(choices)}")
        return value

    def number(self, name: str, largest: int, least: int = 0) -> int | None:
        """A decimal from `least` to `largest`; None where it is not given. Raises Refusal."""
        value = self._given.get(name)
        if value is None:
            return None
        if not _INTEGER.fullmatch(value) or not least <= int(value) <= largest:
            detail = f"`{name}` is a number from {least} to {largest}"
            raise refused(INVALID_REQUEST, f"?{name}", "invalid-value", detail)
        return int(value)

    def text(self, name: str) -> str | None:
        """As it was given; None where it is not."""
        return self._given.get(name)

    def moment_ms(self, name: str) -> int | None:
        """Epoch milliseconds; None where it is not given. The plus sign of an offset may stand as it is, though in a
        query it means a blank. Raises Refusal."""
        value = self._given.get(name)
        if value is None:
            return None
        try:
            return min(parse_moment_ms(value.replace(" ", "+")), LAST_MS)
        except MalformedDirective as error:
            raise refused(INVALID_REQUEST, f"?{name}", "invalid-value", f"`{name}`: {error}") from error


def _pairs(query: bytes) -> list[tuple[str, str]]:
    if not query:
        return []
    if len(query) > QUERY_BYTES_MAX:
        raise Refusal(LIMIT_EXCEEDED, f"a query has at most {QUERY_BYTES_MAX} bytes")
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError as error:
        raise Refusal(INVALID_REQUEST, "the query string cannot be read") from error
