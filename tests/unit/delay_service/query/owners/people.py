"""A worker, a group and other processes that do what a test scripts."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from delayline.buffer.outcome import Outcome
from delayline.clock import ManualClock
from delayline.questions.inquiry import (
    DueCounts,
    DueQuery,
    Ending,
    Found,
    Gone,
    Held,
    Listing,
    Query,
    RequestedNames,
    Resolution,
    ShardFigures,
    Skip,
    StallReport,
    State,
)
from delayline.records.message import MessageId, Shard
from mq.contract import Owner
from mq.errors import QueueError, TopicUnknown

NOW_MS = 1_767_225_600_000
SHARD = Shard("orders", "3")
ID = MessageId(SHARD, 1041, NOW_MS + 30_000)
FOUND = Found(
    ID,
    State.DELIVERED,
    NOW_MS,
    NOW_MS + 30_000,
    version=2,
    key=b"\xff\x00",
    value=b"x" * 300,
    headers=((b"a", b"1"), (b"b", None)),
    ending=Ending(Outcome.DELIVERED, NOW_MS + 30_012, 12, "because"),
)
ONE = Owner("delayline-worker-1", "127.0.0.1:1001")
TWO = Owner("delayline-worker-2", "127.0.0.1:1002")


class Worker:
    """`owners.local.LocalOwners`. What it is asked stays open where a test has no answer for it."""

    def __init__(self, writer: str = ONE.writer, *shards: Shard) -> None:
        self.writer = writer
        self.shards = set(shards)
        self.answers: dict[tuple[str, Any], Any] = {}
        self.open: list[Future[Any]] = []

    def owns(self, shard: Shard) -> bool:
        return shard in self.shards

    def find(self, message_id: MessageId) -> "Future[Found | Gone | None]":
        return self._answer("find", message_id)

    def decided(self, shard: Shard, offset: int) -> "Future[Resolution]":
        return self._answer("decided", (shard, offset))

    def all_decided(self, shard: Shard, offsets: Sequence[int]) -> "Future[list[Resolution]]":
        return self._answer("all_decided", (shard, tuple(offsets)))

    def held(self, shard: Shard, requested: Sequence[RequestedNames]) -> "Future[list[Held]]":
        return self._answer("held", (shard, tuple(requested)))

    def page(self, shards: Sequence[Shard], query: Query) -> "Future[list[Listing]]":
        return self._answer("page", (tuple(shards), query))

    def due_counts(self, shards: Sequence[Shard], query: DueQuery) -> "Future[list[DueCounts]]":
        return self._answer("due_counts", (tuple(shards), query))

    def stall(self, shard: Shard) -> "Future[StallReport]":
        return self._answer("stall", shard)

    def skip(self, shard: Shard, skip: Skip) -> "Future[StallReport]":
        return self._answer("skip", (shard, skip))

    def figures(self) -> "Future[list[ShardFigures]]":
        return self._answer("figures", None)

    def _answer(self, method: str, about: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        known = self.answers.get((method, about), ...)
        if isinstance(known, Exception):
            future.set_exception(known)
        elif known is not ...:
            future.set_result(known)
        else:
            self.open.append(future)
        return future


class Group:
    """`delay_service.query.owners.directory.OwnerAdmin`."""

    def __init__(self, table: Mapping[Shard, Owner] | None = None) -> None:
        self.table = dict(table or {})
        self.failure: QueueError | None = None
        self.asked = 0

    def owners(self) -> Mapping[Shard, Owner]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return dict(self.table)

    def log_range(self, shard: Shard) -> tuple[int, int]:
        if shard.topic != "orders":
            raise TopicUnknown(shard.topic)
        return 0, 0


class Pauses:
    """Time passes only here. `then[n]` happens in the n-th pause, from 1 on."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.count = 0
        self.then: dict[int, Callable[[], object]] = {}

    async def __call__(self, seconds: float) -> None:
        self.count += 1
        self.clock.advance(int(seconds * 1000))
        self.then.get(self.count, lambda: None)()
        await asyncio.sleep(0)
