"""Questions on their way to workers of other processes."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from delay_service.query.owners.methods import METHODS
from delay_service.query.owners.remote import QUESTIONS_MAX, Remote
from delay_service.query.owners.signing import Signer
from delay_service.query.owners.wire import Status
from delayline.clock import ManualClock
from delayline.questions.inquiry import OwnerUnavailable
from mq.contract import Owner
from tests.unit.delay_service.query.owners.people import FOUND, ID

FIND = METHODS["find"]
ONE, TWO = Owner("w1", "127.0.0.1:1"), Owner("w2", "127.0.0.1:2")


class Answer(httpx.AsyncByteStream):
    """What the workers answer."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield FIND.encode_answer(FOUND)


class Wire(httpx.AsyncBaseTransport):
    """Holds back what worker ONE answers until it is `open`."""

    def __init__(self) -> None:
        self.full, self.open = asyncio.Event(), asyncio.Event()
        self.paths: list[str] = []
        self.at_once = self.most = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        if request.url.port == 1:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            if self.at_once == QUESTIONS_MAX:
                self.full.set()
            await self.open.wait()
            self.at_once -= 1
        return httpx.Response(Status.ANSWER, stream=Answer())


def test_a_worker_that_is_slow_has_few_questions_at_a_time_and_holds_up_no_other() -> None:
    async def main() -> None:
        wire = Wire()
        async with Remote(Signer("sixteen letters!", ManualClock()), wire) as remote:
            slow = [asyncio.create_task(remote.ask(ONE, FIND, (ID,), 60.0)) for _ in range(QUESTIONS_MAX + 5)]
            await wire.full.wait()
            assert await remote.ask(TWO, FIND, (ID,), 60.0) == FOUND
            wire.open.set()
            assert await asyncio.gather(*slow) == [FOUND] * (QUESTIONS_MAX + 5)
        assert wire.most == QUESTIONS_MAX

    asyncio.run(main())


def test_a_question_whose_turn_does_not_come_in_its_time_is_not_asked() -> None:
    async def main() -> None:
        wire = Wire()
        async with Remote(Signer("sixteen letters!", ManualClock()), wire) as remote:
            slow = [asyncio.create_task(remote.ask(ONE, FIND, (ID,), 60.0)) for _ in range(QUESTIONS_MAX)]
            await wire.full.wait()
            with pytest.raises(OwnerUnavailable, match="too many questions"):
                await remote.ask(ONE, FIND, (ID,), 0.0)
            assert len(wire.paths) == QUESTIONS_MAX
            wire.open.set()
            await asyncio.gather(*slow)

    asyncio.run(main())
