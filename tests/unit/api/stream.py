"""A client of an endless answer: speaks ASGI itself, because in-process clients wait for the end first."""

import asyncio
import json
from typing import Any

from api.app import DelaylineApi


class Stream:
    """One request, read event by event. Use within a running loop."""

    def __init__(self, app: DelaylineApi, path: str, query: str = "", headers: dict[str, str] | None = None) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._buffer = b""
        given = {"host": "api", **(headers or {})}
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        self._requested = False
        self.task = asyncio.ensure_future(self._run(app, scope))

    async def _run(self, app: DelaylineApi, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            self._chunks.put_nowait(None)

    async def _receive(self) -> dict[str, Any]:
        if not self._requested:
            self._requested = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message.get("body"):
            self._chunks.put_nowait(message["body"])

    async def block(self) -> dict[str, str] | None:
        """The next block of the stream as its fields (a comment under the name ""); None at the end."""
        while b"\n\n" not in self._buffer:
            chunk = await asyncio.wait_for(self._chunks.get(), 5)
            if chunk is None:
                return None
            self._buffer += chunk
        block, self._buffer = self._buffer.split(b"\n\n", 1)
        return dict(line.split(": ", 1) if ": " in line[1:] else ("", line) for line in block.decode().split("\n"))

    async def values(self, count: int) -> list[str]:
        """The values of the next `count` records."""
        found: list[str] = []
        while len(found) < count:
            block = await self.block()
            assert block is not None, "the stream ended"
            if "data" in block:
                found.append(json.loads(block["data"])["value"])
                self.last_id = block["id"]
        return found

    async def rest(self) -> bytes:
        """Everything up to the end."""
        while (chunk := await asyncio.wait_for(self._chunks.get(), 5)) is not None:
            self._buffer += chunk
        return self._buffer

    async def leave(self) -> None:
        """Close the connection from the client's side."""
        self._gone.set()
        await asyncio.wait_for(asyncio.gather(self.task, return_exceptions=True), 5)
