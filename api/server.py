"""The thin shell around the application: a socket, an event loop, and an end within three seconds."""

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from api.app import DelaylineApi
from delayline.http.protocol import GuardedProtocol
from delayline.process.listening import listen
from delayline.process.tls import ListenerTls, TlsServer

BACKLOG = 2048
GRACE_S = 2
"""What requests under way get when the server stops; a send has its answer or was never promised anything."""


def serve(
    app: DelaylineApi,
    host: str,
    port: int,
    *,
    setting: str,
    on_started: Callable[[int], None],
    tls: ListenerTls | None = None,
) -> None:
    """Answer requests until SIGINT or SIGTERM, then end within three seconds and return normally: the caller closes
    what it has opened. For the main thread, the only one that hears signals.

    `setting` is the name of the setting that `port` comes from; with `tls`, clients must speak it. `on_started` is
    called with the port when requests are answered, so not before the address is bound.
    Raises CannotListen.
    """
    listener = listen(host, port, backlog=BACKLOG, in_use=f"choose another with {setting}")
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=partial(GuardedProtocol, app.guard),  # type: ignore[arg-type]  # uvicorn only calls it
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=app.guard.limits.idle_timeout_s,  # type: ignore[arg-type]  # handed to call_later,
        timeout_graceful_shutdown=GRACE_S,
    )
    bound_port = listener.getsockname()[1]
    server = _Server(config, app, lambda: on_started(bound_port), tls)
    with contextlib.closing(listener):
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn's, with four differences: it logs when it is ready to answer, streams learn that it stops, a signal
    ends `serve` instead of the process (uvicorn raises it again, before the caller could close anything), and TLS
    handshakes are counted."""

    def __init__(
        self, config: uvicorn.Config, app: DelaylineApi, on_started: Callable[[], None], tls: ListenerTls | None
    ) -> None:
        super().__init__(config)
        self._app = app
        self._on_started = on_started
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is None:
            await super().startup(sockets)
        else:
            await super().startup([])
            self.servers += [self._encrypted(listener, self._tls) for listener in sockets or []]
        self._on_started()

    def _encrypted(self, listener: socket.socket, tls: ListenerTls) -> Any:
        guard, config = self._app.guard, self.config
        options = {"config": config, "server_state": self.server_state, "app_state": self.lifespan.state}
        connected = partial(config.http_protocol_class, **options)
        return TlsServer(listener, tls, guard.handshakes, connected, partial(guard.count, "handshake"))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.closing.begin()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal ends gracefully, a second one at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
