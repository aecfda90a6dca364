"""An API over a queue in memory, asked without sockets."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
from prometheus_client import CollectorRegistry

from api.app import create_app
from api.http.act_log import ActLog
from api.http.act_stores import ActFile, ActStore, ActTopic
from api.services import ApiSettings, Services
from delayline.access.ledger import Ledgers
from delayline.access.source import AccessSource
from delayline.buffer.outcome import Outcome
from delayline.clock import ManualClock
from delayline.questions.inquiry import (
    DueCounts,
    DueQuery,
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
)
from delayline.records.message import MessageId, Shard
from delayline.records.record import Record, decode_body
from delayline.schedule.rules import DAY_MS, Rules
from mq.contract import AppendRequest
from mq.local.queue import TOPICS_MAX
from mq.memory import MemoryQueue

if TYPE_CHECKING:
    from api.access.oidc.provider import Provider

T = TypeVar("T")

NOW_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
ACT = {"delayline-request": "1"}
MESSAGES = "/v1/topics/orders/messages"
RECORDS = "/v1/topics/orders/records"


class KnownOwners:
    """Owners that know what a test gives them."""

    def __init__(self) -> None:
        self.messages: dict[str, Found | Gone] = {}
        self.names: dict[RequestedNames, Held] = {}
        self.held_asked: list[tuple[Shard, Sequence[RequestedNames]]] = []
        self.failure: Exception | None = None
        self.silent = False
        self.operations: list[tuple[Shard, int]] = []
        self.decide: Callable[[], Resolution | None] = lambda: Resolution(Outcome.APPLIED)
        self.shards: list[ShardFigures] = []
        self.counts: list[DueCounts] = []
        self.is_idle = False
        self.stalls: dict[Shard, StallReport] = {}
        self.skips: list[tuple[Shard, Skip]] = []
        self.listings: list[Listing] = []
        self.asked: list[tuple[Sequence[Shard], Query | DueQuery]] = []

    def page(self, shards: Sequence[Shard], query: Query) -> "Future[list[Listing]]":
        self.asked.append((shards, query))
        return self._answer(self.listings)

    def due_counts(self, shards: Sequence[Shard], query: DueQuery) -> "Future[list[DueCounts]]":
        self.asked.append((shards, query))
        nothing = [DueCounts(shard, (0,) * (query.number + 2)) for shard in shards]
        return self._answer(nothing if self.is_idle else self.counts)

    def figures(self) -> "Future[list[ShardFigures]]":
        return self._answer(self.shards)

    def stall(self, shard: Shard) -> "Future[StallReport]":
        return self._answer(self.stalls.get(shard, StallReport(shard)))

    def skip(self, shard: Shard, skip: Skip) -> "Future[StallReport]":
        self.skips.append((shard, skip))
        return self._answer(self.stalls.get(shard, StallReport(shard, refused="the shard is healthy")))

    def _answer(self, found: T) -> "Future[T]":
        answer: Future[T] = Future()
        if not self.silent:
            answer.set_result(found)
        return answer

    def decided(self, shard: Shard, offset: int) -> "Future[Resolution]":
        self.operations.append((shard, offset))
        answer: Future[Resolution] = Future()
        if (resolution := self.decide()) is not None:
            answer.set_result(resolution)
        return answer

    def all_decided(self, shard: Shard, offsets: Sequence[int]) -> "Future[list[Resolution]]":
        self.operations += [(shard, offset) for offset in offsets]
        answer: Future[list[Resolution]] = Future()
        resolutions = [resolution for _ in offsets if (resolution := self.decide()) is not None]
        if len(resolutions) == len(offsets):
            answer.set_result(resolutions)
        return answer

    def held(self, shard: Shard, requested: Sequence[RequestedNames]) -> "Future[list[Held]]":
        self.held_asked.append((shard, requested))
        answer: Future[list[Held]] = Future()
        if self.failure is not None:
            answer.set_exception(self.failure)
        elif not self.silent:
            answer.set_result([self.names.get(names, Held.FREE) for names in requested])
        return answer

    def find(self, message_id: MessageId) -> "Future[Found | Gone | None]":
        answer: Future[Found | Gone | None] = Future()
        if self.failure is not None:
            answer.set_exception(self.failure)
        elif not self.silent:
            answer.set_result(self.messages.get(str(message_id)))
        return answer


class FaultyQueue(MemoryQueue):
    """A queue in memory whose appends fail, or are never answered, when a test asks for it."""

    failure: Exception | None = None
    silent = False
    unanswered: Sequence[AppendRequest] = ()

    def append_each(self, requests: Sequence[AppendRequest]) -> None:
        if self.failure is not None:
            for request in requests:
                request.ended(self.failure)
        elif self.silent:
            self.unanswered = [*self.unanswered, *requests]
        else:
            super().append_each(requests)


class Api:
    """The API as a client sees it; each call is a connection of its own."""

    def __init__(
        self,
        *,
        rules: Rules | None = None,
        record_bytes_max: int | None = None,
        topics_max: int = TOPICS_MAX,
        access: AccessSource | None = None,
        act_log: Path | None = None,
        provider: "Callable[[ManualClock, CollectorRegistry], Provider] | None" = None,
        act_topic: bool = False,
        **settings: Any,
    ) -> None:
        self.clock = ManualClock(NOW_MS)
        self.rules = rules or Rules()
        limits = {} if record_bytes_max is None else {"record_bytes_max": record_bytes_max}
        self.queue = FaultyQueue(namespace="delayline", clock=self.clock, topics_max=topics_max, **limits)
        self.owners = KnownOwners()
        self.registry = CollectorRegistry()
        self.readiness = (True, "ready")
        self.full: set[str] = set()
        self.pending: dict[str, int] = {}
        self.room: dict[str, int] = {}
        self.full_of_repeats: set[str] = set()
        self.app = create_app(
            Services(
                settings=ApiSettings(
                    **{
                        "namespace": "delayline",
                        "version": "1.2.3",
                        "rules": self.rules,
                        "rules_for": lambda _: rules or Rules(),
                        "horizon_max_ms": 3650 * DAY_MS,
                        "is_delay_enabled": lambda topic: topic != "plain",
                        "topics_on_first_use": True,
                        "hosts": ("api",),
                        **settings,
                    }
                ),
                client=self.queue,
                admin=self.queue,
                claim=self.queue.claim,
                owners=self.owners,
                clock=self.clock,
                registry=self.registry,
                readiness=lambda: self.readiness,
                full=self._why_full,
                access=access,
                provider=None if provider is None else provider(self.clock, self.registry),
                quotas=None if access is None else Ledgers(lambda: access.rules, self.clock, self.registry),
                act_log=self._acts(act_log, to_topic=act_topic),
            )
        )

    def _acts(self, path: Path | None, *, to_topic: bool) -> ActLog | None:
        stores: list[ActStore] = [] if path is None else [ActFile(path)]
        if to_topic:
            stores.append(ActTopic(self.queue, self.queue, "delayline.operators", ThreadPoolExecutor(1)))
        return ActLog(stores, self.clock, self.registry) if stores else None

    def _why_full(self, topic: str, *, adds: int = 1, repeats: int = 0, pending_max: int | None = None) -> str | None:
        if pending_max is not None:
            return f"{topic} is full" if self.pending.get(topic, 0) + adds > pending_max else None
        if adds > self.room.get(topic, 0 if topic in self.full else adds):
            return f"{topic} is full"
        return f"{topic} is full of repeats" if repeats and topic in self.full_of_repeats else None

    def run(self, work: Callable[[httpx.AsyncClient], Awaitable[T]]) -> T:
        """Several requests on one event loop."""

        async def main() -> T:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://api", headers=ACT) as http:
                return await work(http)

        return asyncio.run(main())

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.run(lambda http: http.request(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def send(self, body: Any, path: str = MESSAGES, **options: Any) -> httpx.Response:
        return self.request("POST", path, json=body, **options)

    def send_text(self, body: str | bytes, path: str = MESSAGES, **headers: str) -> httpx.Response:
        """A body as it is."""
        return self.request("POST", path, content=body, headers={"content-type": "application/json", **headers})

    def records(self, topic: str, partition: str = "0") -> list[Record]:
        """What stands in a partition, decoded."""
        found = self.queue.read(topic, partition, 0, 1000)
        return [decode_body(record.body) for record in found]

    def all_records(self, topic: str) -> list[Record]:
        partitions = self.queue.topic(topic).partitions
        return [record for partition in partitions for record in self.records(topic, partition)]

    def metric(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


def problem(answer: httpx.Response) -> tuple[int, str]:
    """(status, type) of a problem document, whose form is checked on the way."""
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["request_id"] == answer.headers["x-request-id"]
    assert document["title"]
    assert document["detail"]
    return answer.status_code, document["type"].removeprefix("/problems/")


def pointers(answer: httpx.Response) -> list[tuple[str, str]]:
    """(pointer, code) of everything that is wrong by a problem."""
    return [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]]
