"""The thin shell around the application: a socket, an event loop, and an end within three seconds."""

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import NamedTuple

from api.app import DelaylineApi
from delayline.http.server import BACKLOG, HttpServer, http_config
from delayline.process.listening import listen
from delayline.process.tls import TlsContext

GRACE_S = 2
"""What requests under way get when the server stops; a send has its answer or was never promised anything."""


class HttpPort(NamedTuple):
    """What answers on an address. `setting` is the name of the setting that `port` comes from; with `tls`, clients
    must speak it."""

    app: DelaylineApi
    host: str
    port: int
    setting: str
    tls: TlsContext | None = None

    def listen(self) -> socket.socket:
        """Raises CannotListen."""
        return listen(self.host, self.port, backlog=BACKLOG, in_use=f"choose another with {self.setting}")


def serve(main: HttpPort, *others: HttpPort, on_started: Callable[[int], None]) -> None:
    """Answer requests until SIGINT or SIGTERM, then end within three seconds and return normally: the caller closes
    what it has opened. For the main thread, the only one that hears signals.

    `on_started` is called with the main port when requests are answered, so not before the addresses are bound.
    Raises CannotListen.
    """
    with contextlib.ExitStack() as stack:
        listener, *beside = [stack.enter_context(contextlib.closing(port.listen())) for port in (main, *others)]
        bound_port = listener.getsockname()[1]
        pairs = list(zip(others, beside, strict=True))
        _Server(main, pairs, lambda: on_started(bound_port)).run(sockets=[listener])


class _Server(HttpServer):
    """With three differences: it logs when it is ready to answer, streams learn that it stops, and a signal ends
    `serve` instead of the process (uvicorn raises it again, before the caller could close anything). All ports are
    answered by one event loop, so that a health check shows whether it turns."""

    def __init__(
        self, main: HttpPort, others: Sequence[tuple[HttpPort, socket.socket]], on_started: Callable[[], None]
    ) -> None:
        super().__init__(http_config(main.app, main.app.guard, GRACE_S, "on"), main.app.guard, main.tls)
        self._app = main.app
        self._others = others
        self._others_open = contextlib.AsyncExitStack()
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for port, listener in self._others:
            await self._others_open.enter_async_context(port.app.router.lifespan_context(port.app))
            await self.open(listener, http_config(port.app, port.app.guard, GRACE_S), port.app.guard, port.tls)
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.closing.begin()
        await super().shutdown(sockets)
        await self._others_open.aclose()

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
