"""Results that come from other threads."""

import asyncio
from concurrent.futures import Future
from threading import Thread
from typing import Any

import pytest

from api.bridge import Bridge


def test_a_result_that_is_there_is_taken_at_once() -> None:
    future: Future[int] = Future()
    future.set_result(7)
    assert asyncio.run(Bridge().result(future, 1)) == 7


def test_results_of_another_thread_arrive_and_many_at_once_share_a_wake_up(monkeypatch: pytest.MonkeyPatch) -> None:
    futures: list[Future[int]] = [Future() for _ in range(100)]
    wakes = 0

    async def main() -> list[int]:
        nonlocal wakes
        loop, bridge = asyncio.get_running_loop(), Bridge()
        real = loop.call_soon_threadsafe

        def counted(*args: Any, **options: Any) -> object:
            nonlocal wakes
            wakes += 1
            return real(*args, **options)

        waiting = asyncio.gather(*(bridge.result(future, 5) for future in futures))
        await asyncio.sleep(0)
        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        thread = Thread(target=lambda: [future.set_result(n) for n, future in enumerate(futures)])
        thread.start()
        thread.join()
        return await waiting

    assert asyncio.run(main()) == list(range(100))
    assert wakes == 1


def test_an_exception_arrives_as_itself() -> None:
    future: Future[int] = Future()

    async def main() -> None:
        waiting = asyncio.ensure_future(Bridge().result(future, 5))
        await asyncio.sleep(0)
        future.set_exception(ValueError("no"))
        await waiting

    with pytest.raises(ValueError, match="no"):
        asyncio.run(main())


def test_a_result_that_does_not_come_is_a_timeout_and_may_come_later_unheard() -> None:
    future: Future[int] = Future()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await Bridge().result(future, 0.01)
        future.set_result(1)
        await asyncio.sleep(0)

    asyncio.run(main())


def test_a_result_after_the_loop_has_ended_harms_nobody() -> None:
    future: Future[int] = Future()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await Bridge().result(future, 0.01)

    asyncio.run(main())
    future.set_result(1)
    assert future.result() == 1
