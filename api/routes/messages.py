"""GET /v1/messages/{id}: the outcome of a message, or of an operation."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.answers import MessageOut, OperationOut
from api.bridge import Bridge
from api.http.answers import json_answer
from api.http.caller import caller_of, check
from api.http.endpoint import ETAG, VIEW, Endpoint, Reply, query_of
from api.http.problems import ALREADY_TERMINAL, NOT_FOUND, Refusal
from api.http.routing import add_route
from api.reading.views import message_out, operation_out
from api.sending.decisions import DecisionWaiter
from api.services import Services
from api.topics import TopicBook
from delayline.access.acts import Act
from delayline.buffer.record import Operation, read
from delayline.names import Names
from delayline.questions.inquiry import Found, Gone, OwnerUnavailable
from delayline.records.message import MessageId, OperationId
from mq.errors import OffsetOutOfRange, PartitionUnknown, TopicUnknown

OPERATION_WAIT_S = 0.5
"""How long a request for an operation waits for its decision."""


_GET_MESSAGE = Endpoint(
    id="getMessage",
    act=Act.READ,
    summary="The state of a message, or of an operation",
    query=[VIEW],
    replies=[Reply(200, "The message, or the operation", [MessageOut, OperationOut], [ETAG])],
    refuses=[400, 404, 410, 503],
)


def is_full(request: Request, view: str | None, topic: str) -> bool:
    """Whether the answer has what the message holds. Raises Refusal (403)."""
    if view == "full":
        check(caller_of(request), Act.PAYLOAD, topic)
    return view == "full"


class MessageRoutes:
    """Questions about single messages go to their owners."""

    def __init__(self, services: Services, topics: TopicBook, bridge: Bridge, decisions: DecisionWaiter) -> None:
        self._owners = services.owners
        self._client = services.client
        self._rules = services.settings.rules
        self._names = Names(services.settings.namespace)
        self._topics = topics
        self._decisions = decisions
        self._timeout_s = services.settings.owner_timeout_s
        self._bridge = bridge

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", "/v1/messages/{message_id}", self.get, _GET_MESSAGE)

    async def get(self, request: Request) -> Response:
        view = VIEW.of(query_of(request, _GET_MESSAGE.query))
        text: str = request.path_params["message_id"]
        if (operation := OperationId.parse(text)) is not None:
            return await self._operation(operation)
        message_id = MessageId.parse(text)
        return self.answer(await self.found(message_id), full=is_full(request, view, message_id.shard.topic))

    @staticmethod
    def answer(found: Found, *, full: bool) -> Response:
        return json_answer(200, message_out(found, full=full), [(b"etag", b'"%d"' % found.version)])

    async def found(self, message_id: MessageId) -> Found:
        """Raises Refusal where there is no such message, or its history is gone; OwnerUnavailable."""
        try:
            answer = await self._bridge.result(self._owners.find(message_id), self._timeout_s)
        except TimeoutError as error:
            raise OwnerUnavailable("the message's owner did not answer in time") from error
        match answer:
            case Found():
                return answer
            case Gone():
                raise Refusal(ALREADY_TERMINAL, "it has ended, or never was: what came of it is not kept any more")
            case None:
                raise Refusal(NOT_FOUND, "there is no such message")

    async def _operation(self, operation: OperationId) -> Response:
        """The result of an operation. Only the log shows that the record is one."""
        target = await self._topics.ask(lambda: self._target(operation))
        if target is None:
            raise Refusal(NOT_FOUND, "there is no such operation, or its record is not kept any more")
        resolution = await self._decisions.outcome(operation, OPERATION_WAIT_S)
        return json_answer(200, operation_out(operation, resolution, target))

    def _target(self, operation: OperationId) -> str | None:
        """What the operation is about; None where there is none. Blocking. Raises QueueUnavailable,
        UnknownFormat."""
        shard, offset = operation
        try:
            records = self._client.read(self._names.buffer(shard.topic), shard.partition, offset, 1)
        except (TopicUnknown, PartitionUnknown, OffsetOutOfRange):
            return None
        if not records or records[0].offset != offset:
            return None
        meaning = read(records[0].body, records[0].appended_at_ms, self._rules)
        return str(meaning.ref) if isinstance(meaning, Operation) else None
