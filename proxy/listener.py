"""A port for clients. Processes on one machine may share it."""

import asyncio
from collections.abc import Callable
from ssl import SSLContext

from delayline.process.listening import listen

BACKLOG = 1024


async def open_port(
    host: str, port: int, connected: Callable[[], asyncio.Protocol], tls: SSLContext | None, in_use: str
) -> asyncio.Server:
    """`connected` makes what serves a client; where there is TLS, its handshake comes first. `in_use` is what
    to do where others have the port. Raises CannotListen."""
    listener = listen(host, port, backlog=BACKLOG, in_use=in_use, shared=True)
    listener.setblocking(False)
    return await asyncio.get_running_loop().create_server(connected, sock=listener, backlog=BACKLOG, ssl=tls)
