"""Responses whose bytes are ready."""

from collections.abc import Sequence

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from delayline.http.whole import WHOLE, WholeAnswer

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"

EDGE_HEADERS = "delayline.edge_headers"
"""Key in the ASGI scope: headers that every answer to the request gets."""

RawHeaders = Sequence[tuple[bytes, bytes]]


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


def json_answer(status: int, content: object, headers: RawHeaders = ()) -> Answer:
    """`content` (structs, lists, dicts) as compact JSON."""
    return Answer(status, msgspec.json.encode(content), JSON, headers)
