"""Asks the worker of another process."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

import httpx

from delay_service.query.owners import wire
from delay_service.query.owners.errors import NotMine, NotYet, Rejected
from delay_service.query.owners.methods import Malformed, Method
from delay_service.query.owners.signing import Signer
from delay_service.query.owners.wire import Status
from delayline.process import logs
from delayline.process.tls import TlsContext
from delayline.questions.inquiry import OwnerUnavailable
from mq.contract import Owner
from mq.errors import QueueUnavailable

QUESTIONS_MAX = 128
"""To one worker at a time, each on a connection of its own. Others wait for their turn here and not in httpcore's
pool, which looks through all connections for every request that waits, whenever one comes or goes: a few hundred that
waited for a takeover kept an API process at 100 % of its processor until long after it. A worker in trouble holds
up only those that ask about its own shards."""

IDLE_MAX, KEEP_S = 16, 30.0
CONNECT_S = 1.0
MARGIN_S = 0.25
"""What an answer may take beyond the time that the worker was given; with it a question is over before the API gives
it up (`waits.FIND_S`)."""

_NO_TROUBLE = (ssl.SSLWantReadError, ssl.SSLWantWriteError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
_FIT = "internal.certfile and internal.cafile of the two processes may not fit: their logs have the reason"

log = logs.get(__name__)


class Remote:
    """Belongs to one event loop. To be used as an asynchronous context manager."""

    def __init__(
        self, signer: Signer, transport: httpx.AsyncBaseTransport | None = None, tls: TlsContext | None = None
    ) -> None:
        """With `tls`, over TLS and never without."""
        self._signer = signer
        self._tls = tls
        self._transport = transport
        self._connections = self._connected()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def __aenter__(self) -> "Remote":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.http.aclose()

    def _connected(self) -> "_Connections":
        return _Connections(None if self._tls is None else self._tls(), self._transport)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx.AsyncClient]:
        """Its connections are those with the certificates of now; the ones before end with their last question."""
        if self._tls is not None and self._tls() is not self._connections.context:
            before, self._connections = self._connections, self._connected()
            await before.end_idle()
        connections = self._connections
        connections.under_way += 1
        try:
            yield connections.http
        finally:
            connections.under_way -= 1
            if connections is not self._connections:
                await connections.end_idle()

    async def ask(self, owner: Owner, method: Method, arguments: tuple[Any, ...], wait_s: float) -> Any:
        """Raises OwnerUnavailable, mostly one of `owners.errors`, and QueueUnavailable."""
        body = method.encode_question(arguments)
        async with self._turn(owner, wait_s) as left_s:
            status, answer = await self._sent(owner, wire.path(owner.writer, method.name, left_s), body, left_s)
        if status != Status.ANSWER:
            raise _error(status, owner, answer.decode(errors="replace")[:500])
        try:
            return method.decode_answer(answer)
        except Malformed as error:
            raise Rejected(f"the worker at {owner.address}: {error}") from error

    @asynccontextmanager
    async def _turn(self, owner: Owner, wait_s: float) -> AsyncIterator[float]:
        """What is left of the time when it is this question's turn. Raises OwnerUnavailable."""
        clock = asyncio.get_running_loop().time
        give_up_s = clock() + wait_s
        turns = self._turns.get(owner.address) or asyncio.Semaphore(QUESTIONS_MAX)
        self._turns[owner.address] = turns
        try:
            async with asyncio.timeout(wait_s + MARGIN_S):
                await turns.acquire()
        except TimeoutError as error:
            raise OwnerUnavailable(f"the worker at {owner.address} has too many questions to answer") from error
        try:
            yield max(0.0, give_up_s - clock())
        finally:
            turns.release()

    async def _sent(self, owner: Owner, path: str, body: bytes, wait_s: float) -> tuple[int, bytes]:
        """Raises OwnerUnavailable."""
        scheme = "http" if self._tls is None else "https"
        url, headers = f"{scheme}://{owner.address}{path}", {wire.SIGNATURE: self._signer.sign(path, body)}
        limit = httpx.Timeout(wait_s + MARGIN_S, connect=CONNECT_S)
        data = bytearray()
        try:
            async with (
                self._client() as http,
                http.stream("POST", url, content=body, headers=headers, timeout=limit) as answer,
            ):
                async for chunk in answer.aiter_raw():
                    data += chunk
                    if len(data) > wire.ANSWER_BYTES_MAX:
                        return Status.TOO_LARGE, b"its answer is too large"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unanswered(owner, error) from error
        return answer.status_code, bytes(data)


class _Connections:
    """To all workers, with one state of the certificates."""

    def __init__(self, context: ssl.SSLContext | None, transport: httpx.AsyncBaseTransport | None) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=IDLE_MAX, keepalive_expiry=KEEP_S)
        self.context = context
        self.http = httpx.AsyncClient(
            limits=limits, transport=transport, trust_env=False, verify=True if context is None else context
        )
        self.under_way = 0

    async def end_idle(self) -> None:
        """Close all, once none is used."""
        if not self.under_way:
            await self.http.aclose()


def _unanswered(owner: Owner, error: Exception) -> OwnerUnavailable:
    """A server that refuses a handshake closes the connection, as one does that ends: only its log has the reason."""
    if (trouble := _tls_trouble(error)) is not None:
        log.error("no TLS with a worker", address=owner.address, error=str(trouble))
        return Rejected(f"no TLS with the worker at {owner.address} ({trouble.reason or trouble}): {_FIT}")
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return OwnerUnavailable(f"the worker at {owner.address} closed the connection; if that lasts, {_FIT}")
    return OwnerUnavailable(f"the worker at {owner.address} does not answer ({type(error).__name__})")


def _tls_trouble(error: BaseException) -> ssl.SSLError | None:
    """What is wrong with the two ends; None where the other is just slow, or gone."""
    cause: BaseException | None = error
    while cause is not None and (not isinstance(cause, ssl.SSLError) or isinstance(cause, _NO_TROUBLE)):
        cause = cause.__cause__ or cause.__context__
    return cause


def _error(status: int, owner: Owner, detail: str) -> Exception:
    match status:
        case Status.NOT_MINE:
            return NotMine(detail)
        case Status.NOT_YET:
            return NotYet(detail)
        case Status.UNAVAILABLE:
            return OwnerUnavailable(detail)
        case Status.QUEUE_UNAVAILABLE:
            return QueueUnavailable(detail)
    log.error("a worker does not take our question", address=owner.address, status=status, detail=detail)
    return Rejected(f"the worker at {owner.address} does not take the question ({status}): {detail}")
