"""Responses whose bytes are ready."""

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"

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


def json_answer(status: int, content: object, headers: RawHeaders = ()) -> Answer:
    """`content` (structs, lists, dicts) as compact JSON."""
    return Answer(status, msgspec.json.encode(content), JSON, headers)
