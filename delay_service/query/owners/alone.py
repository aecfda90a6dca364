"""The one worker of an installation without others: what the HTTP API asks on the embedded queue.

A shard is taken over when the first message of its topic is delayed, and after a start. A question that meets that
waits as long as one to a worker elsewhere does (`routing`), in an event loop, so that it holds up no other. Asking
again does no harm: questions change nothing, and a skip names the stall that it is meant for.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Protocol, TypeVar

from delay_service.query.owners.local import LocalOwners
from delay_service.query.owners.methods import covered
from delay_service.query.owners.waits import AGAIN_S, DECIDE_S, FIND_S, HELD_S, PAUSE_S, STOP_WITHIN_S
from delayline.clock import Clock
from delayline.questions.inquiry import (
    DueCounts,
    DueQuery,
    Found,
    Gone,
    Held,
    Listing,
    OwnerUnavailable,
    Query,
    RequestedNames,
    Resolution,
    ShardFigures,
    Skip,
    StallReport,
)
from delayline.records.message import MessageId, Shard

T = TypeVar("T")

FIRST_PAUSE_S = 0.02
"""A new shard is taken over in that time. The pauses grow to `PAUSE_S`: a long takeover must not be asked hundreds of
times a second whether it has ended."""

Pause = Callable[[float], Awaitable[object]]


class TheWorker(LocalOwners, Protocol):
    """See `delay_service.query.inquiry.WorkerInquiry`."""

    def exists(self, shard: Shard) -> bool:
        """Whether there is such a shard at all, owned or not. Quick; any thread."""


class LoneWorker:
    """Any thread may ask it. To be used as a context manager."""

    def __init__(self, here: TheWorker, clock: Clock, pause: Pause = asyncio.sleep) -> None:
        self._here = here
        self._clock = clock
        self._pause = pause
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="owner", daemon=True)

    def __enter__(self) -> "LoneWorker":
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_WITHIN_S)

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        await self._stopping.wait()

    def _submit(self, answering: "Coroutine[Any, Any, T]") -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(answering, self._loop)

    async def _ask(self, question: "Callable[[], Future[T]]", within_s: float) -> T:
        """The worker's answer. Raises OwnerUnavailable where there is none in that time."""
        give_up_s, pause_s = self._clock.monotonic_s() + within_s, FIRST_PAUSE_S
        while True:
            try:
                return await asyncio.wrap_future(question())
            except OwnerUnavailable:
                if self._clock.monotonic_s() + pause_s >= give_up_s:
                    raise
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S)

    async def _ask_all(
        self, question: "Callable[[Sequence[Shard]], Future[list[T]]]", shards: Sequence[Shard]
    ) -> list[T]:
        """What the worker answers about these shards, and after that its later answers about those that it has left
        out, for `AGAIN_S`: a list that lacks a shard is better than one that comes late."""
        give_up_s, pause_s = self._clock.monotonic_s() + AGAIN_S, FIRST_PAUSE_S
        found = await asyncio.wrap_future(question(shards))
        while missing := self._missing(shards, found):
            if self._clock.monotonic_s() + pause_s >= give_up_s:
                break
            await self._pause(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S)
            found = found + await asyncio.wrap_future(question(missing))
        return found

    def _missing(self, shards: Sequence[Shard], found: Sequence[Any]) -> list[Shard]:
        """Those that the answer lacks, and that are there: a topic that never had a delayed message has none."""
        return [shard for shard in sorted(set(shards) - covered(found)) if self._here.exists(shard)]

    # --- delayline.questions.inquiry.Owners

    def find(self, message_id: MessageId) -> "Future[Found | Gone | None]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._ask(lambda: self._here.find(message_id), FIND_S))

    def decided(self, shard: Shard, offset: int) -> "Future[Resolution]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._here.decided(shard, offset)

    def all_decided(self, shard: Shard, offsets: Sequence[int]) -> "Future[list[Resolution]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._here.all_decided(shard, offsets)

    def held(self, shard: Shard, requested: Sequence[RequestedNames]) -> "Future[list[Held]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._ask(lambda: self._here.held(shard, requested), HELD_S))

    def page(self, shards: Sequence[Shard], query: Query) -> "Future[list[Listing]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._ask_all(lambda some: self._here.page(some, query), shards))

    def due_counts(self, shards: Sequence[Shard], query: DueQuery) -> "Future[list[DueCounts]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._ask_all(lambda some: self._here.due_counts(some, query), shards))

    def stall(self, shard: Shard) -> "Future[StallReport]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._ask(lambda: self._here.stall(shard), FIND_S))

    def skip(self, shard: Shard, skip: Skip) -> "Future[StallReport]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._submit(self._ask(lambda: self._here.skip(shard, skip), DECIDE_S))

    def figures(self) -> "Future[list[ShardFigures]]":
        """See `delayline.questions.inquiry.Owners`."""
        return self._here.figures()
