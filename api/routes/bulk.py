"""POST /v1/messages:cancel: cancels every message of a topic that a filter matches."""

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.acts import CancelIn, CancelOut, FilterIn
from api.bulk import BulkCancel
from api.http.act_log import about_topic, begin_act
from api.http.answers import json_answer
from api.http.caller import caller_of, check
from api.http.decoding import decode
from api.http.endpoint import Endpoint, Reply
from api.http.problems import INVALID_BODY, LIMIT_EXCEEDED, Refusal, refused
from api.http.requests import Query as Parameters
from api.http.requests import read_body
from api.http.routing import add_route
from api.reading.survey import shard_out
from api.services import Services
from api.topics import TopicBook
from api.undos import Undos, undo_out
from delayline.access.acts import Act
from delayline.buffer.undo import CANCEL
from delayline.errors import MalformedDirective
from delayline.questions.inquiry import LAST_MS, Query
from delayline.times import parse_moment_ms

_CANCEL = msgspec.json.Decoder(CancelIn)

AT_ONCE_MAX = 2
"""Each keeps some shards busy for as long as it takes."""


_CANCEL_MANY = Endpoint(
    id="cancelMessages",
    act=Act.CANCEL,
    checks_topics=True,
    summary="Cancel every message of a topic that a filter matches, or count them",
    takes=[CancelIn],
    replies=[Reply(200, "What came of it", [CancelOut])],
    refuses=[404, 503],
)


class BulkRoutes:
    """One at a time for most, two for the impatient."""

    def __init__(self, services: Services, topics: TopicBook, bulk: BulkCancel, undos: Undos) -> None:
        self._settings = services.settings
        self._topics = topics
        self._bulk = bulk
        self._undos = undos
        self._running = 0

    def register(self, router: APIRouter) -> None:
        add_route(router, "POST", "/v1/messages:cancel", self.cancel, _CANCEL_MANY)

    async def cancel(self, request: Request) -> Response:
        Parameters(request)
        body = await read_body(request, self._settings.body_bytes_max, self._settings.body_timeout_s)
        asked = decode(_CANCEL, body)
        topic, query = asked.filter.topic, _query(asked.filter)
        about_topic(request, topic)
        check(caller_of(request), Act.CANCEL, topic)
        self._topics.check_users(topic)
        if self._running >= AT_ONCE_MAX:
            raise Refusal(LIMIT_EXCEEDED, f"{AT_ONCE_MAX} of these requests are under way already", status=503)
        self._running += 1
        try:
            await begin_act(request, asked)
            opened = await self._undos.opened(topic, CANCEL, wanted=asked.undo and not asked.dry_run)
            if asked.dry_run:
                tally = await self._bulk.count(topic, query, request.is_disconnected)
            else:
                undo = None if opened is None else opened.id
                tally = await self._bulk.cancel(topic, query, request.is_disconnected, undo)
        finally:
            self._running -= 1
        answer = CancelOut(
            matched=tally.matched,
            cancelled=tally.cancelled,
            too_late=tally.too_late,
            unknown=tally.unknown,
            dry_run=asked.dry_run,
            complete=tally.is_whole and not tally.missing,
            missing_shards=[shard_out(shard) for shard in sorted(tally.missing)],
            undo=undo_out(opened),
        )
        return json_answer(200, answer)


def _query(wanted: FilterIn) -> Query:
    """Raises Refusal."""
    return Query(
        key=None if wanted.key is None else wanted.key.encode(),
        own_id=wanted.own_id,
        due_from_ms=_moment_ms(wanted.due_after, "due_after", 0),
        due_until_ms=_moment_ms(wanted.due_before, "due_before", LAST_MS),
    )


def _moment_ms(given: str | int | None, name: str, default_ms: int) -> int:
    if given is None:
        return default_ms
    try:
        return min(parse_moment_ms(str(given)), LAST_MS)
    except MalformedDirective as error:
        raise refused(INVALID_BODY, f"/filter/{name}", "invalid-value", str(error)) from error
