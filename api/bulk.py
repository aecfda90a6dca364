"""Cancelling many messages: the list of them is walked, and each gets an operation of its own.

Nothing is held but what is under way. Operations are appended no faster than they are decided (`WINDOW`), so that a
shard which has to decide a hundred thousand of them goes on delivering, and so do the others.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from api.bridge import Bridge
from api.reading.survey import Survey
from api.sending.sender import Sender
from api.services import Services
from api.topics import TopicBook
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import OwnerUnavailable, Query, Row, merge
from delayline.records.headers import UNDO
from delayline.records.message import Header, Shard
from delayline.records.record import encode_body
from mq.contract import Append
from mq.errors import QueueError

CHUNK = 100
"""Operations in one append."""

WINDOW = 2
"""Chunks that are appended and not decided. Commits that decide more hold up what is due meanwhile: with 200
operations messages of other topics are 10 ms late (40 ms at the 99th percentile), with 2000 a tenth of a second."""


@dataclass(slots=True)
class Tally:
    """What came of it. `unknown` are those whose operation is stored, or may be, and whose owner has not answered in
    time what came of it. `missing` are shards that did not answer; `is_whole`: the list was walked to its end."""

    matched: int = 0
    cancelled: int = 0
    too_late: int = 0
    unknown: int = 0
    missing: set[Shard] = field(default_factory=set)
    is_whole: bool = True


Gone = Callable[[], Awaitable[bool]]
"""Whether the client has hung up."""


class BulkCancel:
    """Belongs to the event loop."""

    def __init__(self, services: Services, topics: TopicBook, survey: Survey, sender: Sender, bridge: Bridge) -> None:
        self._owners = services.owners
        self._wait_s = services.settings.operation_timeout_s
        self._topics = topics
        self._survey = survey
        self._sender = sender
        self._bridge = bridge

    async def count(self, topic: str, query: Query, gone: Gone) -> Tally:
        """How many messages match. Raises TopicUnknown, QueueUnavailable."""
        tally = Tally()
        async for rows in self._walk(topic, query, tally):
            tally.matched += len(rows)
            if await gone():
                break
        return tally

    async def cancel(self, topic: str, query: Query, gone: Gone, undo: str | None = None) -> Tally:
        """What it ends is kept for the `undo`, if there is one. Ends early, with a tally that is not whole, where
        the client has hung up, the queue takes no more, or an owner does not decide in time. Raises TopicUnknown,
        QueueUnavailable."""
        tally = Tally()
        under_way: deque[asyncio.Task[Counter[str]]] = deque()
        try:
            async for rows in self._walk(topic, query, tally):
                tally.matched += len(rows)
                under_way.append(asyncio.create_task(self._cancelled(topic, rows, undo)))
                if len(under_way) >= WINDOW:
                    _add(tally, await under_way.popleft())
                if tally.unknown or await gone():
                    tally.is_whole = False
                    break
        finally:
            for ending in await asyncio.gather(*under_way):
                _add(tally, ending)
        return tally

    async def _walk(self, topic: str, query: Query, tally: Tally) -> AsyncIterator[list[Row]]:
        shards = await self._survey.shards(topic)
        query = replace(query, limit=CHUNK)
        silent: set[Shard] = set()
        while True:
            listings = await self._survey.page(shards, query)
            silent |= set(shards).difference(*(listing.shards for listing in listings))
            tally.missing = set(await self._survey.missing(shards, set(shards) - silent))
            rows, place = merge(listings, CHUNK)
            if rows:
                yield rows
            if place is None:
                return
            query = replace(query, after=place)

    async def _cancelled(self, topic: str, rows: Sequence[Row], undo: str | None) -> Counter[str]:
        """How the operations on these messages ended; those that are missing did not in time."""
        rows = sorted(rows, key=lambda row: row.found.id.shard)
        try:
            target = await self._topics.target(topic, delayed=True)
            appends = [
                Append(target.buffer, row.found.id.shard.partition, _operation(str(row.found.id), undo))
                for row in rows
            ]
            positions = await self._sender.store(target, appends)
        except QueueError:
            return Counter({"unknown": len(rows)})
        by_partition = groupby(positions, key=lambda position: position.partition)
        asking = [
            self._outcomes(Shard(topic, partition), [position.offset for position in some])
            for partition, some in by_partition
        ]
        return sum(await asyncio.gather(*asking), Counter())

    async def _outcomes(self, shard: Shard, offsets: Sequence[int]) -> Counter[str]:
        try:
            found = await self._bridge.result(self._owners.all_decided(shard, offsets), self._wait_s)
        except (TimeoutError, OwnerUnavailable):
            return Counter({"unknown": len(offsets)})
        return Counter("cancelled" if one.outcome is Outcome.APPLIED else "too_late" for one in found)


def _operation(message_id: str, undo: str | None) -> bytes:
    kept: list[Header] = [] if undo is None else [(UNDO, undo.encode())]
    return encode_body(None, None, [(b"delay-op", b"cancel"), (b"delay-ref", message_id.encode()), *kept])


def _add(tally: Tally, endings: Counter[str]) -> None:
    tally.cancelled += endings["cancelled"]
    tally.too_late += endings["too_late"]
    tally.unknown += endings["unknown"]
