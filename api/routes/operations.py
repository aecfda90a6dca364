"""DELETE and PATCH /v1/messages/{id}, POST /v1/messages/{id}:deliver: operations on a message that waits.

An operation is a record of the buffer, like the message: the shard's owner decides it in the order of the log, and
its commit makes it true. The answer is given after that commit. Where it does not come in time nobody knows yet, and
the client asks for the message, or sends the operation again: the second one finds what the first has done.
"""

from collections.abc import Sequence

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api import openapi
from api.answers import Answer
from api.bridge import Bridge
from api.decoding import decode
from api.drafts import Judge
from api.problems import ALREADY_TERMINAL, Refusal
from api.requests import Query, read_body
from api.routes.messages import MessageRoutes
from api.routing import add_route
from api.schemas import PatchIn
from api.sender import Sender
from api.services import Services
from api.topics import TopicBook
from api.views import ending_out
from delayline.inquiry import WAITING, Found, OwnerUnavailable, Resolution, State
from delayline.message import Header, MessageId, Shard
from delayline.outcome import Outcome
from delayline.record import encode_body
from mq.contract import Append

_PATCH = msgspec.json.Decoder(PatchIn)
_CANCEL: Sequence[Header] = [(b"delay-op", b"cancel")]
_RESCHEDULE: Header = (b"delay-op", b"reschedule")
_AT_ONCE: Header = (b"delay-ms", b"0")


class OperationRoutes:
    """What can be done to a message after it was accepted."""

    def __init__(
        self,
        services: Services,
        topics: TopicBook,
        sender: Sender,
        judge: Judge,
        bridge: Bridge,
        messages: MessageRoutes,
    ) -> None:
        self._settings = services.settings
        self._clock = services.clock
        self._owners = services.owners
        self._topics = topics
        self._sender = sender
        self._judge = judge
        self._bridge = bridge
        self._messages = messages

    def register(self, router: APIRouter) -> None:
        add_route(router, "DELETE", "/v1/messages/{message_id}", self.cancel, openapi.CANCEL)
        add_route(router, "PATCH", "/v1/messages/{message_id}", self.reschedule, openapi.RESCHEDULE)
        add_route(router, "POST", "/v1/messages/{message_id}:deliver", self.deliver, openapi.DELIVER)

    async def cancel(self, request: Request) -> Response:
        return await self.cancel_message(_message_id(request))

    async def cancel_message(self, message_id: MessageId) -> Response:
        found = await self._messages.found(message_id)
        if found.state is State.CANCELLED or await self._is_applied(found, _CANCEL):
            return Answer(204)
        ended = await self._messages.found(message_id)
        if ended.state is State.CANCELLED:
            return Answer(204)
        raise _too_late(ended)

    async def reschedule(self, request: Request) -> Response:
        message_id = _message_id(request)
        return await self.move_message(message_id, await self.new_time(request))

    async def new_time(self, request: Request) -> Header:
        """What the body says. Raises Refusal."""
        body = await read_body(request, self._settings.body_bytes_max, self._settings.body_timeout_s)
        schedule = decode(_PATCH, body).schedule
        return self._judge.time(schedule, self._clock.now_ms()) or _AT_ONCE

    async def move_message(self, message_id: MessageId, time: Header) -> Response:
        await self._move(message_id, time)
        return self._messages.answer(await self._messages.found(message_id), full=False)

    async def deliver(self, request: Request) -> Response:
        await self._move(_message_id(request), _AT_ONCE)
        return Answer(204)

    async def _move(self, message_id: MessageId, time: Header) -> None:
        found = await self._messages.found(message_id)
        if not await self._is_applied(found, [_RESCHEDULE, time]):
            raise _too_late(await self._messages.found(message_id))

    async def _is_applied(self, found: Found, directives: Sequence[Header]) -> bool:
        """Have the owner do it; whether it did. Raises Refusal where the message has ended, and OwnerUnavailable
        where nobody knows yet."""
        if found.state not in WAITING:
            raise _too_late(found)
        shard = found.id.shard
        body = encode_body(None, None, [*directives, (b"delay-ref", str(found.id).encode())])
        target = await self._topics.target(shard.topic, delayed=True)
        (position,) = await self._sender.store(target, [Append(target.buffer, shard.name, body)])
        return (await self._decided(shard, position.offset)).outcome is Outcome.APPLIED

    async def _decided(self, shard: Shard, offset: int) -> Resolution:
        try:
            return await self._bridge.result(self._owners.decided(shard, offset), self._settings.operation_timeout_s)
        except TimeoutError as error:
            raise OwnerUnavailable("the operation is stored, and not decided yet: ask for the message") from error


def _message_id(request: Request) -> MessageId:
    """Raises MalformedMessageId, Refusal."""
    Query(request)
    return MessageId.parse(request.path_params["message_id"])


def _too_late(found: Found) -> Refusal:
    if found.ending is None:  # it goes to the dead letters, or its owner has forgotten how it ended
        return Refusal(ALREADY_TERMINAL, f"it is {found.state.value} and cannot be changed any more", status=409)
    outcome = ending_out(found.ending)
    return Refusal(ALREADY_TERMINAL, f"it was {outcome.state} at {outcome.at}", status=409, outcome=outcome)
