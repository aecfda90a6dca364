"""A peer: NATS JetStream, which delivers a message at a moment by itself (`Nats-Schedule: @at`, its ADR-51).

The server is the one that bench/install-tools.sh fetches; the client is the little of the text protocol that a bench
needs. One stream in files with the server's defaults (no fsync per message); a subject of its own for each schedule.
"""

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.on_kafka.broker import values
from delayline.clock import SystemClock
from delayline.times import format_moment
from tests.ports import free_port

TOOLS = Path(__file__).resolve().parents[2] / ".cache" / "tools"
START_S = 15.0
SILENCE_S = 120.0
UNDER_WAY = 2000
"""Published and not acknowledged yet."""

_CLOCK = SystemClock()
_CONFIG = """
listen: "127.0.0.1:{port}"
max_pending: 512MB
jetstream {{ store_dir: "{folder}" }}
"""


def server() -> str | None:
    """The program, if it is here."""
    return shutil.which("nats-server", path=str(TOOLS)) or shutil.which("nats-server")


@contextmanager
def running(program: str) -> Iterator["Nats"]:
    """A server of its own, and a client connected to it."""
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        config, port = Path(folder) / "nats.conf", free_port()
        config.write_text(_CONFIG.format(port=port, folder=folder))
        with subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL) as process:
            try:
                with _connected(port) as connection:
                    yield Nats(connection)
            finally:
                process.terminate()


def _connected(port: int) -> socket.socket:
    until_s = _CLOCK.monotonic_s() + START_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), SILENCE_S)
        except ConnectionRefusedError:
            if _CLOCK.monotonic_s() > until_s:
                raise
            time.sleep(0.05)


class Nats:
    """One stream and a consumer of what it delivers. Raises TimeoutError after SILENCE_S without a word."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb", 1 << 20)
        self._send(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB in.> 1\r\n')
        self._ask(
            "STREAM.CREATE.bench", {"name": "bench", "subjects": ["wait.>", "due.>"], "allow_msg_schedules": True}
        )
        consumer = {"durable_name": "reader", "filter_subject": "due.all", "ack_policy": "none"}
        self._ask("CONSUMER.CREATE.bench.reader", {"stream_name": "bench", "config": consumer})

    def schedule(self, count: int, due_ms: int) -> None:
        """Publish `count` messages for one moment; returns when all are acknowledged."""
        made = values()
        headers = b"NATS/1.0\r\nNats-Schedule: @at %s\r\nNats-Schedule-Target: due.all\r\n" % _moment(due_ms).encode()
        for start in range(0, count, UNDER_WAY):
            numbers = range(start, min(start + UNDER_WAY, count))
            self._send(b"".join(_published(number, headers, made[number % len(made)]) for number in numbers))
            for _ in numbers:
                answer = json.loads(self._next("in.ack"))
                if "error" in answer:
                    raise RuntimeError(f"NATS refuses a schedule: {answer['error']}")

    def arrivals(self, count: int) -> Iterator[int]:
        """Wall-clock ms of each message that the stream delivers: pulled, as many under way as there may be."""
        ask = json.dumps({"batch": count, "expires": int(SILENCE_S * 1e9)}).encode()
        self._send(b"PUB $JS.API.CONSUMER.MSG.NEXT.bench.reader in.got %d\r\n%s\r\n" % (len(ask), ask))
        for _ in range(count):
            self._next("due.all")
            yield _CLOCK.now_ms()

    # --- the protocol

    def _send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def _ask(self, what: str, question: object) -> None:
        body = json.dumps(question).encode()
        self._send(b"PUB $JS.API.%s in.answer %d\r\n%s\r\n" % (what.encode(), len(body), body))
        answer = json.loads(self._next("in.answer"))
        if "error" in answer:
            raise RuntimeError(f"NATS refuses {what}: {answer['error']}")

    def _next(self, subject: str) -> bytes:
        """The next message to `subject`, which must be the next message at all."""
        while True:
            line = self._lines.readline()
            if not line:
                raise RuntimeError("NATS has closed the connection")
            kind, *fields = line.split()
            if kind in (b"MSG", b"HMSG"):
                size = int(fields[-1])
                body: bytes = self._lines.read(size + 2)[:size]
                if fields[0] != subject.encode():
                    raise RuntimeError(f"expected {subject}, got {line!r}")
                return body
            if kind == b"PING":
                self._send(b"PONG\r\n")
            elif kind == b"-ERR":
                raise RuntimeError(f"NATS: {line!r}")


def _published(number: int, headers: bytes, value: bytes) -> bytes:
    head = b"%sid: %016d\r\ntrace: %s\r\n\r\n" % (headers, number, b"t" * 55)
    return b"HPUB wait.%d in.ack %d %d\r\n%s%s\r\n" % (number, len(head), len(head) + len(value), head, value)


def _moment(epoch_ms: int) -> str:
    return format_moment(epoch_ms)
