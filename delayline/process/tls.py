"""TLS on a port of ours: its certificate, which may change, and handshakes, which may never end.

asyncio makes a connection known once its handshake is over. A client that never begins one would be in no count and
under no deadline of ours, so connections are accepted here (`TlsServer`).
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple

import structlog

from delayline.clock import Clock
from delayline.errors import ConfigError
from delayline.http.places import Places, address_key
from delayline.process.looks import Look, look_at

_log = structlog.get_logger("tls")

LOOKED_AT_S = 1.0
"""How often the files of a certificate are looked at."""

HANDSHAKE_WITHIN_S = 10.0

PAUSE_S = 1.0
"""As long takes nothing new where there is no descriptor or memory for it; asyncio waits as long."""

_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class _Files(NamedTuple):
    certificate: str
    key: str

    def look(self) -> list[Look]:
        """At each of them. Raises OSError."""
        return [look_at(path) for path in self if path]

    def load(self) -> ssl.SSLContext:
        """Raises OSError; ssl.SSLError is one."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key or None)
        return context


class ListenerTls:
    """The certificate that a port shows. It is read again when its files change: connections that begin then get the
    new one, and no other notices. While the files cannot be used, the one before stays in use. For one thread."""

    def __init__(self, certificate: str, key: str, setting: str, clock: Clock) -> None:
        """`setting` is the one that names the certificate. Raises ConfigError."""
        self._files = _Files(certificate, key)
        self._clock = clock
        try:
            self._look = self._files.look()
            self._context = self._files.load()
        except OSError as error:
            raise ConfigError(f"{setting}: {error}.") from error
        self._looked_s = clock.monotonic_s()
        self._trouble: str | None = None

    def context(self) -> ssl.SSLContext:
        """For a handshake that begins now."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._looked_s + LOOKED_AT_S:
            self._looked_s = now_s
            self._renew()
        return self._context

    def _renew(self) -> None:
        try:
            look = self._files.look()
            if look == self._look and self._trouble is None:
                return
            self._context = self._files.load()
            self._look = look
        except OSError as error:
            if self._trouble != str(error):
                _log.error("the certificate before stays in use", file=self._files.certificate, error=str(error))
            self._trouble = str(error)
            return
        self._trouble = None
        _log.info("certificate read again", file=self._files.certificate)


def read_listener(certificate: str, key: str, setting: str, clock: Clock) -> ListenerTls | None:
    """None where neither file is named. Raises ConfigError."""
    return ListenerTls(certificate, key, setting, clock) if certificate or key else None


Connected = Callable[[], asyncio.Protocol]
"""Makes what serves a client."""


class TlsServer:
    """Takes the connections of a listening socket as `asyncio.Server` does, but each has a place of `places` until
    its handshake is over. `connected` makes what serves it then. `refused` is called for each connection that gets
    no place, or loses it."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ListenerTls,
        places: Places,
        connected: Connected,
        refused: Callable[[], None],
    ) -> None:
        """Begins at once, on the event loop that runs."""
        listener.setblocking(False)
        self.tls = tls
        self.places = places
        self.connected = connected
        self.refused = refused
        self._listener = listener
        self._handshakes: set[_Handshake] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def close(self) -> None:
        """Take no more connections, and end the handshakes under way."""
        self._accepting.cancel()
        self._listener.close()
        for handshake in tuple(self._handshakes):
            handshake.end()

    async def wait_closed(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await self._accepting

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, peer = await loop.sock_accept(self._listener)
            except OSError as error:  # no descriptors are left, or the client has gone again
                _log.warning("a connection was not taken", error=str(error))
                await asyncio.sleep(PAUSE_S if error.errno in _NO_ROOM else 0)
                continue
            self._begin(client, address_key(peer[0]))

    def _begin(self, client: socket.socket, address: str) -> None:
        handshake = _Handshake(self, client, address)
        if self.places.enter(handshake) is not None:
            self.refused()
            client.close()
            return
        self._handshakes.add(handshake)
        handshake.begin(self._handshakes.discard)


class _Handshake:
    """A connection until its handshake is over; an occupant of `Places`."""

    def __init__(self, server: TlsServer, client: socket.socket, address: str) -> None:
        self.address = address
        self._server = server
        self._client = client
        self._task: asyncio.Task[None] | None = None

    def begin(self, ended: Callable[["_Handshake"], None]) -> None:
        """Once it has a place."""
        self._task = asyncio.get_running_loop().create_task(self._shake())
        self._task.add_done_callback(lambda task: self._over(task, ended))

    def _over(self, task: "asyncio.Task[None]", ended: Callable[["_Handshake"], None]) -> None:
        if task.cancelled():  # before its first step: the loop has not had the socket
            self._client.close()
            self._server.places.leave(self)
        ended(self)

    def evict(self) -> None:
        self._server.refused()
        self.end()

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _shake(self) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._server.connected,
                self._client,
                ssl=self._server.tls.context(),
                ssl_handshake_timeout=HANDSHAKE_WITHIN_S,
            )
        except (OSError, asyncio.CancelledError):
            pass  # no TLS, a client that has left, is too slow, or was evicted: the loop has closed its socket
        finally:
            self._server.places.leave(self)
