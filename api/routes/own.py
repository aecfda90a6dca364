"""GET, PATCH and DELETE /v1/topics/{topic}/own/{own_id}: a message that waits, by the id that its sender gave it.

An own id is unique among the messages that wait in a shard. Messages without a key are placed by it, so that it is
unique in their topic; messages with keys may share one, and then it names none of them.
"""

from dataclasses import replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.answers import MessageOut
from api.http.endpoint import ETAG, VIEW, Endpoint, Reply, query_of
from api.http.problems import AMBIGUOUS, NOT_FOUND, Refusal
from api.http.routing import add_route
from api.reading.survey import Survey
from api.routes.messages import MessageRoutes, is_full
from api.routes.operations import CANCEL, RESCHEDULE, OperationRoutes
from api.topics import TopicBook
from delayline.access.acts import Act
from delayline.questions.inquiry import OwnerUnavailable, Query, merge
from delayline.records.message import MessageId

PATH = "/v1/topics/{topic}/own/{own_id:path}"
_SHOWN_MAX = 3


_GET_OWN = Endpoint(
    id="getOwn",
    act=Act.READ,
    summary="A message that waits, by its own id",
    query=[VIEW],
    replies=[Reply(200, "The message", [MessageOut], [ETAG])],
    refuses=[400, 404, 409, 410, 503],
)
_RESCHEDULE_OWN = replace(RESCHEDULE, id="rescheduleOwn")
_CANCEL_OWN = replace(CANCEL, id="cancelOwn")


class OwnRoutes:
    """All shards of the topic are asked who has the id; then everything goes by message id."""

    def __init__(
        self, topics: TopicBook, survey: Survey, messages: MessageRoutes, operations: OperationRoutes
    ) -> None:
        self._topics = topics
        self._survey = survey
        self._messages = messages
        self._operations = operations

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", PATH, self.get, _GET_OWN)
        add_route(router, "PATCH", PATH, self.reschedule, _RESCHEDULE_OWN)
        add_route(router, "DELETE", PATH, self.cancel, _CANCEL_OWN)

    async def get(self, request: Request) -> Response:
        view = VIEW.of(query_of(request, _GET_OWN.query))
        full = is_full(request, view, request.path_params["topic"])
        message_id = await self._message_id(request)
        return self._messages.answer(await self._messages.found(message_id), full=full)

    async def reschedule(self, request: Request) -> Response:
        options, time = self._operations.options(request), await self._operations.new_time(request)
        return await self._operations.move_message(await self._message_id(request), time, options)

    async def cancel(self, request: Request) -> Response:
        options = self._operations.options(request)
        return await self._operations.cancel_message(await self._message_id(request), options)

    async def _message_id(self, request: Request) -> MessageId:
        """Raises Refusal, TopicUnknown, QueueUnavailable, and OwnerUnavailable where a shard does not answer: it may
        be that one."""
        topic: str = request.path_params["topic"]
        self._topics.check_users(topic)
        shards = await self._survey.shards(topic)
        query = Query(own_id=request.path_params["own_id"], limit=_SHOWN_MAX)
        listings = await self._survey.page(shards, query)
        answering = {shard for listing in listings for shard in listing.shards}
        if missing := await self._survey.missing(shards, answering):
            names = ", ".join(shard.partition for shard in missing)
            raise OwnerUnavailable(f"no owner answers for these partitions of {topic}, where it may be: {names}")
        rows, _ = merge(listings, _SHOWN_MAX)
        if not rows:
            raise Refusal(NOT_FOUND, "no message that waits has this own id")
        if len(rows) > 1:
            ids = ", ".join(str(row.found.id) for row in rows)
            raise Refusal(
                AMBIGUOUS, f"messages with different keys have this own id: ask by message id, such as {ids}"
            )
        return rows[0].found.id
