"""DELETE and PATCH /v1/messages/{id}, POST /v1/messages/{id}:deliver: operations on a message that waits.

An operation is a record of the buffer, like the message: the shard's owner decides it in the order of the log, and
its commit makes it true. The answer is given after that commit. Where it does not come in the time that the client
gives it, the answer is that the operation is accepted, with the id under which it can be asked for
(`routes.messages`).
"""

from collections.abc import Sequence

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.answers import MessageOut, OperationOut
from api.bodies.requests import PatchIn
from api.http.act_log import begin_act
from api.http.answers import Answer, json_answer
from api.http.decoding import decode
from api.http.endpoint import APPLIED, CONDITIONS, ETAG, LOCATION, WAIT, Endpoint, Reply
from api.http.metering import account_of
from api.http.preconditions import OperationOptions, options_of
from api.http.problems import ALREADY_TERMINAL, VERSION_MISMATCH, Refusal
from api.http.requests import read_body
from api.http.routing import add_route
from api.reading.views import ending_out, operation_out
from api.routes.messages import MessageRoutes
from api.sending.decisions import DecisionWaiter
from api.sending.drafts import ScheduleValidator
from api.sending.quotas import SendQuotas
from api.sending.sender import Sender
from api.services import Services
from api.topics import TopicBook
from delayline.access.acts import Act
from delayline.buffer.outcome import Outcome
from delayline.questions import inquiry
from delayline.questions.inquiry import WAITING, Found, Resolution, State
from delayline.records.headers import IF_MATCH
from delayline.records.message import Header, MessageId, OperationId
from delayline.records.record import encode_body
from mq.contract import Append

_PATCH = msgspec.json.Decoder(PatchIn)
_CANCEL: Sequence[Header] = [(b"delay-op", b"cancel")]
_RESCHEDULE: Header = (b"delay-op", b"reschedule")
_AT_ONCE: Header = (b"delay-ms", b"0")


_ACCEPTED = Reply(202, "Stored, and not decided yet: ask for it", [OperationOut], [LOCATION, APPLIED])
_MOVED = Reply(200, "The message, with its new time", [MessageOut], [ETAG])
_REFUSES = [400, 404, 409, 410, 412, 503]
CANCEL = Endpoint(
    id="cancelMessage",
    act=Act.CANCEL,
    summary="Cancel a message that waits: it will never be delivered",
    query=[WAIT],
    headers=CONDITIONS,
    replies=[Reply(204, "It is cancelled"), _ACCEPTED],
    refuses=_REFUSES,
)
RESCHEDULE = Endpoint(
    id="rescheduleMessage",
    act=Act.RESCHEDULE,
    summary="Deliver a message that waits at another time",
    query=[WAIT],
    headers=CONDITIONS,
    takes=[PatchIn],
    replies=[_MOVED, _ACCEPTED],
    refuses=_REFUSES,
)
_DELIVER = Endpoint(
    id="deliverMessage",
    act=Act.RESCHEDULE,
    summary="Deliver a message that waits now",
    query=[WAIT],
    headers=CONDITIONS,
    replies=[Reply(204, "It is due now"), _ACCEPTED],
    refuses=_REFUSES,
)


