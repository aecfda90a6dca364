"""TLS of ours: certificates, which may change, and handshakes, which may never end.

asyncio makes a connection known once its handshake is over. A client that never begins one would be in no count and
under no deadline of ours, so connections are accepted here (`TlsServer`).
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import structlog

from delayline.errors import ConfigError
from delayline.http.places import Places, address_key
from delayline.process.looks import look_at
from delayline.process.watched import Watched, Watcher

_log = structlog.get_logger("tls")

HANDSHAKE_WITHIN_S = 10.0

PAUSE_S = 1.0
"""As long takes nothing new where there is no descriptor or memory for it; asyncio waits as long."""

FAILURES_S = 1.0
"""Between two lines of the log about handshakes that failed."""

_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Authorities(NamedTuple):
    """Whose certificates count at the other end of a connection. `setting` is the one that names `file` (PEM, one or
    more); `revoked` are their lists of revoked certificates (PEM), empty where there are none. Then each authority
    needs a list, and a list that is out of date refuses all of its certificates. `required`: no connection without
    a certificate."""

    setting: str
    file: str
    revoked: str = ""
    required: bool = True

    def add_to(self, context: ssl.SSLContext) -> None:
        """Raises ConfigError."""
        context.verify_mode = ssl.CERT_REQUIRED if self.required else ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # so that an intermediate can be named without its root
        trusted = _added(context, self.file, self.setting)
        if not trusted["x509"] or trusted["crl"]:
            raise ConfigError(f"{self.setting}: {self.file} is no file of certificates.")
        if self.revoked:
            lists = _added(context, self.revoked, self.setting)
            if not lists["crl"] or lists["x509"] > trusted["x509"]:
                raise ConfigError(f"{self.setting}: {self.revoked} is no file of revocation lists (CRL).")
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN


def _added(context: ssl.SSLContext, file: str, setting: str) -> dict[str, int]:
    """How many of each kind there are with those of the file. Raises ConfigError."""
    try:
        context.load_verify_locations(file)
    except OSError as error:
        raise ConfigError(f"{setting}: {file}: {error}.") from error
    return context.cert_store_stats()


class TlsFiles(NamedTuple):
    """What an end of a connection shows, and what it takes. `setting` is the one that names the certificate (PEM,
    with its chain); without a `key` that is in the same file."""

    setting: str
    certificate: str
    key: str = ""
    authorities: Authorities | None = None

    @property
    def named(self) -> list[tuple[str, Path]]:
        """The files, each with the setting that it belongs to."""
        named = [(self.setting, self.certificate), (self.setting, self.key)]
        if (peers := self.authorities) is not None:
            named += [(peers.setting, peers.file), (peers.setting, peers.revoked)]
        return [(setting, Path(file)) for setting, file in named if file]

    def server(self) -> ssl.SSLContext:
        """Raises ConfigError."""
        context = self._loaded(ssl.PROTOCOL_TLS_SERVER)
        if self.authorities is not None:
            self.authorities.add_to(context)
        return context

    def client(self) -> ssl.SSLContext:
        """Names of hosts are not checked: every server with a certificate of these authorities is one of ours.
        Raises ConfigError."""
        assert self.authorities is not None, "a client without them would trust every server"
        context = self._loaded(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        self.authorities.add_to(context)
        return context

    def _loaded(self, protocol: int) -> ssl.SSLContext:
        """Raises ConfigError."""
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key or None, "")  # else OpenSSL asks at the terminal
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(f"{self.setting}: {error}.") from error
        return context


TlsContext = Callable[[], ssl.SSLContext]
"""For a connection that begins now. After the files have changed it is another, and no open connection notices."""


def watched_context(files: TlsFiles, make: TlsContext, watcher: Watcher) -> TlsContext:
    """`make` is a method of `files`. While the files cannot be used, the context before stays in use. Raises
    ConfigError."""
    for setting, path in files.named:
        try:
            look_at(path)
        except OSError as error:
            raise ConfigError(f"{setting}: {error}.") from error
    watched = watcher.watch(Watched([path for _, path in files.named], make))
    return lambda: watched.content


def read_listener(
    certificate: str, key: str, setting: str, watcher: Watcher, clients: Authorities | None = None
) -> TlsContext | None:
    """Of a port, `clients` being those whose certificates are asked for. None where neither file is named. Raises
    ConfigError."""
    if not certificate and not key:
        return None
    files = TlsFiles(setting, certificate, key, clients)
    return watched_context(files, files.server, watcher)


Connected = Callable[[], asyncio.Protocol]
"""Makes what serves a client."""


class TlsServer:
    """Takes the connections of a listening socket as `asyncio.Server` does, but each has a place of `places` until
    its handshake is over. `connected` makes what serves it then. `refused` is called for each connection that gets
    no place, or loses it."""

    def __init__(
        self,
        listener: socket.socket,
        tls: TlsContext,
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
        self._silent_until_s, self._unlogged = 0.0, 0
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    def failed(self, address: str, error: ssl.SSLError) -> None:
        """Log why: the client only sees that the connection ends. Not more often than every `FAILURES_S`."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._silent_until_s:
            self._silent_until_s = now_s + FAILURES_S
            _log.info("a TLS handshake failed", address=address, error=str(error), more=self._unlogged)
            self._unlogged = 0
        else:
            self._unlogged += 1

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
                ssl=self._server.tls(),
                ssl_handshake_timeout=HANDSHAKE_WITHIN_S,
            )
        except ssl.SSLError as error:  # no TLS, or a certificate that does not count: the loop has closed its socket
            self._server.failed(self.address, error)
        except (OSError, asyncio.CancelledError):
            pass  # a client that has left, is too slow, or was evicted: the same
        finally:
            self._server.places.leave(self)
