"""Requests to the HTTP API of a server on the embedded queue: changed JSON, paths, headers, and raw bytes."""

import json
import socket
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, Self
from urllib.parse import quote
from uuid import uuid4

import httpx

from tests.fault.server import Server
from tests.fuzz.campaign import Broken, Campaign, Stopwatch, resident_bytes

RESIDENT_MAX = 1 << 30
ANSWER_S = 10.0
PATIENCE_S = 0.5
DUE_S = 0.3
LATE_S = 10.0
PATIENCE_MAX_S = 120.0
"""Of the judge's own requests, on a machine however busy."""
"""Beyond this the canary counts as lost; the machine may be busy."""

MESSAGE: dict[str, Any] = {
    "key": "k", "value": {"order": 7}, "partition": 1, "headers": [{"name": "trace", "value": "x"}],
    "schedule": {"delay": "5s"},
}  # fmt: skip
SCHEDULES: tuple[dict[str, Any], ...] = (
    {"delay": "5s", "ttl": "60s"}, {"deliver_at": "2030-01-01T00:00:00Z"}, {"level": 3}, {"delay_ms": 700},
    {"cron": "*/5 * * * *", "time_zone": "Europe/Berlin", "own_id": "order-8"},
    {"delay": "2s", "own_id": "order-7"},
    {"every": "10s", "times": 3, "missed": "latest", "backoff": 2},
    {"delay": "1h", "on_conflict": "replace", "own_id": "a"},
    {"retry": "billing"}, {"delay": "9h", "expire_at": "2030-01-01T00:00:00Z"},
)  # fmt: skip
ID = "orders.0.0.1767225630000"

Request = tuple[str, str, Any]
REQUESTS: tuple[Request, ...] = (
    ("POST", "/v1/topics/orders/messages", MESSAGE),
    ("POST", "/v1/topics/orders/messages?mode=async", MESSAGE),
    ("POST", "/v1/topics/orders/messages", {"messages": [MESSAGE, MESSAGE], "atomic": False}),
    ("POST", "/v1/schedules:preview", {"schedule": {"cron": "*/5 * * * *"}, "count": 5}),
    ("GET", "/v1/messages?topic=orders&state=pending&page_size=10&due_before=2030-01-01T00:00:00Z", None),
    ("GET", "/v1/messages?key=k&topic=orders&own_id=order-7&page_token=abc", None),
    ("GET", f"/v1/messages/{ID}", None),
    ("PATCH", f"/v1/messages/{ID}", {"schedule": {"delay": "1h"}}),
    ("DELETE", f"/v1/messages/{ID}", None),
    ("POST", f"/v1/messages/{ID}:deliver", None),
    (
        "POST",
        "/v1/messages:cancel",
        {"filter": {"topic": "orders", "key": "k", "due_before": "2027-01-01T00:00:00Z"}},
    ),
    ("GET", "/v1/topics/orders/own/order-7", None),
    ("PATCH", "/v1/topics/orders/own/order-7", {"schedule": {"delay": "1h"}}),
    ("DELETE", "/v1/topics/orders/own/order-7", None),
    ("POST", "/v1/topics/orders:pause", None),
    ("POST", "/v1/topics/orders:resume", None),
    ("POST", "/v1/topics/orders:purge?dry_run=true", None),
    ("GET", "/v1/topics/orders/histogram?bucket=1h&from=2026-01-01T00:00:00Z&to=2026-01-01T03:00:00Z", None),
    ("GET", "/v1/topics", None),
    ("GET", "/v1/topics/orders", None),
    ("GET", "/v1/topics/orders/records?partition=0&offset=0&limit=10", None),
    ("GET", "/v1/topics/orders/dead?limit=10", None),
    ("POST", "/v1/topics/orders/dead:redrive", {"ids": ["0.17", "2.3"]}),
    ("GET", "/v1/info", None),
    ("GET", "/metrics", None),
    ("GET", "/", None),
)
HEADERS = (
    ("content-type", "application/json"), ("accept", "text/event-stream"), ("if-match", '"0"'),
    ("idempotency-key", "abc"),  ("prefer", "respond-async"),
    ("content-length", "5"), ("transfer-encoding", "chunked"),
    ("host", "evil.example"), ("origin", "http://evil.example"),
    ("delay", "5s"), ("range", "bytes=0-"), ("expect", "100-continue"),
    ("upgrade", "websocket"), ("x-forwarded-for", "1.2.3.4"), ("last-event-id", "7"),
)  # fmt: skip


