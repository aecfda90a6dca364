"""A connection of the proxy's own: an answer is one to the request that was asked, or the connection ends."""

import asyncio
import struct

import pytest

from delayline.clock import SystemClock
from kafkawire.client.address import Address
from kafkawire.client.aio import connect
from kafkawire.protocol.errors import AnswerLost
from kafkawire.protocol.message import encode, peek, response_frame
from kafkawire.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from kafkawire.security.access import Access

VERSION = 3


async def asked(shift: int) -> ApiVersionsResponse:
    """By a broker whose answers name a request so many behind the one that was asked."""

    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        api, version, correlation_id = peek(await reader.readexactly(length))
        body = encode(ApiVersionsResponse(0, []), version)
        writer.writelines(response_frame(api, version, correlation_id + shift, body))
        await ended.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = Address(*server.sockets[0].getsockname()[:2])
        connection = await connect(address, Access(), "test", 10, SystemClock())
        try:
            return await connection.ask(ApiVersionsRequest(), VERSION, ApiVersionsResponse, 10)
        finally:
            assert connection.is_open is (shift == 0)
            connection.close()
            ended.set()


def test_an_answer_to_the_request_is_taken() -> None:
    assert asyncio.run(asked(0)) == ApiVersionsResponse(0, [])


def test_an_answer_to_another_request_ends_the_connection() -> None:
    with pytest.raises(AnswerLost, match="an answer to request 2 instead of 1"):
        asyncio.run(asked(1))
