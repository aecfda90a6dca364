"""uvicorn with our protocol, which bounds what strangers do, and with TLS whose handshakes are counted."""

import asyncio
import socket
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from delayline.http.guard import Guard
from delayline.http.protocol import GuardedProtocol
from delayline.process.tls import TlsContext, TlsServer

BACKLOG = 2048


def http_config(app: ASGIApp, guard: Guard, grace_s: int, lifespan: str = "off") -> uvicorn.Config:
    """`grace_s` is what requests under way get when the server stops."""
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=partial(GuardedProtocol, guard),  # type: ignore[arg-type]  # uvicorn only calls it
        ws="none",
        lifespan=lifespan,  # type: ignore[arg-type]
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=guard.limits.idle_timeout_s,  # type: ignore[arg-type]  # handed to call_later
        timeout_graceful_shutdown=grace_s,
    )


class HttpServer(uvicorn.Server):
    """uvicorn's, on sockets that are listening; with `tls`, clients must speak it."""

    def __init__(self, config: uvicorn.Config, guard: Guard, tls: TlsContext | None) -> None:
        super().__init__(config)
        self._guard = guard
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        for listener in sockets or []:
            await self.open(listener, self.config, self._guard, self._tls)

    async def open(
        self, listener: socket.socket, config: uvicorn.Config, guard: Guard, tls: TlsContext | None
    ) -> None:
        """Answer on this socket, too, until the server stops."""
        config = config if config.loaded else _loaded(config)
        options = {"config": config, "server_state": self.server_state, "app_state": self.lifespan.state}
        connected = partial(config.http_protocol_class, **options)
        server: Any
        if tls is None:
            server = await asyncio.get_running_loop().create_server(connected, sock=listener, backlog=BACKLOG)
        else:
            server = TlsServer(listener, tls, guard.handshakes, connected, partial(guard.count, "handshake"))
        self.servers.append(server)


def _loaded(config: uvicorn.Config) -> uvicorn.Config:
    config.load()
    return config