class OperationRoutes:
    """What can be done to a message after it was accepted."""

    def __init__(
        self,
        services: Services,
        topics: TopicBook,
        sender: Sender,
        validator: ScheduleValidator,
        decisions: DecisionWaiter,
        messages: MessageRoutes,
        quotas: SendQuotas,
    ) -> None:
        self._settings = services.settings
        self._clock = services.clock
        self._topics = topics
        self._sender = sender
        self._validator = validator
        self._decisions = decisions
        self._messages = messages
        self._quotas = quotas

    def register(self, router: APIRouter) -> None:
        add_route(router, "DELETE", "/v1/messages/{message_id}", self.cancel, CANCEL)
        add_route(router, "PATCH", "/v1/messages/{message_id}", self.reschedule, RESCHEDULE)
        add_route(router, "POST", "/v1/messages/{message_id}:deliver", self.deliver, _DELIVER)

    async def cancel(self, request: Request) -> Response:
        options = self.options(request)
        return await self.cancel_message(_message_id(request), options)

    async def reschedule(self, request: Request) -> Response:
        options = self.options(request)
        message_id = _message_id(request)
        return await self.move_message(message_id, await self.new_time(request), options)

    async def deliver(self, request: Request) -> Response:
        options = self.options(request)
        return await self._operate(_message_id(request), [_RESCHEDULE, _AT_ONCE], options) or Answer(204)

    def options(self, request: Request) -> OperationOptions:
        """Raises Refusal."""
        return options_of(request, self._settings.operation_timeout_s)

    async def new_time(self, request: Request) -> Header:
        """The time in the body: the act begins with it. Raises Refusal."""
        body = await read_body(request, self._settings.body_bytes_max, self._settings.body_timeout_s)
        asked, now_ms = decode(_PATCH, body), self._clock.now_ms()
        time = self._validator.time(asked.schedule, now_ms) or _AT_ONCE
        self._quotas.check(account_of(request), [time], now_ms)
        await begin_act(request, asked)
        return time

    async def cancel_message(self, message_id: MessageId, options: OperationOptions) -> Response:
        return await self._operate(message_id, _CANCEL, options, done=State.CANCELLED) or Answer(204)

    async def move_message(self, message_id: MessageId, time: Header, options: OperationOptions) -> Response:
        accepted = await self._operate(message_id, [_RESCHEDULE, time], options)
        return accepted or self._messages.answer(await self._messages.found(message_id), full=False)

    async def _operate(
        self,
        message_id: MessageId,
        directives: Sequence[Header],
        options: OperationOptions,
        done: State | None = None,
    ) -> Response | None:
        """Have the owner do it: None where it is done, or the message's state shows that it was; an answer where
        no owner has decided yet. Raises Refusal where it cannot be done, and OwnerUnavailable."""
        found = await self._messages.found(message_id)
        if found.state is done:
            return None
        if found.state not in WAITING:
            raise _already_terminal(found)
        operation = await self._stored(message_id, directives, options.version)
        resolution = await self._decisions.decided(*operation, options.wait_s)
        if resolution is None:
            return _accepted(operation, message_id, options)
        if resolution.outcome is not Outcome.APPLIED:
            found = await self._messages.found(message_id)
            if found.state is not done:
                raise _refusal(resolution, found)
        return None

    async def _stored(self, message_id: MessageId, directives: Sequence[Header], version: int | None) -> OperationId:
        shard = message_id.shard
        headers = [*directives, (b"delay-ref", str(message_id).encode())]
        if version is not None:
            headers.append((IF_MATCH, b"%d" % version))
        target = await self._topics.target(shard.topic, delayed=True)
        appends = [Append(target.buffer, shard.partition, encode_body(None, None, headers))]
        (position,) = await self._sender.store(target, appends)
        return OperationId(shard, position.offset)


def _message_id(request: Request) -> MessageId:
    """Raises MalformedMessageId."""
    return MessageId.parse(request.path_params["message_id"])


def _accepted(operation: OperationId, message_id: MessageId, options: OperationOptions) -> Response:
    location = (b"location", f"/v1/messages/{operation}".encode())
    return json_answer(202, operation_out(operation, None, str(message_id)), [location, *options.applied])


def _refusal(resolution: Resolution, found: Found) -> Refusal:
    if resolution.reason == inquiry.VERSION_MISMATCH and found.state in WAITING:
        return Refusal(VERSION_MISMATCH, f"it has version {found.version}, and nothing was changed")
    return _already_terminal(found)


def _already_terminal(found: Found) -> Refusal:
    if found.ending is None:  # it goes to the dead letters, or its owner has forgotten how it ended
        return Refusal(ALREADY_TERMINAL, f"it is {found.state.value} and cannot be changed any more", status=409)
    outcome = ending_out(found.ending)
    return Refusal(ALREADY_TERMINAL, f"it was {outcome.state} at {outcome.at}", status=409, outcome=outcome)
