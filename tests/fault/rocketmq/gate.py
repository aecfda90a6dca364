"""A TCP proxy before a broker that can stop a worker in the middle of a commit.

The broker gives clients an address at which this listens (`brokerIP1`), and is at the same port of another one. It
forwards everything, and knows a worker's connection by the heartbeat on it. Where it aims, the next frame of a commit
of which a part has been forwarded, and which is of the kind that was asked for, is not: nothing more goes from that
worker to the broker, as if its process had stopped there, and who aims can kill it.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from queue import Empty, SimpleQueue
from threading import Thread

import msgspec

from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command, decode_frame
from rocketmq.wire.frames import FrameSplitter

ADVERTISED, BROKER = "127.0.0.2", "127.0.0.1"
PROPERTIES = {"brokerIP1": ADVERTISED, "bindAddress": BROKER}
"""Of a broker that is behind a gate."""
READ_BYTES = 256 * 1024


class Aim(Enum):
    """What is stopped, of a commit of which at least one delivery was let through."""

    DELIVERY = "between two deliveries of a commit"
    REST = "behind the deliveries of a commit, before its rows"


class Gate:
    """Of a broker's `port`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._topic = ""
        self._aim: Aim | None = None
        self._stopped: SimpleQueue[str] = SimpleQueue()
        self._listener = socket.create_server((ADVERTISED, port))
        Thread(target=self._accept, daemon=True).start()

    def stop_next(self, aim: Aim, topic: str, within_s: float) -> str | None:
        """The id of the client that was stopped in a commit for this target; None where none came so far in time."""
        self._topic, self._aim = topic, aim
        try:
            return self._stopped.get(timeout=within_s)
        except Empty:
            self._aim = None
            with suppress(Empty):
                return self._stopped.get_nowait()
            return None

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection((BROKER, self._port)) as broker:
            Thread(target=_pour, args=(broker, client), daemon=True).start()
            self._forward(client, broker)

    def _forward(self, client: socket.socket, broker: socket.socket) -> None:
        splitter, link = FrameSplitter(), _Link()
        while data := client.recv(READ_BYTES):
            for payload in splitter.feed(data):
                if self._lets_through(link, decode_frame(payload)):
                    broker.sendall(len(payload).to_bytes(4) + payload)

    def _lets_through(self, link: "_Link", command: Command) -> bool:
        if link.is_stopped:
            return False
        if command.code == Request.HEART_BEAT:
            link.client_id = str(msgspec.json.decode(command.body)["clientID"])
        elif command.code == Request.SEND_BATCH_MESSAGE and link.client_id:
            return self._commit(link, command.fields["b"])
        return True

    def _commit(self, link: "_Link", topic: str) -> bool:
        """A journal is written before the deliveries, and behind everything; rows go elsewhere."""
        if "%cursor%" in topic:
            link.deliveries = 0
            return True
        aim = Aim.DELIVERY if topic == self._topic else Aim.REST
        if self._aim is aim and link.deliveries:
            self._aim = None
            link.is_stopped = True
            self._stopped.put(link.client_id)
            return False
        link.deliveries += topic == self._topic
        return True


class _Link:
    """A client's connection. `deliveries` are those of its commit that is under way."""

    def __init__(self) -> None:
        self.client_id = ""
        self.deliveries = 0
        self.is_stopped = False


def _pour(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(READ_BYTES):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_RDWR)


@contextmanager
def gate(port: int) -> Iterator[Gate]:
    made = Gate(port)
    try:
        yield made
    finally:
        made.close()
