"""Between the event loop and the queue's threads."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

_Waiter = asyncio.Future[Future[T]]
"""Gets the future when that is done."""


class Bridge:
    """Lets the loop wait for futures that other threads complete; for use on one loop's thread.

    Hot: once per send. Both ways go in groups. What the requests of one turn of the loop want is begun at its end:
    the queue's thread, woken by the first, would fight with the loop for the interpreter and have a group of one. A
    group commit completes many futures in one go; waking the loop costs a system call each time, so all that end
    before the loop gets round to it share one wake-up. `asyncio.wrap_future` wakes it for every single one: with a
    timeout 16 us per send in groups of 32, against 10 here, task and future included.
    """

    def __init__(self) -> None:
        self._wanted: list[tuple[Callable[[], Future[Any]], _Waiter[Any]]] = []
        self._ended: deque[Callable[[], None]] = deque()  # both are bounded by the requests in flight
        self._woken = False

    async def result(self, future: Future[T], timeout_s: float) -> T:
        """What the future brings. Raises its exception, or TimeoutError."""
        if future.done():
            return future.result()
        loop = asyncio.get_running_loop()
        waiter: _Waiter[T] = loop.create_future()
        self._pass_on(future, loop, waiter)
        return await _within(waiter, loop, timeout_s)

    async def result_of(self, begin: Callable[[], Future[T]], timeout_s: float) -> T:
        """The same for the future that `begin` returns, which is called at the end of the loop's turn: in the order
        of these calls, together with those of other requests. Raises what `begin` raises, too."""
        loop = asyncio.get_running_loop()
        waiter: _Waiter[T] = loop.create_future()
        if not self._wanted:
            loop.call_soon(self._begin, loop)
        self._wanted.append((begin, waiter))
        return await _within(waiter, loop, timeout_s)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        wanted, self._wanted = self._wanted, []
        for begin, waiter in wanted:
            try:
                self._pass_on(begin(), loop, waiter)
            except Exception as error:  # noqa: BLE001 - handed to the one who asked
                if not waiter.done():
                    waiter.set_exception(error)

    def _pass_on(self, future: Future[T], loop: asyncio.AbstractEventLoop, waiter: _Waiter[T]) -> None:
        future.add_done_callback(lambda done: self._enqueue(loop, partial(_resolve, waiter, done)))

    def call_when_done(self, future: Future[T], then: Callable[[Future[T]], None]) -> None:
        """Call `then(future)` on the running loop when the future is done."""
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda done: self._enqueue(loop, lambda: then(done)))

    def _enqueue(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        """Any thread. The order makes it safe without a lock: the entry stands before the flag is read, and the loop
        clears the flag before it empties the queue; two wake-ups are harmless."""
        self._ended.append(call)
        if not self._woken:
            self._woken = True
            _wake(loop, self._drain)

    def _drain(self) -> None:
        self._woken = False
        while self._ended:
            self._ended.popleft()()


def _wake(loop: asyncio.AbstractEventLoop, call: Callable[..., Any]) -> None:
    """A loop that has ended refuses calls, and then no request waits any more."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


async def _within(waiter: _Waiter[T], loop: asyncio.AbstractEventLoop, timeout_s: float) -> T:
    timer = loop.call_later(timeout_s, _expire, waiter)
    try:
        future = await waiter
    finally:
        timer.cancel()
    return future.result()


def _resolve(waiter: _Waiter[T], future: Future[T]) -> None:
    if not waiter.done():
        waiter.set_result(future)


def _expire(waiter: _Waiter[T]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError())
