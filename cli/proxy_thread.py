"""A proxy in a thread and an event loop of its own."""

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol

import uvloop

from cli.worker_thread import end_process
from delayline.process import logs
from proxy.connections import GRACE_S

STOP_WITHIN_S = GRACE_S + 2.0

log = logs.get(__name__)


class ProxyServer(Protocol):
    """A proxy, on one event loop."""

    trouble: str | None
    """Why clients get no answers; None where they do."""

    async def start(self) -> None:
        """Returns when every port is listened on. Raises CannotListen."""

    async def stop(self) -> None:
        """Take no more connections, let each answer what it has been asked, then close it."""


class ProxyThread:
    """`failure` is what ended the proxy if that was not us. `open_server` is called in the thread; `name` is its."""

    def __init__(self, open_server: Callable[[], ProxyServer], name: str) -> None:
        self._open_server = open_server
        self._started = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: ProxyServer | None = None
        self._listening = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Returns when every port is listened on. Raises CannotListen."""
        self._thread.start()
        self._started.wait()
        if not self._listening and self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Ask the proxy to end cleanly, and wait for it."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_WITHIN_S)

    def readiness(self) -> tuple[bool, str]:
        """Whether clients get answers, and if not, why not."""
        trouble = self._server.trouble if self._server is not None else "starting"
        return trouble is None, trouble or "ready"

    def _work(self) -> None:
        """A proxy that ends by itself takes the process with it: better dead than deaf."""
        try:
            uvloop.run(self._serve())
        except BaseException as error:
            self.failure = error
            if self._listening:
                log.critical("a proxy ended", proxy=self._thread.name, error=repr(error), exc_info=True)
                end_process()
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._server = self._open_server()
        await self._server.start()
        self._listening = True
        self._started.set()
        await self._stopping.wait()
        await self._server.stop()
