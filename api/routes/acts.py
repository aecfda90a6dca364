"""GET /v1/acts: who did what."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.acted import ActsPage
from api.http.answers import json_answer
from api.http.endpoint import Endpoint, Moment, Number, Reply, Text, query_of
from api.http.requests import Query
from api.http.routing import add_route
from api.reading.acts import Acts, Wanted
from api.reading.reader import place_in_list
from api.services import Services
from api.topics import TopicBook
from delayline.access.acts import Act
from delayline.questions.inquiry import LAST_MS

LIMIT = 100
LIMIT_MAX = 1000

_PRINCIPAL = Text("principal", "Only what this principal asked for")
_OPERATION = Text("operation", "Only this `operationId`", example="purgeTopic")
_TOPIC = Text("topic", "Only what was about this topic")
_SINCE = Moment("since", "Stored at this moment or later")
_UNTIL = Moment("until", "Stored before this moment")
_LIMIT = Number("limit", "Lines", LIMIT_MAX, least=1, default=LIMIT)
_BEFORE = Text("before", "`next_before` of the page before")
_LIST_ACTS = Endpoint(
    id="listActs",
    act=Act.ADMIN,
    summary="Who did what, newest first: two lines about each act",
    query=[_PRINCIPAL, _OPERATION, _TOPIC, _SINCE, _UNTIL, _LIMIT, _BEFORE],
    replies=[Reply(200, "A page", [ActsPage])],
    refuses=[400, 503],
)


class ActRoutes:
    """It is about the whole installation, so it needs a right to every topic."""

    def __init__(self, services: Services, topics: TopicBook, acts: Acts) -> None:
        self._is_kept = services.settings.keeps_acts
        self._topics = topics
        self._acts = acts

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", "/v1/acts", self.page, _LIST_ACTS)

    async def page(self, request: Request) -> Response:
        query = query_of(request, _LIST_ACTS.query)
        wanted, before, limit = _wanted(query), _BEFORE.of(query), _LIMIT.of(query) or LIMIT
        found, positions = await self._topics.ask(lambda: self._acts.newest(wanted, before, limit))
        return json_answer(200, ActsPage(found, place_in_list(positions), self._is_kept))


def _wanted(query: Query) -> Wanted:
    since_ms, until_ms = _SINCE.of(query), _UNTIL.of(query)
    return Wanted(
        _PRINCIPAL.of(query),
        _OPERATION.of(query),
        _TOPIC.of(query),
        since_ms or 0,
        LAST_MS if until_ms is None else until_ms,
    )
