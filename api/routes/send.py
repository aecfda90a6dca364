"""POST /v1/topics/{topic}/messages and POST /v1/schedules:preview."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.answers import BatchAnswer, MemberResult, PreviewOut, SentMessage, UnconfirmedMessage
from api.bodies.requests import BatchIn, LooseBatchIn, MessageIn, PreviewIn
from api.http.answers import Answer, json_answer
from api.http.caller import Caller, Open, caller_of
from api.http.decoding import decode, has_unknown_field
from api.http.endpoint import ETAG, LOCATION, REPLAYED, Choice, Endpoint, Reply, RequestHeader
from api.http.idempotency import KEY_CHARS_MAX, IdempotencyKeys
from api.http.metering import account_of
from api.http.problems import (
    INVALID_BODY,
    LIMIT_EXCEEDED,
    NOT_SUPPORTED,
    OWNER_UNAVAILABLE,
    Refusal,
    member_problem,
    refused,
)
from api.http.requests import Query, read_body
from api.http.routing import add_route
from api.sending.admission import Admission
from api.sending.decisions import DecisionWaiter, Sent
from api.sending.drafts import Draft, Drafter, ScheduleValidator
from api.sending.quotas import SendQuotas
from api.sending.replacing import written_down
from api.sending.rights import SendRights
from api.sending.sender import Sender
from api.services import Services
from api.topics import Target, TopicBook
from delayline.access.acts import Act
from delayline.access.ledger import Account
from delayline.schedule.recurrence import deliveries
from delayline.schedule.terms import Idempotency
from delayline.schedule.verdict import Schedule
from delayline.times import format_moment
from mq.contract import Append
from mq.errors import TopicUnknown

_SINGLE = msgspec.json.Decoder(MessageIn)
_BATCH = msgspec.json.Decoder(BatchIn)
_LOOSE_BATCH = msgspec.json.Decoder(LooseBatchIn)
_PREVIEW = msgspec.json.Decoder(PreviewIn)
_BATCH_FIELDS = frozenset(BatchIn.__struct_fields__)

_REPLAYED = (b"idempotency-replayed", b"true")

_Sent = SentMessage | UnconfirmedMessage


class Mode(StrEnum):
    """What the client waits for."""

    SYNC = "sync"  # until the messages are durable
    ASYNC = "async"  # until they are handed over
    ONEWAY = "oneway"  # the same, and the answer has no body


class _Batch(NamedTuple):
    """Members that can be appended, by index, and what was wrong with the others."""

    drafts: dict[int, Draft]
    refusals: dict[int, Refusal]

    def refuse(self, found: Mapping[int, Refusal]) -> None:
        self.refusals.update(found)
        for index in found:
            del self.drafts[index]


SEND = Endpoint(
    id="sendMessages",
    act=Act.SEND,
    summary="Send a message or a batch, now or later",
    query=[
        Choice(
            "mode",
            "`sync` waits until the messages are durable; `async` and `oneway` do not; `oneway` answers without body",
            list(Mode),
            Mode.SYNC,
        )
    ],
    headers=[
        RequestHeader(
            "Idempotency-Key",
            "The sender's name for this very request: sent again, it is answered as the first time. For one message "
            "with a delay",
            KEY_CHARS_MAX,
        )
    ],
    takes=[MessageIn, BatchIn],
    replies=[
        Reply(200, "A batch with `atomic: false`: see each result", [BatchAnswer]),
        Reply(201, "Durable", [SentMessage, BatchAnswer], [LOCATION, ETAG, REPLAYED]),
        Reply(202, "Handed over, not durable yet", [UnconfirmedMessage, BatchAnswer]),
    ],
    refuses=[404, 409, 422, 429, 503],
)
_PREVIEW_SCHEDULE = Endpoint(
    id="previewSchedule",
    act=Open.TO_PRINCIPALS,
    summary="What a schedule would mean now",
    takes=[PreviewIn],
    replies=[Reply(200, "When it would be due", [PreviewOut])],
    refuses=[503],
)


class SendRoutes:
    """The way of messages in. Hot: one call of `send` per request (bench/http.py)."""

    def __init__(
        self,
        services: Services,
        topics: TopicBook,
        sender: Sender,
        drafter: Drafter,
        validator: ScheduleValidator,
        decisions: DecisionWaiter,
        admission: Admission,
        rights: SendRights,
        quotas: SendQuotas,
    ) -> None:
        self._settings = services.settings
        self._clock = services.clock
        self._topics = topics
        self._sender = sender
        self._drafter = drafter
        self._validator = validator
        self._decisions = decisions
        self._admission = admission
        self._rights = rights
        self._quotas = quotas
        self._keys = IdempotencyKeys()

    def register(self, router: APIRouter) -> None:
        add_route(router, "POST", "/v1/topics/{topic}/messages", self.send, SEND)
        add_route(router, "POST", "/v1/schedules:preview", self.preview, _PREVIEW_SCHEDULE)

    async def send(self, request: Request) -> Response:
        mode = _mode(request)
        topic: str = request.path_params["topic"]
        self._topics.check_writable(topic)
        body = await read_body(request, self._settings.body_bytes_max, self._settings.body_timeout_s)
        try:
            message = decode(_SINGLE, body)
        except Refusal as refusal:
            if not has_unknown_field(refusal, _BATCH_FIELDS):
                raise
            return await self._send_batch(request, topic, body, mode)
        key = self._keys.of(request, topic, body)
        if key is None:
            return await self._send_single(request, topic, message, mode, key)
        with self._keys.taken(topic, key):
            return await self._send_single(request, topic, message, mode, key)

    async def preview(self, request: Request) -> Response:
        Query(request)
        body = await read_body(request, self._settings.body_bytes_max, self._settings.body_timeout_s)
        asked = decode(_PREVIEW, body)
        now_ms = self._clock.now_ms()
        directives = self._validator.directives(asked.schedule, now_ms)
        schedule = self._validator.schedule(directives, now_ms)
        moments = [format_moment(due_ms) for due_ms in islice(_due_times(schedule, now_ms), asked.count)]
        return json_answer(200, PreviewOut(format_moment(now_ms), not directives, moments))

    async def _send_single(
        self, request: Request, topic: str, message: MessageIn, mode: Mode, key: Idempotency | None
    ) -> Response:
        now_ms, account = self._clock.now_ms(), account_of(request)
        draft = self._drafter.draft(topic, message, now_ms, key)
        self._rights.check(caller_of(request), topic, draft)
        self._quotas.check(account, draft.directives, now_ms)
        await self._admission.refused(topic, {0: draft}, account, atomic=True)
        target = await self._quotas.target(account, topic, [draft])
        append = self._sender.place(target, draft)
        if not draft.replaces:  # as most: it pays nothing for what others are
            return await self._store_single(request, target, draft, append, mode)
        store = partial(self._store_single, request, target, draft, append, mode)
        return await written_down(request, SEND, topic, (draft,), store)

    async def _store_single(
        self, request: Request, target: Target, draft: Draft, append: Append, mode: Mode
    ) -> Response:
        topic = target.info.name
        if mode is not Mode.SYNC:
            self._sender.hand_over(target, [append], request.scope["delayline.ticket"])
            return Answer(202) if mode is Mode.ONEWAY else json_answer(202, _unconfirmed(draft))
        (position,) = await self._sender.append(target, [append])
        (sent,), replayed = self._sender.sent(topic, [draft], [position]), False
        if isinstance(sent, SentMessage) and draft.is_conditional:
            ((sent, replayed),) = await self._decisions.await_decisions(topic, [Sent(draft, position, sent)])
        if isinstance(sent, Refusal):
            raise sent
        return json_answer(201, sent, [*_location(sent), *((_REPLAYED,) if replayed else ())])

    async def _send_batch(self, request: Request, topic: str, body: bytes, mode: Mode) -> Response:
        """One append, whatever the batch is: all members without fault are stored or none is."""
        if b"idempotency-key" in request.scope["delayline.headers"]:
            raise Refusal(NOT_SUPPORTED, "an idempotency-key belongs to one message; give those of a batch own ids")
        atomic, members = self._read_batch(body)
        account = account_of(request)
        batch = self._drafted(topic, members, caller_of(request), account)
        if atomic and batch.refusals:
            await self._raise_all(topic, batch)
        batch.refuse(await self._admission.refused(topic, batch.drafts, account, atomic=atomic))
        if not batch.drafts:
            return _answered(200, batch, {})
        target = await self._quotas.target(account, topic, list(batch.drafts.values()))
        appends = self._placed(target, batch)
        _check_whole(batch, atomic)
        if not appends:
            return _answered(200, batch, {})
        store = partial(self._store_batch, request, target, batch, appends, mode, atomic=atomic)
        return await written_down(request, SEND, topic, batch.drafts.values(), store)

    async def _store_batch(
        self, request: Request, target: Target, batch: _Batch, appends: list[Append], mode: Mode, *, atomic: bool
    ) -> Response:
        if mode is Mode.SYNC:
            sent = await self._sent(target, batch, appends)
            _check_decided(batch, sent, atomic)
            return _answered(201 if atomic else 200, batch, sent)
        self._sender.hand_over(target, appends, request.scope["delayline.ticket"])
        if mode is Mode.ONEWAY:
            return Answer(202)
        return _answered(202, batch, {index: _unconfirmed(draft) for index, draft in batch.drafts.items()})

    def _read_batch(self, body: bytes) -> tuple[bool, Sequence[MessageIn | Refusal]]:
        """(atomic, members). Decoded at once where every member can be, which is several times as fast as one by
        one. Raises Refusal for what is wrong with the batch around them."""
        try:
            batch = decode(_BATCH, body)
        except Refusal:
            loose = decode(_LOOSE_BATCH, body)
            self._check_count(len(loose.messages))
            return loose.atomic, [_member(raw) for raw in loose.messages]
        self._check_count(len(batch.messages))
        return batch.atomic, batch.messages

    def _check_count(self, count: int) -> None:
        if count > self._settings.batch_messages_max:
            detail = f"a batch has at most {self._settings.batch_messages_max} messages"
            raise refused(LIMIT_EXCEEDED, "/messages", "too-many", detail)

    def _drafted(
        self, topic: str, members: Sequence[MessageIn | Refusal], caller: Caller, account: Account | None
    ) -> _Batch:
        batch = _Batch({}, {})
        now_ms = self._clock.now_ms()
        for index, member in enumerate(members):
            try:
                if isinstance(member, Refusal):
                    raise member
                draft = self._drafter.draft(topic, member, now_ms)
                self._rights.check(caller, topic, draft)
                self._quotas.check(account, draft.directives, now_ms)
                batch.drafts[index] = draft
            except Refusal as refusal:
                batch.refusals[index] = refusal.under(f"/messages/{index}")
        return batch

    async def _raise_all(self, topic: str, batch: _Batch) -> None:
        """Raises Refusal, with what is wrong with the places of the others, too. A batch with a fault makes no topic:
        where there is none, there is nothing to be wrong with."""
        with suppress(TopicUnknown):
            self._placed(await self._sender.existing(topic, list(batch.drafts.values())), batch)
        _check_whole(batch, atomic=True)

    def _placed(self, target: Target, batch: _Batch) -> list[Append]:
        """The appends of the drafts that have a place; the others become refusals."""
        appends, refusals = [], dict[int, Refusal]()
        for index, draft in batch.drafts.items():
            try:
                appends.append(self._sender.place(target, draft))
            except Refusal as refusal:
                refusals[index] = refusal.under(f"/messages/{index}")
        batch.refuse(refusals)
        return appends

    async def _sent(self, target: Target, batch: _Batch, appends: list[Append]) -> dict[int, _Sent]:
        topic, positions = target.info.name, await self._sender.append(target, appends)
        drafts = list(batch.drafts.values())
        results: list[SentMessage | Refusal] = self._sender.sent(topic, drafts, positions)
        conditional = {
            number: Sent(draft, positions[number], message)
            for number, draft in enumerate(drafts)
            if draft.is_conditional and isinstance(message := results[number], SentMessage)
        }
        decided = await self._decisions.await_decisions(topic, list(conditional.values()))
        for number, (answer, _) in zip(conditional, decided, strict=True):
            results[number] = answer
        sent: dict[int, _Sent] = {}
        for number, (index, answer) in enumerate(zip(batch.drafts, results, strict=True)):
            if isinstance(answer, SentMessage):
                sent[index] = answer
            else:
                batch.refusals[index] = answer if number in conditional else answer.under(f"/messages/{index}")
        return sent


def _mode(request: Request) -> Mode:
    if not request.scope["query_string"]:
        return Mode.SYNC
    return Mode(Query(request, "mode").choice("mode", *Mode) or Mode.SYNC)


def _due_times(schedule: Schedule, now_ms: int) -> Iterator[int]:
    terms = schedule.terms
    if terms is None or terms.series is None:
        return iter([schedule.due_ms])
    times = deliveries(terms.series, schedule.due_ms, now_ms)
    expire_at_ms = terms.expire_at_ms
    return times if expire_at_ms is None else takewhile(lambda due_ms: due_ms <= expire_at_ms, times)


def _unconfirmed(draft: Draft) -> UnconfirmedMessage:
    return UnconfirmedMessage(own_id=draft.own_id)


def _location(sent: SentMessage) -> list[tuple[bytes, bytes]]:
    if sent.message_id is None:
        return []
    return [(b"location", f"/v1/messages/{sent.message_id}".encode()), (b"etag", b'"%d"' % sent.version)]


def _member(raw: msgspec.Raw) -> MessageIn | Refusal:
    try:
        return decode(_SINGLE, raw)
    except Refusal as refusal:
        return refusal


def _check_whole(batch: _Batch, atomic: bool) -> None:
    """Raises Refusal: of an atomic batch with a fault nothing is stored, and every member at fault is named."""
    if not atomic or not batch.refusals:
        return
    refusals = sorted(batch.refusals.items())
    faults = [fault for _, refusal in refusals for fault in refusal.faults]
    detail = f"nothing was stored: {len(refusals)} of the messages cannot be accepted"
    raise Refusal(INVALID_BODY, detail, faults, results=[_rejected(*member) for member in refusals])


def _check_decided(batch: _Batch, sent: Mapping[int, _Sent], atomic: bool) -> None:
    """Raises Refusal: all of an atomic batch is stored, and of some members it is unknown yet whether they stay."""
    if not atomic or not any(refusal.status == 503 for refusal in batch.refusals.values()):
        return
    detail = "all is stored; of the messages with a problem it is not decided yet whether their own ids were free"
    raise Refusal(OWNER_UNAVAILABLE, detail, results=_results(201, batch, sent))


def _rejected(index: int, refusal: Refusal) -> MemberResult:
    return MemberResult(index, refusal.status, problem=member_problem(refusal))


def _answered(status: int, batch: _Batch, sent: Mapping[int, _Sent]) -> Answer:
    results = _results(202 if status == 202 else 201, batch, sent)
    return json_answer(status, BatchAnswer(len(sent), len(batch.refusals), results))


def _results(member_status: int, batch: _Batch, sent: Mapping[int, _Sent]) -> list[MemberResult]:
    results = {index: MemberResult(index, member_status, message=message) for index, message in sent.items()}
    results |= {index: _rejected(index, refusal) for index, refusal in batch.refusals.items()}
    return [results[index] for index in sorted(results)] if batch.refusals else list(results.values())
