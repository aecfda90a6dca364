"""How a question travels: HTTP/1.1 between processes of one installation.

    POST /ask/<writer>/<method>/<wait in ms>    authorization: <signature>    the arguments (`methods`)

`writer` is the worker that is meant, by the name that is new with every start: a process that has got the address
of one that is gone is not taken for it. `wait` is how long the worker may take.
"""

from enum import IntEnum

PATH = "/ask/{writer}/{method}/{wait_ms:int}"
SIGNATURE = "authorization"
QUESTION_BYTES_MAX = 4 << 20
"""Ids, filters, and the names of a hundred thousand shards; no message travels this way."""

ANSWER_BYTES_MAX = 128 << 20
"""One message as large as any that the HTTP API takes, or a page of smaller ones."""

WAIT_MS_MAX = 60_000


class Status(IntEnum):
    """The status of an answer, as in HTTP. Its body is the answer, or else a sentence with the reason."""

    ANSWER = 200
    NOT_YET = 202
    MALFORMED = 400
    UNSIGNED = 401
    NO_SUCH_METHOD = 404
    TOO_LARGE = 413
    NOT_MINE = 421
    FAILED = 500
    QUEUE_UNAVAILABLE = 502
    UNAVAILABLE = 503


def path(writer: str, method: str, wait_s: float) -> str:
    """Of the question."""
    return f"/ask/{writer}/{method}/{max(0, min(WAIT_MS_MAX, int(wait_s * 1000)))}"
