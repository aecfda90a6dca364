"""A process that has imported what our commands need, and forks: `python -m tests.prepared_parent NAME OF A SOCKET`.

Each connection is one process: a request comes in (its length with the three standard files, then JSON), the pid and
a pidfd go out, and at its end the exit code. Where the other side goes, the process is killed: its starter has ended.
It must have one thread: a fork copies no other, and what such a one had locked would stay locked.
"""

import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

PACKAGES = ("delayline", "mq", "store", "delay_service", "api", "proxy")
"""Not `reconcile`: Spark runs in a process of its own anyway."""

LIBRARIES = (
    *("uvicorn.loops.uvloop", "uvicorn.protocols.http.httptools_impl", "uvicorn.lifespan.on"),
    *("uvicorn.protocols.websockets.auto", "httpx", "httpcore", "h11", "certifi", "encodings.idna", "zoneinfo"),
    *("typer.rich_utils", "typer._adapters", "markdown_it", "rich.table", "rich.console", "rich._emoji_codes"),
)
"""What is imported as late as it is used."""


class Child:
    """A process, and the line to the process that wanted it."""

    def __init__(self, pid: int, pidfd: int, line: socket.socket) -> None:
        self.pid, self.pidfd, self.line = pid, pidfd, line

    def end(self) -> None:
        """It has ended."""
        _, status = os.waitpid(self.pid, 0)
        with suppress(OSError):  # its starter may have gone
            self.line.send(b"%d" % os.waitstatus_to_exitcode(status))
        self.line.close()
        os.close(self.pidfd)


class Parent:
    def __init__(self, name: str) -> None:
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(f"\0{name}")
        self.listening.listen(64)
        self.poll = select.poll()
        self.poll.register(0, select.POLLIN | select.POLLHUP)
        self.poll.register(self.listening, select.POLLIN)
        self.by_pidfd: dict[int, Child] = {}
        self.by_line: dict[int, Child] = {}

    def serve(self) -> dict[str, Any]:
        """Returns in a process that has been forked, with what it is to be."""
        while True:
            number, _ = self.poll.poll()[0]  # one at a time: what ends gives its numbers to what comes next
            if number == 0:
                self._stop()
            elif number == self.listening.fileno():
                if request := self._accept():
                    return request
            elif number in self.by_pidfd:
                self._forget(self.by_pidfd[number]).end()
            else:
                self.poll.unregister(number)
                signal.pidfd_send_signal(self.by_line.pop(number).pidfd, signal.SIGKILL)

    def _forget(self, child: Child) -> Child:
        del self.by_pidfd[child.pidfd]
        self.poll.unregister(child.pidfd)
        if self.by_line.pop(child.line.fileno(), None):
            self.poll.unregister(child.line)
        return child

    def _stop(self) -> NoReturn:
        for child in self.by_pidfd.values():
            signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        os._exit(0)

    def _accept(self) -> dict[str, Any] | None:
        line, _ = self.listening.accept()
        length, files, _, _ = socket.recv_fds(line, 4, 3)
        request: dict[str, Any] = json.loads(_exactly(line, int.from_bytes(length, "big")))
        assert len(os.listdir("/proc/self/task")) == 1, "an import has started a thread"
        pid = os.fork()
        if pid == 0:
            self._let_go(line, files)
            return request
        for file in files:
            os.close(file)
        child = Child(pid, os.pidfd_open(pid), line)
        socket.send_fds(line, [b"%d" % pid], [child.pidfd])
        self.by_pidfd[child.pidfd] = self.by_line[line.fileno()] = child
        self.poll.register(child.pidfd, select.POLLIN)
        self.poll.register(line, select.POLLIN | select.POLLHUP)
        return None

    def _let_go(self, line: socket.socket, files: list[int]) -> None:
        """In a forked process: its own three files alone."""
        for number, file in enumerate(files):
            os.dup2(file, number)
        for one in (self.listening, line, *(child.line for child in self.by_pidfd.values())):
            one.detach()
        os.closerange(3, 4096)


def _exactly(line: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        found += line.recv(count - len(found))
    return found


def prepare() -> None:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.collect()
    gc.freeze()


def run(request: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    time.tzset()
    if os.environ.get("PYTHONFAULTHANDLER"):
        faulthandler.enable()
    command = request["command"]
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    prepare()
    parent = Parent(sys.argv[1])
    print("ready", flush=True)
    run(parent.serve())
