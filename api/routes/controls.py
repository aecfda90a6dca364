"""POST /v1/topics/{topic}:pause, :resume and :purge: something to do with all of a topic's shards.

Each shard gets a record of its own, and its owner decides it in the order of the log: a purge cancels what was
accepted before it, and nothing that came later.
"""

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.acts import ControlOut, PurgeOut
from api.http.answers import json_answer
from api.http.endpoint import Choice, Endpoint, Reply, query_of
from api.http.problems import TOPIC_NOT_ENABLED, Refusal
from api.http.requests import Query, refuse_body
from api.http.routing import add_route
from api.reading.survey import Survey, shard_out
from api.sending.decisions import DecisionWaiter
from api.sending.sender import Sender
from api.services import Services
from api.topics import TopicBook
from api.undoing import Opened
from api.undos import Undos, undo_out
from delayline.access.acts import Act
from delayline.buffer.record import encode_control
from delayline.buffer.undo import PURGE
from delayline.questions.inquiry import DueQuery, Resolution
from delayline.records.message import Shard
from mq.contract import Append

_CONTROLLED = [
    Reply(200, "Done in every shard", [ControlOut]),
    Reply(202, "Stored; not done in every shard yet", [ControlOut]),
]
_PAUSE = Endpoint(
    id="pauseTopic",
    act=Act.CONTROL,
    summary="Deliver nothing of a topic's delayed messages until it is resumed",
    replies=_CONTROLLED,
    refuses=[400, 404, 503],
)
_RESUME = Endpoint(
    id="resumeTopic",
    act=Act.CONTROL,
    summary="Deliver a topic's delayed messages again",
    replies=_CONTROLLED,
    refuses=[400, 404, 503],
)
_UNDO = Choice("undo", "`false`: keep no copies, it cannot be undone", ["true", "false"], "true")
_DRY_RUN = Choice("dry_run", "Only count them", ["true", "false"], "false")
_PURGE = Endpoint(
    id="purgeTopic",
    act=Act.CONTROL,
    summary="Cancel all messages that wait for a topic, or count them",
    query=[_DRY_RUN, _UNDO],
    replies=[
        Reply(200, "Done in every shard", [PurgeOut]),
        Reply(202, "Stored; not done in every shard yet", [PurgeOut]),
    ],
    refuses=[400, 404, 503],
)

_OF_ANY_TIME = DueQuery(start=0, width=1, number=1)
"""What is before and behind its one minute counts, too."""


class ControlRoutes:
    """What can be done to a topic."""

    def __init__(
        self,
        services: Services,
        topics: TopicBook,
        survey: Survey,
        sender: Sender,
        decisions: DecisionWaiter,
        undos: Undos,
    ) -> None:
        self._settings = services.settings
        self._topics = topics
        self._survey = survey
        self._sender = sender
        self._decisions = decisions
        self._undos = undos

    def register(self, router: APIRouter) -> None:
        add_route(router, "POST", "/v1/topics/{topic}:pause", self.pause, _PAUSE)
        add_route(router, "POST", "/v1/topics/{topic}:resume", self.resume, _RESUME)
        add_route(router, "POST", "/v1/topics/{topic}:purge", self.purge, _PURGE)

    async def pause(self, request: Request) -> Response:
        return await self._switch(request, "pause")

    async def resume(self, request: Request) -> Response:
        return await self._switch(request, "resume")

    async def _switch(self, request: Request, kind: str) -> Response:
        Query(request)
        topic = await self._topic(request)
        decided, missing = await self._decided(topic, kind)
        answer = ControlOut(topic, f"{kind}d", len(decided), not missing, [shard_out(shard) for shard in missing])
        return json_answer(202 if missing else 200, answer)

    async def purge(self, request: Request) -> Response:
        query = query_of(request, _PURGE.query)
        dry_run, undoable = _DRY_RUN.of(query) == "true", _UNDO.of(query) != "false"
        topic = await self._topic(request)
        opened = await self._undos.opened(topic, PURGE, wanted=undoable and not dry_run)
        matched, cancelled, missing = await (self._pending(topic) if dry_run else self._purged(topic, opened))
        missing_shards = [shard_out(shard) for shard in missing]
        # Also where nothing is known to have ended: an owner that took a shard over meanwhile counts its own only.
        undo = undo_out(opened)
        answer = PurgeOut(topic, matched, cancelled, dry_run, not missing, missing_shards, undo)
        return json_answer(202 if missing and not dry_run else 200, answer)

    async def _topic(self, request: Request) -> str:
        """One that exists and takes delayed messages. Raises TopicUnknown, QueueUnavailable, Refusal."""
        refuse_body(request)
        topic: str = request.path_params["topic"]
        await self._topics.check_there(topic)
        if not self._settings.is_delay_enabled(topic):
            raise Refusal(TOPIC_NOT_ENABLED, f"delay.topics does not name {topic!r}")
        return topic

    async def purge_all(self, topic: str, undo: str | None = None) -> tuple[int, Sequence[Shard]]:
        """Cancel what waits; how many, and the shards that have not done so in time. Raises QueueError."""
        decided, missing = await self._decided(topic, "purge", undo)
        return sum(resolution.count for resolution in decided), missing

    async def pending(self, topic: str) -> tuple[int, Sequence[Shard]]:
        """How many messages wait, and the shards that do not answer."""
        count, _, missing = await self._pending(topic)
        return count, missing

    async def _pending(self, topic: str) -> tuple[int, int, Sequence[Shard]]:
        """Owners are asked to count: figures are half a second old, and lack shards that were taken over since."""
        shards = await self._survey.shards(topic)
        known = await self._survey.due_counts(shards, _OF_ANY_TIME)
        missing = await self._survey.missing(shards, {one.shard for one in known})
        return sum(sum(one.counts) for one in known), 0, missing

    async def _purged(self, topic: str, opened: Opened | None) -> tuple[int, int, Sequence[Shard]]:
        cancelled, missing = await self.purge_all(topic, None if opened is None else opened.id)
        return cancelled, cancelled, missing

    async def _decided(self, topic: str, kind: str, undo: str | None = None) -> tuple[list[Resolution], list[Shard]]:
        """What came of the control in each shard, and those where it is stored and not decided in time. Raises
        QueueError."""
        await self._topics.info(topic)  # which partitions take nothing must be known now
        target = await self._topics.target(topic, delayed=True)
        body = encode_control(kind, undo=undo)
        appends = [Append(target.buffer, partition, body) for partition in target.info.partitions]
        positions = await self._sender.store(target, appends)
        shards = [Shard(topic, position.partition) for position in positions]
        wait_s = self._settings.operation_timeout_s
        asking = zip(shards, positions, strict=True)
        found = await asyncio.gather(*(self._decisions.decided(shard, at.offset, wait_s) for shard, at in asking))
        missing = [shard for shard, resolution in zip(shards, found, strict=True) if resolution is None]
        return [resolution for resolution in found if resolution is not None], missing
