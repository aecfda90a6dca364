"""Dead letters of a topic: what they are, and sending them again."""

from collections.abc import Sequence
from functools import partial

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.answers import DeadPage, RedriveOut
from api.bodies.requests import RedriveIn
from api.http.act_log import begin_act
from api.http.answers import json_answer
from api.http.decoding import decode
from api.http.endpoint import Endpoint, Number, Reply, Text, query_of
from api.http.metering import account_of
from api.http.problems import INVALID_BODY, INVALID_REQUEST, TOO_LARGE, TOPIC_NOT_ENABLED, Refusal, refused
from api.http.requests import Query, read_body
from api.http.routing import add_route
from api.reading.dead_letters import DeadLetters, Letter
from api.reading.reader import Positions, place_in_list
from api.reading.views import dead_letter_out
from api.sending.drafts import ScheduleValidator
from api.sending.quotas import SendQuotas
from api.sending.sender import Sender
from api.services import Services
from api.topics import Target, TopicBook
from delayline.access.acts import Act
from delayline.access.ledger import Account
from delayline.errors import MalformedDirective
from delayline.records.headers import ECHOED, REDRIVEN, RESERVED
from delayline.records.message import Header
from delayline.records.record import encode_body
from delayline.schedule.directives import directive_names
from delayline.times import parse_moment_ms
from mq.contract import Append

LIMIT = 100
LIMIT_MAX = 1000
REDRIVEN_AT_ONCE = 1000
"""Letters per request; `next_after` leads on."""

READ_AT_ONCE = 16
"""Of those that are named: each may be as large as a record can be."""

_REDRIVE = msgspec.json.Decoder(RedriveIn)


_PAGE_LIMIT = Number("limit", "Rows", LIMIT_MAX, default=LIMIT)
_BEFORE = Text("before", "`next_before` of the page before")
_LIST_DEAD = Endpoint(
    id="listDeadLetters",
    act=Act.PAYLOAD,
    summary="Messages of a topic that could not be delivered, newest first",
    query=[_PAGE_LIMIT, _BEFORE],
    replies=[Reply(200, "A page", [DeadPage])],
    refuses=[400, 404, 503],
)
_REDRIVE_LETTERS = Endpoint(
    id="redriveDeadLetters",
    act=Act.CONTROL,
    summary="Send dead letters to their topic again, at least once",
    takes=[RedriveIn],
    replies=[Reply(200, "What was done", [RedriveOut])],
    refuses=[404, 503],
)


