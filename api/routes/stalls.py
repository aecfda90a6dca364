"""Why a shard has stalled, and letting it go on: questions to its owner, who alone writes for it."""

from base64 import b64encode
from concurrent.futures import Future

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.acts import SkipIn, StalledOut, SuspectOut
from api.bridge import Bridge
from api.http.act_log import begin_act
from api.http.answers import json_answer
from api.http.decoding import decode
from api.http.endpoint import Endpoint, Reply
from api.http.problems import NOT_FOUND, NOT_SKIPPED, OWNER_UNAVAILABLE, Refusal
from api.http.requests import Query, read_body
from api.http.routing import add_route
from api.sending.sender import partition_label
from api.services import Services
from api.topics import TopicBook
from delayline.access.acts import Act
from delayline.questions.inquiry import Skip, StallReport, Suspected
from delayline.records.message import Shard
from delayline.times import format_moment

PARTITIONS_NAMED_MAX = 20
_SKIP = msgspec.json.Decoder(SkipIn)


_STALL = Endpoint(
    id="getStall",
    act=Act.CONTROL,
    summary="Why a shard has stalled, and the way out",
    replies=[Reply(200, "How it stands", [StalledOut])],
    refuses=[400, 404, 503],
)
_SKIP_STALL = Endpoint(
    id="skipStall",
    act=Act.CONTROL,
    summary="Let a stalled shard go on, and lose what that costs",
    takes=[SkipIn],
    replies=[Reply(200, "How it stands now", [StalledOut])],
    refuses=[404, 409, 503],
)


class StallRoutes:
    """The way out is for an operator who has seen what it loses: it is refused if the shard's state has changed
    since."""

    def __init__(self, services: Services, topics: TopicBook, bridge: Bridge) -> None:
        self._owners = services.owners
        self._timeout_s = services.settings.owner_timeout_s
        self._settings = services.settings
        self._topics = topics
        self._bridge = bridge

    def register(self, router: APIRouter) -> None:
        path = "/v1/topics/{topic}/shards/{partition}"
        add_route(router, "GET", f"{path}/stall", self.stall, _STALL)
        add_route(router, "POST", f"{path}:skip", self.skip, _SKIP_STALL)

    async def stall(self, request: Request) -> Response:
        Query(request)
        shard = await self._shard(request)
        return _answer(await self._ask(self._owners.stall(shard)))

    async def skip(self, request: Request) -> Response:
        Query(request)
        asked = decode(_SKIP, await read_body(request, self._settings.body_bytes_max, self._settings.body_timeout_s))
        wanted = Skip(asked.reason, asked.offset, asked.through, asked.by)
        shard = await self._shard(request)
        await begin_act(request, asked)
        report = await self._ask(self._owners.skip(shard, wanted))
        if report.refused:
            raise Refusal(NOT_SKIPPED, report.refused)
        return _answer(report)

    async def _shard(self, request: Request) -> Shard:
        """One that there is. Raises Refusal, TopicUnknown, QueueUnavailable."""
        topic: str = request.path_params["topic"]
        shard = Shard(topic, request.path_params["partition"])
        await self._topics.check_there(topic)
        partitions = await self._topics.partitions_of_buffer(topic)
        if shard.partition not in partitions:
            names = ", ".join(partitions[:PARTITIONS_NAMED_MAX]) or "none: no delayed message was ever sent to it"
            raise Refusal(NOT_FOUND, f"{topic!r} has no shard {shard.partition[:40]!r}; it has {names}")
        return shard

    async def _ask(self, future: "Future[StallReport]") -> StallReport:
        """Raises Refusal, OwnerUnavailable."""
        try:
            return await self._bridge.result(future, self._timeout_s)
        except TimeoutError as error:
            raise Refusal(OWNER_UNAVAILABLE, "the shard's owner has not answered in time; look again") from error


def _answer(report: StallReport) -> Response:
    record = b64encode(report.record).decode() if report.record else None
    return json_answer(
        200,
        StalledOut(
            topic=report.shard.topic,
            partition=partition_label(report.shard.partition),
            reason=report.reason,
            detail=report.detail,
            offset=report.offset,
            first_offset=report.first,
            end_offset=report.end,
            does=report.does or None,
            loses=report.loses or None,
            record=record,
            suspect=None if report.suspect is None else _suspect(report.suspect),
        ),
    )


def _suspect(found: Suspected) -> SuspectOut:
    return SuspectOut(
        found.message_id, format_moment(found.due_ms), found.bytes, format_moment(found.since_ms), found.tries
    )
