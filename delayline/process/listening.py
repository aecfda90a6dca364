"""The address of a server: a socket that is bound and listening, or one sentence for the operator."""

import errno
import os
import socket

from delayline.errors import DelaylineError


class CannotListen(DelaylineError):
    """The address cannot be listened on; the text is one sentence for the operator."""


def listen(host: str, port: int, *, backlog: int, in_use: str, shared: bool = False) -> socket.socket:
    """Bound and listening: without `listen` another process could still bind the same port. `in_use` is the advice
    for a port that another process has; a `shared` one may be listened on by several processes (SO_REUSEPORT).
    Raises CannotListen."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise CannotListen(f"{host} is no address of this machine: {error.strerror}") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind(address)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise CannotListen(_sentence(host, port, error, in_use)) from error
    return listener


def _sentence(host: str, port: int, error: OSError, in_use: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another program; {in_use}"
    return f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}"
