"""Ports for processes that listen later than now.

They lie below the range from which the system takes clients' own ends and whatever asks for any port (Linux:
32,768 and up), so nothing takes one between the asking and the listening, nor while a process restarts."""

import socket
from contextlib import ExitStack
from random import SystemRandom

FIRST, LAST = 12_000, 31_999


def free_port() -> int:
    return free_range(1)


def free_range(count: int) -> int:
    """The first of so many ports in a row that nobody listens on."""
    while True:
        first = SystemRandom().randrange(FIRST, LAST + 2 - count)
        try:
            with ExitStack() as stack:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            continue
        return first


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
