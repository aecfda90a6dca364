"""A peer that follows a script: it listens on 127.0.0.1 and hands each request to `script`, which answers what it
likes, when it likes, in whatever order."""

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread

from rocketmq.errors import WireError
from rocketmq.wire.command import Command, decode_frame, encode_frame
from rocketmq.wire.frames import FrameSplitter


class PeerLink:
    """One connection, as the peer has it. For any thread."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = Lock()

    def send(self, command: Command) -> None:
        self.send_bytes(b"".join(encode_frame(command)))

    def send_bytes(self, data: bytes) -> None:
        with self._lock, suppress(OSError):
            self._channel.sendall(data)

    def hang_up(self) -> None:
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)


Script = Callable[[PeerLink, Command], None]


class ScriptedPeer:
    """Ends with `close`. `seen` are the requests, in their order."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self._tls = tls
        self.seen: list[Command] = []
        self.links: list[PeerLink] = []
        self.connected = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in self.links:
            link.hang_up()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                channel, _ = self._listener.accept()
                if self._tls is not None:
                    channel = self._tls.wrap_socket(channel, server_side=True)
                self.links.append(PeerLink(channel))
                self._threads.append(Thread(target=self._serve, args=(channel, self.links[-1]), daemon=True))
                self._threads[-1].start()
                self.connected.set()

    def _serve(self, channel: socket.socket, link: PeerLink) -> None:
        splitter = FrameSplitter()
        with channel, suppress(OSError, WireError):
            while data := channel.recv(65536):
                for payload in splitter.feed(data):
                    command = decode_frame(payload)
                    self.seen.append(command)
                    self.script(link, command)
