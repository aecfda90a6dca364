"""Whole answers: head and body in one write.

ASGI hands a response over in two messages, and uvicorn writes each of them by itself: two system calls per answer,
and every header is searched for characters that ours cannot hold. An answer whose bytes are ready goes out at once
(bench/http.py). Follows `uvicorn.protocols.http.httptools_impl.RequestResponseCycle.send`.
"""

from collections.abc import Sequence
from typing import Any
from weakref import ref

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

WHOLE = "delayline.whole"
"""Key in the ASGI scope; absent where another server than ours runs the application."""

_CLOSE = b"connection", b"close"


class WholeAnswer:
    """The answer to one request, if it goes out at once. The cycle holds the scope, which holds this: if it held the
    cycle in turn, nothing of a request would be freed before the garbage collector's next pass."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = ref(cycle)

    def write(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Whether it was taken: not while the client is slow to read, and not in answer to a HEAD. Then it goes by
        `send`. The caller has built the headers: lower case, content-length among them, nothing that ends a line."""
        cycle: Any = self._cycle()
        if cycle is None or cycle.disconnected:
            return True  # nobody reads it
        if cycle.response_started or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(b"".join(_parts(cycle, status, headers, body)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True


def _parts(cycle: Any, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> list[bytes]:
    parts = [STATUS_LINE[status]]
    for name, value in (*cycle.default_headers, *headers):
        parts += (name, b": ", value, b"\r\n")
    if _CLOSE in headers:
        cycle.keep_alive = False
    elif not cycle.keep_alive:
        parts.append(b"connection: close\r\n")
    parts += (b"\r\n", body)
    return parts
