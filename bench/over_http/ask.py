"""Requests over connections that stay open, and how long each took."""

from collections.abc import Sequence
from http.client import HTTPConnection
from threading import local
from typing import Any

import msgspec

from delayline.clock import SystemClock

TIMEOUT_S = 600.0
_CLOCK = SystemClock()


class Api:
    """Any thread may call it: each has a connection of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._own = local()

    def get(self, path: str) -> tuple[Any, float]:
        """The answer, and the milliseconds until all of it was here. Raises RuntimeError for another status."""
        return self._asked("GET", path, None, 200)

    def post(self, path: str, body: bytes, expected: int = 200) -> tuple[Any, float]:
        """Likewise."""
        return self._asked("POST", path, body, expected)

    def _asked(self, method: str, path: str, body: bytes | None, expected: int) -> tuple[Any, float]:
        connection = self._connection()
        start_s = _CLOCK.monotonic_s()
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        text = answer.read()
        took_ms = 1000 * (_CLOCK.monotonic_s() - start_s)
        if answer.status != expected:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300].decode(errors='replace')}")
        return msgspec.json.decode(text), took_ms

    def _connection(self) -> HTTPConnection:
        if not hasattr(self._own, "connection"):
            self._own.connection = HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        connection: HTTPConnection = self._own.connection
        return connection


def at(ascending: Sequence[float], share: float) -> float:
    """The value that this share of all does not pass."""
    return ascending[int(share * (len(ascending) - 1))]
