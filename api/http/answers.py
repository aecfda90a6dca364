"""Responses whose bytes are ready."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from delayline.http.whole import WHOLE, WholeAnswer

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"

EDGE_HEADERS = "delayline.edge_headers"
"""Key in the ASGI scope: headers that every answer to the request gets."""
BODY = "delayline.body"
"""Where the scope of a request has its body, once that is read."""

BODY_ENDED = "delayline.body_ended"
"""Key in the ASGI scope: that the request's body was read to its end, or no more of it is waited for."""
DROPPED_BYTES_MAX = 64 << 20
DROP_S = 2.0

RawHeader = tuple[bytes, bytes]
RawHeaders = Sequence[RawHeader]


class Answer(Response):
    """A response from prebuilt bytes. `Response` itself builds its headers by way of text, which costs as much as
    the rest of a small answer: 4 us."""

    def __init__(self, status: int, body: bytes = b"", content_type: bytes = JSON, headers: RawHeaders = ()) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), *headers]
        if body:
            self.raw_headers.append((b"content-type", content_type))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """In one write where the server can, with what `api.http.edge` adds to every answer."""
        whole: WholeAnswer | None = scope.get(WHOLE)
        headers = [*self.raw_headers, *scope.get(EDGE_HEADERS, ())]
        if whole is None or not whole.write(self.status_code, headers, bytes(self.body)):
            await super().__call__(scope, receive, send)


class LastAnswer(Answer):
    """The connection ends with it. What the client still sends is read meanwhile, and dropped: closed before that,
    the connection is reset, and the answer lost (RFC 9112, 9.6)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get(BODY_ENDED, False) or not has_body(scope["delayline.headers"]):
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await _drop_body(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drop_body(receive: Receive) -> None:
    """A client that sends more than this, or slower, may lose the answer."""
    left = DROPPED_BYTES_MAX
    with suppress(TimeoutError):
        async with asyncio.timeout(DROP_S):
            while left > 0:
                message = await receive()
                if not message.get("more_body", False):
                    return
                left -= len(message.get("body", b""))


def has_body(headers: Mapping[bytes, bytes]) -> bool:
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def json_answer(status: int, content: object, headers: RawHeaders = ()) -> Answer:
    """`content` (structs, lists, dicts) as compact JSON."""
    return Answer(status, msgspec.json.encode(content), JSON, headers)
