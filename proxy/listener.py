"""A port for clients. Processes on one machine may share it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from delayline.process.listening import listen
from delayline.process.tls import Connected

BACKLOG = 1024


class OpenPort(Protocol):
    """A port that is listened on."""

    def close(self) -> None:
        """Take no more connections."""


Accept = Callable[[socket.socket, Connected], Awaitable[OpenPort]]
"""Takes the connections of a listening socket from now on."""


async def accept_plaintext(listener: socket.socket, connected: Connected) -> OpenPort:
    """`Accept` without TLS."""
    listener.setblocking(False)
    return await asyncio.get_running_loop().create_server(connected, sock=listener, backlog=BACKLOG)


async def open_port(host: str, port: int, connected: Connected, in_use: str, accept: Accept) -> OpenPort:
    """`in_use` is what to do where others have the port. Raises CannotListen."""
    return await accept(listen(host, port, backlog=BACKLOG, in_use=in_use, shared=True), connected)
