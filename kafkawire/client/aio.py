"""A connection to a broker in an event loop, of the proxy's own: the socket and deadlines around `session`."""

import asyncio
from collections import deque
from typing import TypeVar

from delayline.clock import Clock
from kafkawire.client.address import Address
from kafkawire.client.session import Session
from kafkawire.protocol.errors import AnswerLost, Unreachable, WireError
from kafkawire.protocol.message import Message, decode
from kafkawire.security.access import Access
from kafkawire.security.sasl import advance, login

A = TypeVar("A", bound=Message)

READ_BYTES = 1 << 16
"""At a time: what a StreamReader holds before it stops the socket."""


class AsyncConnection:
    """Made by `connect`. It ends with the first failure; requests without an answer fail with AnswerLost."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._session = Session(client_id)
        self._waiting: deque[asyncio.Future[memoryview]] = deque()  # one for each request in flight, in its order
        self._open = True
        self._task = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    @property
    def use_until_s(self) -> float:
        """The monotonic time at which another connection takes over."""
        return self._session.use_until_s

    async def ask(self, request: Message, version: int, answer: type[A], timeout_s: float) -> A:
        """Raises Unreachable, AnswerLost and Malformed."""
        frame = self._session.request(request, version)
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._writer.writelines(frame)
        try:
            async with asyncio.timeout(timeout_s):
                body = await future
        except TimeoutError:
            self.close(f"no answer within {timeout_s} s")
            raise AnswerLost(f"no answer within {timeout_s} s") from None
        return decode(answer, version, body)

    async def authenticate(self, access: Access, host: str, timeout_s: float, clock: Clock) -> None:
        """Raises NotAuthenticated, Unreachable, AnswerLost and Malformed."""
        if access.credentials is None:
            return
        steps = login(access.credentials, host)
        asking = await asyncio.to_thread(advance, steps)  # it may fetch a token, or ask a KDC
        while not isinstance(asking, int):
            answer = await self.ask(asking.request, asking.version, asking.answer, timeout_s)
            asking = await asyncio.to_thread(advance, steps, answer)
        self._session.authenticated(asking, clock.monotonic_s())

    async def _read(self) -> None:
        try:
            while self._session.is_open:
                for answer in self._session.feed(await self._reader.read(READ_BYTES)):
                    future = self._waiting.popleft()
                    if not future.done():  # whoever asked may have gone away
                        future.set_result(answer.body)
        except (OSError, WireError) as error:
            self.close(str(error) or "closed by the broker")

    def close(self, reason: str = "closed") -> None:
        if not self._open:
            return
        self._open = False
        self._session.end()
        self._writer.close()
        self._task.cancel()
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(AnswerLost(reason))


async def connect(
    address: Address, access: Access, client_id: str, timeout_s: float, clock: Clock
) -> AsyncConnection:
    """Connected and authenticated. Raises Unreachable, NotAuthenticated."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(*address, ssl=access.tls)
    except (OSError, TimeoutError) as error:
        raise Unreachable(f"{address.host}:{address.port}: {error or 'no answer'}") from error
    connection = AsyncConnection(reader, writer, client_id)
    try:
        await connection.authenticate(access, address.host, timeout_s, clock)
    except AnswerLost as error:
        raise Unreachable(f"{address.host}:{address.port}: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection
