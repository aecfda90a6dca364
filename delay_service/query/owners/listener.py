"""Where a worker answers other processes: a port of its own, in a thread and an event loop of its own.

It answers for the worker of its process and never asks another, so that no question goes round in circles.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from types import TracebackType

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from delay_service.query.owners import local, wire
from delay_service.query.owners.errors import NotMine, NotYet
from delay_service.query.owners.local import LocalOwners
from delay_service.query.owners.methods import METHODS, Malformed
from delay_service.query.owners.signing import Signer
from delay_service.query.owners.wire import Status
from delayline.clock import Clock
from delayline.http.guard import Guard
from delayline.http.server import HttpServer, http_config
from delayline.process import logs
from delayline.process.tls import TlsContext
from delayline.questions.inquiry import OwnerUnavailable
from mq.errors import QueueError

BODY_TIMEOUT_S = 10.0
"""A question is small, and the process that asks it gives up sooner."""

GRACE_S = 1
"""For questions that are open when the process ends: twice `local.LOOK_AGAIN_S`."""

STOP_WITHIN_S = GRACE_S + 1.0

log = logs.get(__name__)


class Refused(Exception):
    """Why there is no answer."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class OwnerRequestHandler:
    """The application: a signed question in, an answer of the worker out."""

    def __init__(self, owners: LocalOwners, signer: Signer, clock: Clock) -> None:
        self._owners = owners
        self._signer = signer
        self._clock = clock
        self._ending = False
        self.app = Starlette(routes=[Route(wire.PATH, self._handle, methods=["POST"])])

    def end(self) -> None:
        """Callers that still wait have to ask another process. Any thread."""
        self._ending = True

    async def _handle(self, request: Request) -> Response:
        try:
            return Response(await self._answer(request), Status.ANSWER)
        except Refused as refused:
            return Response(refused.detail, refused.status)
        except ClientDisconnect:  # whoever asked is gone, or was killed: nobody reads an answer
            return Response(status_code=Status.MALFORMED)

    async def _answer(self, request: Request) -> bytes:
        body = await _body(request)
        signature = request.headers.get(wire.SIGNATURE, "")
        if not self._signer.accepts(signature, request.url.path, body):
            log.warning("a question that is not signed with our secret", path=request.url.path)
            raise Refused(Status.UNSIGNED, "signed with another secret, or by a clock that is a minute off")
        asked = request.path_params
        if asked["writer"] != self._owners.writer:
            raise Refused(Status.NOT_MINE, "another worker answers here")
        method = METHODS.get(asked["method"])
        if method is None:
            raise Refused(Status.NO_SUCH_METHOD, f"there is no question called {asked['method']!r}")
        wait_s = min(asked["wait_ms"], wire.WAIT_MS_MAX) / 1000
        try:
            arguments = method.decode_question(body)
            answer = await local.ask(self._owners, method, arguments, wait_s, self._clock, lambda: self._ending)
            return method.encode_answer(answer)
        except Exception as error:
            raise _refused(error, method.name) from error


def _refused(error: Exception, method: str) -> Refused:
    match error:
        case Malformed():
            return Refused(Status.MALFORMED, str(error))
        case NotMine():
            return Refused(Status.NOT_MINE, str(error))
        case NotYet():
            return Refused(Status.NOT_YET, str(error))
        case OwnerUnavailable():
            return Refused(Status.UNAVAILABLE, str(error))
        case QueueError():
            return Refused(Status.QUEUE_UNAVAILABLE, str(error))
    log.error("a question was not answered", method=method, exc_info=error)
    return Refused(Status.FAILED, "an error of the worker; its log has the details")


async def _body(request: Request) -> bytes:
    """Raises Refused."""
    chunks, total = [], 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for chunk in request.stream():
                total += len(chunk)
                if total > wire.QUESTION_BYTES_MAX:
                    raise Refused(Status.TOO_LARGE, f"a question has at most {wire.QUESTION_BYTES_MAX} bytes")
                chunks.append(chunk)
    except TimeoutError as error:
        raise Refused(Status.MALFORMED, f"the question took longer than {BODY_TIMEOUT_S:g} s") from error
    return b"".join(chunks)


class Listener:
    """Lets a desk answer on a bound socket while it is entered. `failure` is what ended it if that was not us;
    `on_failure` is then called in its thread."""

    def __init__(
        self,
        bound: socket.socket,
        desk: OwnerRequestHandler,
        on_failure: Callable[[], None],
        guard: Guard,
        tls: TlsContext | None = None,
    ) -> None:
        self._bound = bound
        self._desk = desk
        self._on_failure = on_failure
        self._stopping = False
        self._server = HttpServer(http_config(desk.app, guard, GRACE_S), guard, tls)
        self._thread = threading.Thread(target=self._work, name="owners-listener", daemon=True)
        self.failure: BaseException | None = None

    def __enter__(self) -> "Listener":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        self._desk.end()
        self._server.should_exit = True
        self._thread.join(STOP_WITHIN_S)

    def _work(self) -> None:
        """One that ends by itself takes the process with it: better dead than deaf."""
        try:
            self._server.run(sockets=[self._bound])
            if not self._stopping:
                raise RuntimeError("the server ended by itself")
        except BaseException as error:
            self.failure = error
            log.critical("the listener for other processes ended", error=repr(error), exc_info=True)
            if not self._stopping:
                self._on_failure()
