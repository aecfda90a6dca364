"""A connection of the proxy's own to a broker: requests in, answers out, in order."""

import asyncio
import struct
from collections import deque
from typing import NamedTuple, TypeVar

from delayline.clock import Clock
from kafkawire.client.address import Address
from kafkawire.protocol.errors import AnswerLost, FrameTooLarge, Unreachable, WireError
from kafkawire.protocol.frames import FRAME_BYTES_MAX
from kafkawire.protocol.message import Message, RequestHeader, decode, encode, read_answer, request_frame
from kafkawire.security.access import Access
from kafkawire.security.sasl import advance, login

A = TypeVar("A", bound=Message)
_LENGTH = struct.Struct(">i")
LIFETIME_USED = 0.8
"""Of a session's lifetime (KIP-368), before another connection takes over that authenticates anew."""


class _Expected(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    future: "asyncio.Future[memoryview]"


class Connection:
    """Made by `connect`. It ends with the first failure; whoever asked and has no answer yet hears AnswerLost."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._expected: deque[_Expected] = deque()
        self._correlation_id = 0
        self._open = True
        self.use_until_s = float("inf")
        self._task = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def in_flight(self) -> int:
        return len(self._expected)

    async def ask(self, request: Message, version: int, answer: type[A], timeout_s: float) -> A:
        """Raises Unreachable, AnswerLost and Malformed."""
        if not self._open:
            raise Unreachable("the connection is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        header = RequestHeader(request.api, version, self._correlation_id, self._client_id)
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._writer.writelines(request_frame(header, encode(request, version)))
        self._expected.append(_Expected(*header[:3], future))
        try:
            async with asyncio.timeout(timeout_s):
                body = await future
        except TimeoutError:
            self.close(f"no answer within {timeout_s} s")
            raise AnswerLost(f"no answer within {timeout_s} s") from None
        return decode(answer, version, body)

    async def _read(self) -> None:
        try:
            while True:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                if not 0 <= length <= FRAME_BYTES_MAX:
                    raise FrameTooLarge(f"a frame of {length} bytes")
                self._answered(await self._reader.readexactly(length))
        except (OSError, asyncio.IncompleteReadError, WireError) as error:
            self.close(str(error) or "closed by the broker")

    def _answered(self, payload: bytes) -> None:
        if not self._expected:
            raise WireError("an answer to nothing")
        api_key, version, correlation_id, future = self._expected[0]
        body = read_answer(api_key, version, correlation_id, payload)
        self._expected.popleft()  # whose answer cannot be read hears of it with the others
        if not future.done():
            future.set_result(body)

    def close(self, reason: str = "closed") -> None:
        if not self._open:
            return
        self._open = False
        self._writer.close()
        self._task.cancel()
        while self._expected:
            future = self._expected.popleft().future
            if not future.done():
                future.set_exception(AnswerLost(reason))


async def connect(address: Address, access: Access, client_id: str, timeout_s: float, clock: Clock) -> Connection:
    """Connected and authenticated. Raises Unreachable, NotAuthenticated."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(*address, ssl=access.tls)
    except (OSError, TimeoutError) as error:
        raise Unreachable(f"{address.host}:{address.port}: {error or 'no answer'}") from error
    connection = Connection(reader, writer, client_id)
    try:
        await _authenticate(connection, access, address.host, timeout_s, clock)
    except AnswerLost as error:
        raise Unreachable(f"{address.host}:{address.port}: {error}") from error
    except BaseException:
        connection.close()
        raise
    return connection


async def _authenticate(connection: Connection, access: Access, host: str, timeout_s: float, clock: Clock) -> None:
    if access.credentials is None:
        return
    steps = login(access.credentials, host)
    asking = await asyncio.to_thread(advance, steps)  # it may fetch a token, or ask a KDC
    while not isinstance(asking, int):
        answer = await connection.ask(asking.request, asking.version, asking.answer, timeout_s)
        asking = await asyncio.to_thread(advance, steps, answer)
    if asking > 0:
        connection.use_until_s = clock.monotonic_s() + LIFETIME_USED * asking / 1000