class DeadRoutes:
    """Letters stay where they are: the log of the dead has no way to take one out."""

    def __init__(
        self,
        services: Services,
        topics: TopicBook,
        sender: Sender,
        validator: ScheduleValidator,
        letters: DeadLetters,
        quotas: SendQuotas,
    ) -> None:
        self._settings = services.settings
        self._clock = services.clock
        self._topics = topics
        self._sender = sender
        self._validator = validator
        self._letters = letters
        self._quotas = quotas
        self._dropped = directive_names(validator.aliases) | ECHOED | RESERVED | {REDRIVEN}

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", "/v1/topics/{topic}/dead", self.page, _LIST_DEAD)
        add_route(router, "POST", "/v1/topics/{topic}/dead:redrive", self.redrive, _REDRIVE_LETTERS)

    async def page(self, request: Request) -> Response:
        query = query_of(request, _LIST_DEAD.query)
        limit, before = _PAGE_LIMIT.of(query), _BEFORE.of(query)
        topic: str = request.path_params["topic"]
        await self._topics.check_there(topic)
        found, positions = await self._topics.ask(
            lambda: self._letters.newest(topic, before, LIMIT if limit is None else limit)
        )
        page = DeadPage([dead_letter_out(letter) for letter in found], place_in_list(positions))
        return json_answer(200, page)

    async def redrive(self, request: Request) -> Response:
        Query(request)
        body = await read_body(request, self._settings.body_bytes_max, self._settings.body_timeout_s)
        asked = decode(_REDRIVE, body)
        until_ms = self._checked(asked)
        now_ms, account = self._clock.now_ms(), account_of(request)
        time = None if asked.schedule is None else self._validator.time(asked.schedule, now_ms)
        self._quotas.check(account, () if time is None else [time], now_ms)
        topic: str = request.path_params["topic"]
        await self._topics.check_there(topic)
        if time is not None and not self._settings.is_delay_enabled(topic):
            raise Refusal(TOPIC_NOT_ENABLED, f"delay.topics does not name {topic!r}")
        await begin_act(request, asked)
        if asked.ids is not None:
            return await self._redrive_named(
                topic, list(dict.fromkeys(asked.ids)), time, account, dry_run=asked.dry_run
            )
        found, positions = await self._topics.ask(
            lambda: self._letters.oldest(topic, until_ms, asked.after, REDRIVEN_AT_ONCE)
        )
        sent = [letter for letter in found if not letter.content.is_left_out]
        redriven = 0 if asked.dry_run else await self._send(topic, sent, time, account)
        return _answer(len(found), redriven, [], positions, dry_run=asked.dry_run)

    def _checked(self, asked: RedriveIn) -> int:
        """The moment up to which letters are meant. Raises Refusal."""
        if (asked.ids is None) == (not asked.all):
            raise refused(INVALID_BODY, "/ids", "contradiction", "give either `ids` or `all`")
        for name in ("until", "after"):
            if asked.ids is not None and getattr(asked, name) is not None:
                raise refused(INVALID_BODY, f"/{name}", "contradiction", f"`{name}` belongs to `all`")
        if asked.until is None:
            return self._clock.now_ms()
        try:
            return parse_moment_ms(str(asked.until))
        except MalformedDirective as error:
            raise refused(INVALID_BODY, "/until", "invalid-value", str(error)) from error

    async def _redrive_named(
        self, topic: str, ids: Sequence[str], time: Header | None, account: Account | None, *, dry_run: bool
    ) -> Response:
        matched = redriven = 0
        missing: list[str] = []
        for at in range(0, len(ids), READ_AT_ONCE):
            some = ids[at : at + READ_AT_ONCE]
            found = await self._topics.ask(partial(self._get, topic, some))
            missing += [one for one, letter in zip(some, found, strict=True) if letter is None]
            letters = [letter for letter in found if letter is not None]
            matched += len(letters)
            redriven += 0 if dry_run else await self._send(topic, letters, time, account)
        return _answer(matched, redriven, missing, None, dry_run=dry_run)

    def _get(self, topic: str, ids: Sequence[str]) -> Sequence[Letter | None]:
        return [self._letters.get(topic, one) for one in ids]

    async def _send(self, topic: str, letters: Sequence[Letter], time: Header | None, account: Account | None) -> int:
        """How many are durable. What they hold counts like bytes that were sent. Raises Refusal, QueueError; those
        that went before stay sent."""
        if not letters:
            return 0
        target = await self._topics.target(topic, delayed=time is not None)
        appends = [self._append(target, letter, time) for letter in letters]
        if account is not None:
            account.pay_bytes(sum(len(append.body) for append in appends))
        await self._sender.append(target, appends)
        return len(appends)

    def _append(self, target: Target, letter: Letter, time: Header | None) -> Append:
        """The record as it came, but for what meant something to Delayline; to its own partition where that is still
        there. Raises Refusal."""
        if letter.content.is_left_out:
            detail = f"dead letter {letter.id} has nothing of the message but its size and digest"
            raise Refusal(INVALID_REQUEST, detail)
        key, value, headers = letter.content.original
        kept = [header for header in headers if header[0] not in self._dropped]
        kept.append((REDRIVEN, letter.content.message_id.encode()))
        if time is not None:
            kept.append(time)
        body, room = encode_body(key, value, kept), target.record_bytes_for(delayed=time is not None)
        if len(body) > room:
            raise Refusal(TOO_LARGE, f"dead letter {letter.id} has {len(body)} bytes, the topic takes {room}")
        partition = letter.content.partition
        if partition not in target.info.partitions:
            partition = target.partition_for(None, key)
        return Append(target.info.name if time is None else target.buffer, partition, body)


def _answer(
    matched: int, redriven: int, missing: Sequence[str], positions: Positions | None, *, dry_run: bool
) -> Response:
    following = place_in_list(positions)
    return json_answer(200, RedriveOut(matched, redriven, missing, following, dry_run))
