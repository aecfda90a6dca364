"""A server that answers what a test scripts, and remembers what it was asked."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A request; `body` is None where it had none."""

    method: str
    path: str
    body: Any


class Scripted(NamedTuple):
    """Where it listens, and what it was asked so far."""

    url: str
    asked: list[Asked]


@contextmanager
def answering(answers: Sequence[tuple[int, Any]]) -> Iterator[Scripted]:
    """(status, document) for each request, in this order."""
    asked: list[Asked] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append(Asked(self.command, self.path, json.loads(data) if data else None))
            status, document = left.pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    for method in ("GET", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.answer)
    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Scripted(f"http://127.0.0.1:{http.server_port}", asked)
        finally:
            http.shutdown()
            thread.join()
