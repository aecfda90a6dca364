"""From the queue's threads to the event loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class Bridge:
    """Lets the loop wait for what other threads complete.

    Hot: once per send. A group commit completes many requests in one go; waking the loop costs a system call each
    time, so all that end before the loop gets round to it share one wake-up. `asyncio.wrap_future` wakes it for
    every single one: with a timeout 16 us per send in groups of 32, against 10 here, task and future included.
    """

    def __init__(self) -> None:
        self._ended: deque[tuple[Callable[[Any], None], Any]] = deque()  # bounded by the requests in flight
        self._woken = False

    async def result(self, future: Future[T], timeout_s: float) -> T:
        """What the future brings. Raises its exception, or TimeoutError."""
        if future.done():
            return future.result()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(partial(self.pass_on, loop, lambda _: _resolve(waiter)))
        await within(waiter, timeout_s)
        return future.result()

    def pass_on(self, loop: asyncio.AbstractEventLoop, then: Callable[[T], None], outcome: T) -> None:
        """Call `then(outcome)` on the loop. Any thread. The order makes it safe without a lock: the entry stands
        before the flag is read, and the loop clears the flag before it empties the queue; two wake-ups are
        harmless."""
        self._ended.append((then, outcome))
        if not self._woken:
            self._woken = True
            _wake(loop, self._drain)

    def _drain(self) -> None:
        self._woken = False
        while self._ended:
            then, outcome = self._ended.popleft()
            then(outcome)


async def within(waiter: asyncio.Future[T], timeout_s: float) -> T:
    """What the waiter brings. Raises its exception, or TimeoutError."""
    timer = waiter.get_loop().call_later(timeout_s, _expire, waiter)
    try:
        return await waiter
    finally:
        timer.cancel()


def _wake(loop: asyncio.AbstractEventLoop, call: Callable[..., Any]) -> None:
    """A loop that has ended refuses calls, and then no request waits any more."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _expire(waiter: asyncio.Future[Any]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
