"""Questions to the owners of many shards at once: an owner that does not answer is reported as missing."""

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from api.bodies.answers import ShardOut
from api.bridge import Bridge
from api.sending.sender import partition_label
from api.services import Services
from api.topics import TopicBook, shards_of
from delayline.questions.inquiry import DueCounts, DueQuery, Listing, Query, ShardFigures
from delayline.records.message import Shard

T = TypeVar("T")


class Survey:
    """Asks owners, within the time that they have."""

    def __init__(self, services: Services, topics: TopicBook, bridge: Bridge) -> None:
        self._owners = services.owners
        self._timeout_s = services.settings.owner_timeout_s
        self._is_enabled = services.settings.is_delay_enabled
        self._topics = topics
        self._bridge = bridge

    async def shards(self, topic: str | None) -> list[Shard]:
        """Those of the topic, or all that there may be. Raises TopicUnknown, QueueUnavailable."""
        if topic is not None:
            return shards_of(await self._topics.info(topic))
        owned = {figures.shard for figures in await self.figures()}
        enabled = [info for info in await self._topics.ask(self._topics.list) if self._is_enabled(info.name)]
        return sorted(owned.union(*map(shards_of, enabled)))

    async def page(self, shards: Sequence[Shard], query: Query) -> list[Listing]:
        return await self._answers(self._owners.page(shards, query))

    async def due_counts(self, shards: Sequence[Shard], query: DueQuery) -> list[DueCounts]:
        return await self._answers(self._owners.due_counts(shards, query))

    async def figures(self) -> list[ShardFigures]:
        return await self._answers(self._owners.figures())

    async def _answers(self, future: Future[list[T]]) -> list[T]:
        try:
            return await self._bridge.result(future, self._timeout_s)
        except TimeoutError:
            return []

    async def missing(self, asked: Iterable[Shard], answering: Collection[Shard]) -> list[Shard]:
        """Shards that no owner answers for. Where no buffer was made yet there is nothing to be missed. Raises
        QueueUnavailable."""
        silent = [shard for shard in asked if shard not in answering]
        existing = await self._topics.with_buffer({shard.topic for shard in silent}) if silent else ()
        return [shard for shard in silent if shard.topic in existing]


def shard_out(shard: Shard) -> ShardOut:
    return ShardOut(shard.topic, partition_label(shard.partition))
