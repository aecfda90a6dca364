"""POST /v1/topics, DELETE /v1/topics/{topic}: topics made and deleted by hand, on the embedded queue."""

import asyncio
from contextlib import nullcontext

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.acts import TopicDeleted, TopicIn, TopicMade
from api.http.act_log import about_topic, begin_act
from api.http.answers import json_answer
from api.http.caller import caller_of, check
from api.http.decoding import decode
from api.http.endpoint import Choice, Endpoint, Reply, query_of
from api.http.metering import account_of
from api.http.problems import INVALID_BODY, NOT_SUPPORTED, OWNER_UNAVAILABLE, TOPIC_BUSY, Refusal, refused
from api.http.requests import Query, read_body, refuse_body
from api.http.routing import add_route
from api.routes.controls import ControlRoutes
from api.services import Services
from api.topics import TopicBook, check_name, shards_of
from delayline.access.acts import Act
from delayline.names import Names
from delayline.records.message import Shard
from mq.errors import TopicBusy, TopicUnknown

PARTITIONS_MAX = 256
"""Of one topic. Each costs three seeks when the queue is opened, and a shard of the worker when messages wait."""

RETRY_S = 0.1
"""Cursors follow what they describe within a second: a deletion waits for them."""

_TOPIC = msgspec.json.Decoder(TopicIn)


_FORCE = Choice("force", "Cancel what waits first", ["true", "false"], "false")
_CREATE_TOPIC = Endpoint(
    id="createTopic",
    act=Act.TOPICS,
    checks_topics=True,
    summary="Make a topic",
    takes=[TopicIn],
    replies=[Reply(201, "It is made", [TopicMade])],
    refuses=[409, 429, 503],
)
_DELETE_TOPIC = Endpoint(
    id="deleteTopic",
    act=Act.TOPICS,
    summary="Delete a topic for which nothing waits, with everything that was delivered into it",
    query=[_FORCE],
    replies=[Reply(200, "It is gone", [TopicDeleted])],
    refuses=[400, 404, 409, 503],
)


class ManagingRoutes:
    """Making and deleting topics."""

    def __init__(self, services: Services, topics: TopicBook, controls: ControlRoutes) -> None:
        self._services = services
        self._settings = services.settings
        self._topics = topics
        self._controls = controls
        self._names = Names(services.settings.namespace)

    def register(self, router: APIRouter) -> None:
        add_route(router, "POST", "/v1/topics", self.create, _CREATE_TOPIC)
        add_route(router, "DELETE", "/v1/topics/{topic}", self.delete, _DELETE_TOPIC)

    async def create(self, request: Request) -> Response:
        Query(request)
        body = await read_body(request, self._settings.body_bytes_max, self._settings.body_timeout_s)
        asked = decode(_TOPIC, body)
        about_topic(request, asked.name)
        check(caller_of(request), Act.TOPICS, asked.name)
        self._check_managed()
        self._topics.check_writable(asked.name)
        if asked.partitions is not None and not 1 <= asked.partitions <= PARTITIONS_MAX:
            detail = f"`partitions` is a number from 1 to {PARTITIONS_MAX}"
            raise refused(INVALID_BODY, "/partitions", "invalid-value", detail)
        check_name(self._names.buffer(asked.name))
        await begin_act(request, asked)
        account = account_of(request)
        with nullcontext() if account is None else account.making_topic():
            info = await self._topics.ask(lambda: self._services.admin.create_topic(asked.name, asked.partitions))
        return json_answer(201, TopicMade(info.name, len(info.partitions)))

    async def delete(self, request: Request) -> Response:
        forced = _FORCE.of(query_of(request, _DELETE_TOPIC.query)) == "true"
        refuse_body(request)
        topic: str = request.path_params["topic"]
        self._topics.check_users(topic)
        self._check_managed()
        info = await self._topics.ask(lambda: self._services.admin.topic(topic))
        cancelled = 0
        if topic in await self._topics.with_buffer([topic]):
            shards = shards_of(info)
            cancelled = await self._purge(topic) if forced else await self._check_idle(topic, shards)
        await self._delete(topic, forced=forced)
        self._topics.forget(topic)
        return json_answer(200, TopicDeleted(topic, cancelled))

    def _check_managed(self) -> None:
        if not self._settings.topics_on_first_use:
            detail = "topics of users are made and deleted with the queue's own tools; Delayline only uses them"
            raise Refusal(NOT_SUPPORTED, detail)

    async def _purge(self, topic: str) -> int:
        """Cancel what waits, each message with an outcome of its own. Raises Refusal where that is not certain."""
        cancelled, missing = await self._controls.purge_all(topic)
        if missing:
            detail = f"{len(missing)} shards have not cancelled what waits there yet; nothing is deleted: ask again"
            raise Refusal(OWNER_UNAVAILABLE, detail)
        return cancelled

    async def _check_idle(self, topic: str, shards: list[Shard]) -> int:
        """Raises Refusal where messages wait, or the reconcile job has yet to read what has ended."""
        if pending := await self._pending(topic):
            raise Refusal(TOPIC_BUSY, f"{pending} messages wait for {topic}; force=true cancels them first")
        if unread := await self._topics.ask(lambda: self._unread(shards)):
            detail = f"the reconcile job has yet to read {unread} records of {topic}'s buffer"
            raise Refusal(TOPIC_BUSY, f"{detail}; run it, or pass force=true")
        return 0

    async def _pending(self, topic: str) -> int:
        """How many messages wait. Shards that are only just being taken over, or read on, are waited for. Raises
        Refusal."""
        until_s = self._until_s()
        while True:
            pending, missing = await self._controls.pending(topic)
            if pending or not missing:
                return pending
            if self._services.clock.monotonic_s() >= until_s:
                raise Refusal(OWNER_UNAVAILABLE, f"{len(missing)} shards do not answer what waits there; ask again")
            await asyncio.sleep(RETRY_S)

    def _until_s(self) -> float:
        return self._services.clock.monotonic_s() + self._settings.operation_timeout_s

    def _unread(self, shards: list[Shard]) -> int:
        """Blocking: records that the reconcile job, where it runs, is given time to read (`audit.hold_max`)."""
        admin, now_ms = self._services.admin, self._services.clock.now_ms()
        unread = 0
        for shard in shards:
            audited = admin.audited(shard)
            if audited is not None and abs(now_ms - audited.at_ms) < self._settings.audit_hold_max_ms:
                unread += max(0, admin.log_range(shard)[1] - audited.offset)
        return unread

    async def _delete(self, topic: str, *, forced: bool) -> None:
        """Raises Refusal where something waits after all: it was accepted meanwhile. After a purge only the cursors
        are asked, which follow it a moment later."""
        until_s = self._until_s()
        while True:
            try:
                return await self._topics.ask(lambda: self._services.admin.delete_topic(topic))
            except TopicBusy as error:
                timed_out = self._services.clock.monotonic_s() >= until_s
                if timed_out or (not forced and (await self._controls.pending(topic))[0]):
                    raise Refusal(TOPIC_BUSY, f"{error}; force=true cancels what waits") from error
            except TopicUnknown:
                return None  # somebody else was faster: it is as it was asked for
            await asyncio.sleep(RETRY_S)
