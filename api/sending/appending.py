"""Appends cross to the queue's threads in groups, once per turn of the event loop."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from api.bridge import Bridge, within
from mq.contract import Append, AppendRequest, Client, Position

Outcome = list[Position] | BaseException


class Appends:
    """What the requests of one turn of the event loop append goes to the queue at its end. Handed over one by one,
    the first would wake the queue's thread, which would fight with the loop for the interpreter and write a group of
    one. For the loop's thread. Hot: once per send."""

    def __init__(self, client: Client, bridge: Bridge) -> None:
        self._client = client
        self._bridge = bridge
        self._waiting: list[AppendRequest] = []  # bounded by the requests in flight

    async def store(self, records: Sequence[Append], timeout_s: float) -> list[Position]:
        """All or none, durably. Raises what the queue answers, or TimeoutError."""
        waiter: asyncio.Future[list[Position]] = asyncio.get_running_loop().create_future()
        self.hand_over(records, partial(_complete, waiter))
        return await within(waiter, timeout_s)

    def hand_over(self, records: Sequence[Append], then: Callable[[Outcome], None]) -> None:
        """The same without waiting; `then` is called on the loop when it has ended."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append(AppendRequest(records, partial(self._bridge.pass_on, loop, then)))

    def _flush(self) -> None:
        requests, self._waiting = self._waiting, []
        try:
            self._client.append_each(requests)
        except Exception as error:  # noqa: BLE001 - a bug, handed to all whom it may concern
            for request in requests:
                request.ended(error)


def _complete(waiter: asyncio.Future[list[Position]], outcome: Outcome) -> None:
    if waiter.done():
        return  # it took too long, or the request has ended
    if isinstance(outcome, BaseException):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(outcome)