class HttpServer(Campaign):
    """A server in a process of its own."""

    name = "http"
    covers = ("api/*.py", "api/routes/*")

    def __init__(self, random: Random, folder: Path) -> None:
        super().__init__(random, folder)
        self.server = Server(folder / "data")

    def __enter__(self) -> Self:
        self.server.start()
        self.server.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def case(self) -> str:
        data = self._request()
        try:
            status = self._answer(data)
        except TimeoutError:
            raise Broken(f"no answer within {ANSWER_S:.0f} s, and not closed: {data!r}") from None
        if status == "500" or (status and not status.isdigit()):
            raise Broken(f"status {status!r} for {data!r}: {self.server.tail_of_log()}")
        return status or "closed"

    def _request(self) -> bytes:
        method, path, body = self.mutator.pick(of=REQUESTS)
        headers = {"Host": f"127.0.0.1:{self.server.port}", "Connection": "close", "Delayline-Request": "1"}
        content = b""
        if body is not None:
            if isinstance(body, dict) and "schedule" in body:
                body = {**body, "schedule": self.mutator.pick(of=SCHEDULES)}
            content = self.mutator.json(body) if self.random.random() < 0.8 else json.dumps(body).encode()
            headers["content-type"] = "application/json"
            headers["content-length"] = str(len(content))
        if self.random.random() < 0.4:
            path = self._changed(path)
        for _ in range(self.random.choice((0, 0, 1, 2))):
            name, value = self.mutator.pick(of=HEADERS)
            headers[name] = value if self.random.random() < 0.5 else self.mutator.word()
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        data = "\r\n".join(lines).encode("utf-8", "surrogatepass") + content
        return self.mutator.some(data) if self.random.random() < 0.15 else data

    def _changed(self, path: str) -> str:
        word = quote(self.mutator.word().encode("utf-8", "surrogatepass"), safe=self.mutator.pick(of=("", "/%")))
        pieces = path.replace("?", "&").split("&")
        at = self.random.randrange(len(pieces))
        name, equals, _ = pieces[at].rpartition(self.mutator.pick(of=("=", "/", ":")))
        pieces[at] = f"{name}{equals or '/'}{word[:8000]}"
        return "?".join((pieces[0], "&".join(pieces[1:]))) if len(pieces) > 1 else pieces[0]

    def _answer(self, data: bytes) -> str:
        """The status of the answer; nothing where the server closed without one."""
        with socket.create_connection(("127.0.0.1", self.server.port), ANSWER_S) as connection:
            try:
                connection.sendall(data)
                head = self._first_bytes(connection)
            except TimeoutError:
                raise
            except OSError:  # it may close before it has read everything
                return ""
        return head[9:12].decode("ascii", "replace") if head.startswith(b"HTTP/1.") else ""

    def _first_bytes(self, connection: socket.socket) -> bytes:
        """A request that looks unfinished to the server is ended after PATIENCE_S."""
        connection.settimeout(PATIENCE_S)
        with suppress(TimeoutError):
            return connection.recv(4096)
        connection.shutdown(socket.SHUT_WR)
        waiting = Stopwatch(self.server.pid)
        while waiting.seconds < ANSWER_S:
            with suppress(TimeoutError):
                return connection.recv(4096)
        raise TimeoutError

    def judge(self) -> None:
        """Another client's message goes through; memory is bounded."""
        if (resident := resident_bytes(self.server.pid)) > RESIDENT_MAX:
            raise Broken(f"{resident >> 20} MiB resident")
        topic = f"canary-{uuid4().hex[:8]}"
        with httpx.Client(base_url=self.server.url, timeout=PATIENCE_MAX_S) as http:
            if (ready := http.get("/readyz")).status_code != 200:
                raise Broken(f"not ready: {ready.text}")
            body = {"value": 1, "partition": 0, "schedule": {"delay": f"{int(DUE_S * 1000)}ms"}}
            http.post(f"/v1/topics/{topic}/messages", json=body).raise_for_status()
            waiting = Stopwatch(self.server.pid)
            while waiting.seconds < DUE_S + LATE_S:
                where = {"partition": 0, "offset": 0, "limit": 10}
                if http.get(f"/v1/topics/{topic}/records", params=where).json().get("records"):
                    return
                time.sleep(0.05)
        raise Broken(f"a good message was not delivered within {LATE_S:.0f} s of its due instant")
