"""POST /v1/topics/{topic}:undo: brings back what a purge, or a cancel of many, has ended not long ago. And GET
/v1/topics/{topic}/undos: what can still be undone, for those who have not got the answer with the id.
"""

from functools import partial
from secrets import randbelow

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.acts import OpenUndoOut, UndoneOut, UndosPage
from api.http.answers import json_answer
from api.http.endpoint import Endpoint, Number, Reply, Text, query_of
from api.http.problems import INVALID_REQUEST, LIMIT_EXCEEDED, NOT_FOUND, NOT_READY, UNDO_OVER, Refusal, refused
from api.http.requests import refuse_body
from api.http.routing import add_route
from api.reading.reader import place_in_list
from api.services import Services
from api.topics import TopicBook
from api.undoing import Opened, Purged
from delayline.access.acts import Act
from delayline.times import format_moment
from mq.errors import ClaimLost

AGAIN_S = 8
"""Two clients that ask again after a while of their own leave each other time: a claim ends the one before, so with
the same pause neither might get on."""

_ID = Text("id", "The undo, as the purge or the cancel answered it", example="0.17")
_UNDO = Endpoint(
    id="undo",
    act=Act.CONTROL,
    summary="Bring back what a purge, or a cancel of many messages, has ended",
    query=[_ID],
    replies=[Reply(200, "All of it is back", [UndoneOut])],
    refuses=[400, 404, 410, 503],
)

LIMIT = 100
LIMIT_MAX = 1000
_LIMIT = Number("limit", "Rows", LIMIT_MAX, least=1, default=LIMIT)
_BEFORE = Text("before", "`next_before` of the page before")
_LIST = Endpoint(
    id="listUndos",
    act=Act.CONTROL,
    summary="Purges of a topic, and cancels of many messages, that can still be undone, newest first",
    query=[_LIMIT, _BEFORE],
    replies=[Reply(200, "A page", [UndosPage])],
    refuses=[400, 404, 503],
)


class UndoRoutes:
    """One at a time: each reads all that was set aside since it was opened."""

    def __init__(self, services: Services, topics: TopicBook, purged: Purged) -> None:
        self._clock = services.clock
        self._topics = topics
        self._purged = purged
        self._is_busy = False

    def register(self, router: APIRouter) -> None:
        add_route(router, "POST", "/v1/topics/{topic}:undo", self.undo, _UNDO)
        add_route(router, "GET", "/v1/topics/{topic}/undos", self.page, _LIST)

    async def page(self, request: Request) -> Response:
        query = query_of(request, _LIST.query)
        limit, before = _LIMIT.of(query) or LIMIT, _BEFORE.of(query)
        topic: str = request.path_params["topic"]
        await self._topics.check_there(topic)
        now_ms = self._clock.now_ms()
        found, positions = await self._topics.ask(lambda: self._purged.newest(topic, now_ms, before, limit))
        page = UndosPage([_undo_out(opened) for opened in found], place_in_list(positions))
        return json_answer(200, page)

    async def undo(self, request: Request) -> Response:
        undo = _ID.of(query_of(request, _UNDO.query))
        refuse_body(request)
        topic: str = request.path_params["topic"]
        await self._topics.check_there(topic)
        if undo is None:
            raise refused(INVALID_REQUEST, "?id", "missing", "`id`: which undo? A purge answers with its id")
        opened = await self._opened(topic, undo)
        if self._is_busy:
            raise Refusal(LIMIT_EXCEEDED, "an undo is under way already", status=503)
        self._is_busy = True
        try:
            return json_answer(200, await self._undone(request, opened))
        finally:
            self._is_busy = False

    async def _opened(self, topic: str, undo: str) -> Opened:
        """Raises Refusal, TopicUnknown, QueueUnavailable."""
        opened = await self._topics.ask(lambda: self._purged.find(topic, undo))
        if opened is None:
            raise Refusal(NOT_FOUND, f"{topic} has no undo {undo!r}")
        # What is thought to be gone must not come back.
        if await self._is_over(opened):
            raise Refusal(UNDO_OVER, f"undo {undo} was possible until {format_moment(opened.until_ms)}")
        if await self._topics.ask(lambda: self._purged.is_of_another(opened)):
            raise Refusal(UNDO_OVER, f"{topic} was deleted and made again since")
        return opened

    async def _is_over(self, opened: Opened) -> bool:
        """Its time begins anew with each message that it is about: a shard without an owner cancels late, and an undo
        whose process dies would leave the rest behind."""
        now_ms, before = self._clock.now_ms(), None
        since_ms = now_ms - opened.opening.undo_ms
        is_going_on = opened.opened_at_ms >= since_ms
        while not is_going_on:
            look = partial(self._purged.written, opened, since_ms, before)
            is_going_on, positions = await self._topics.ask(look)
            if positions is None:
                break
            before = str(positions)
        return not is_going_on

    async def _undone(self, request: Request, opened: Opened) -> UndoneOut:
        """Chunk by chunk: it ends where the client has hung up, and goes on when it is asked for again."""
        restoring = self._purged.restoring(opened)
        try:
            while await self._topics.ask(restoring.step):
                if await request.is_disconnected():
                    break
        except ClaimLost as error:
            detail = "another process carries out an undo; asked again, this one goes on where it is"
            raise Refusal(NOT_READY, detail, retry_after_s=1 + randbelow(AGAIN_S)) from error
        finally:
            await self._topics.ask(restoring.close)
        return UndoneOut(opened.opening.topic, opened.id, restoring.back, restoring.before)


def _undo_out(opened: Opened) -> OpenUndoOut:
    opened_at, until = format_moment(opened.opened_at_ms), format_moment(opened.until_ms)
    return OpenUndoOut(opened.id, opened.opening.of, opened_at, until)
