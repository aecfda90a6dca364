"""GET /v1/messages and /v1/topics/{topic}/histogram: which messages there are, and how many are due when."""

from collections.abc import Iterable
from dataclasses import replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.answers import HistogramOut, MessagesPage
from api.http import page_token
from api.http.answers import json_answer
from api.http.caller import caller_of, check
from api.http.endpoint import PATH_PARAMETERS, Choice, Endpoint, Moment, Number, Reply, Text, query_of
from api.http.problems import INVALID_REQUEST, NOT_SUPPORTED, refused
from api.http.requests import Query as Parameters
from api.http.routing import add_route
from api.reading.survey import Survey, shard_out
from api.reading.views import row_out
from api.services import Services
from api.topics import TopicBook
from delayline.access.acts import Act
from delayline.errors import MalformedDirective
from delayline.questions.inquiry import LAST_MS, DueQuery, Query, State, merge
from delayline.records.message import Shard
from delayline.times import format_duration, format_moment, parse_duration_ms

PAGE_SIZE = 100
PAGE_SIZE_MAX = 1000
BUCKET = "1m"
BUCKETS = 60
BUCKETS_MAX = 1440
_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
BUCKET_MS_MAX = 3650 * _DAY_MS
_STATES = [state.value for state in State if state is not State.ACCEPTED]


_TOPIC = Text("topic", "Only this topic", pattern=PATH_PARAMETERS["topic"].pattern)
_KEY = Text("key", "Only messages with this key")
_OWN_ID = Text("own_id", "Only the messages with this own id: one per shard at most")
_STATE = Choice("state", "What waits, or what has ended so, as far as it is remembered", _STATES, State.PENDING.value)
_DUE_AFTER = Moment("due_after", "Due at this moment or later")
_DUE_BEFORE = Moment("due_before", "Due before this moment")
_ROWS = Number("page_size", "Rows", PAGE_SIZE_MAX, least=1, default=PAGE_SIZE)
_TOKEN = Text("page_token", "`next_page_token` of the page before")
_LIST_MESSAGES = Endpoint(
    id="listMessages",
    act=Act.READ,
    checks_topics=True,
    summary="Messages that wait, by due time, or that have ended lately, newest first",
    query=[_TOPIC, _KEY, _OWN_ID, _STATE, _DUE_AFTER, _DUE_BEFORE, _ROWS, _TOKEN],
    replies=[Reply(200, "A page", [MessagesPage])],
    refuses=[400, 404, 503],
)

_FROM = Moment("from", "Else now")
_TO = Moment("to", f"Else {BUCKETS} buckets later")
_BUCKET = Text("bucket", "Whole minutes, beyond a day whole days", default=BUCKET, example="1h")
_HISTOGRAM = Endpoint(
    id="countDue",
    act=Act.READ,
    summary="How many messages are due when",
    query=[_FROM, _TO, _BUCKET],
    replies=[Reply(200, "Counts", [HistogramOut])],
    refuses=[400, 404, 503],
)


class FindingRoutes:
    """Questions that every owner may have a part of the answer to."""

    def __init__(self, services: Services, topics: TopicBook, survey: Survey) -> None:
        self._clock = services.clock
        self._topics = topics
        self._survey = survey

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", "/v1/messages", self.messages, _LIST_MESSAGES)
        add_route(router, "GET", "/v1/topics/{topic}/histogram", self.histogram, _HISTOGRAM)

    async def messages(self, request: Request) -> Response:
        given = query_of(request, _LIST_MESSAGES.query)
        topic, query = _TOPIC.of(given), _query(given)
        if topic is not None:
            self._topics.check_users(topic)
            check(caller_of(request), Act.READ, topic)
        shards = self._readable(request, await self._survey.shards(topic))
        listings = await self._survey.page(shards, query)
        missing = await self._survey.missing(shards, {shard for listing in listings for shard in listing.shards})
        rows, place = merge(listings, query.limit)
        page = MessagesPage(
            messages=[row_out(row.found) for row in rows],
            next_page_token=None if place is None else page_token.encode(place, _identity(given, query)),
            looked=sum(listing.looked for listing in listings),
            as_of=format_moment(self._clock.now_ms()),
            complete=not missing,
            missing_shards=[shard_out(shard) for shard in missing],
        )
        return json_answer(200, page)

    @staticmethod
    def _readable(request: Request, shards: Iterable[Shard]) -> list[Shard]:
        caller = caller_of(request)
        return [shard for shard in shards if caller.may(Act.READ, shard.topic)]

    async def histogram(self, request: Request) -> Response:
        topic: str = request.path_params["topic"]
        query = _due_query(query_of(request, _HISTOGRAM.query), self._clock.now_ms())
        self._topics.check_users(topic)
        shards = await self._survey.shards(topic)
        found = await self._survey.due_counts(shards, query)
        missing = await self._survey.missing(shards, {counts.shard for counts in found})
        none = (0,) * (query.number + 2)
        before, *counts, after = map(sum, zip(none, *(one.counts for one in found), strict=True))
        bucket_ms = query.width * _MINUTE_MS
        answer = HistogramOut(
            topic=topic,
            from_=format_moment(query.start * _MINUTE_MS),
            to=format_moment(query.start * _MINUTE_MS + query.number * bucket_ms),
            bucket=format_duration(bucket_ms),
            bucket_ms=bucket_ms,
            counts=counts,
            before=before,
            after=after,
            as_of=format_moment(self._clock.now_ms()),
            complete=not missing,
            missing_shards=[shard_out(shard) for shard in missing],
        )
        return json_answer(200, answer)


def _query(given: Parameters) -> Query:
    """Raises Refusal."""
    state = State(_STATE.of(given) or State.PENDING)
    key, own_id = _KEY.of(given), _OWN_ID.of(given)
    for name, wanted in (("key", key), ("own_id", own_id)):
        if wanted is not None and state is not State.PENDING:
            raise refused(NOT_SUPPORTED, f"?{name}", "not-supported", f"`{name}` finds pending messages only")
    due_from_ms, due_until_ms = _DUE_AFTER.of(given), _DUE_BEFORE.of(given)
    limit = _ROWS.of(given)
    query = Query(
        state=state,
        key=None if key is None else key.encode(),
        due_from_ms=due_from_ms or 0,
        due_until_ms=LAST_MS if due_until_ms is None else due_until_ms,
        limit=limit or PAGE_SIZE,
        own_id=own_id,
    )
    token = _TOKEN.of(given)
    return query if token is None else replace(query, after=page_token.decode(token, _identity(given, query)))


def _identity(given: Parameters, query: Query) -> object:
    """What decides which messages are listed."""
    return _TOPIC.of(given), query.state, query.key, query.own_id, query.due_from_ms, query.due_until_ms


def _due_query(given: Parameters, now_ms: int) -> DueQuery:
    """Raises Refusal."""
    bucket = _BUCKET.of(given)
    width = _bucket_minutes(BUCKET if bucket is None else bucket)
    start_ms, end_ms = _FROM.of(given), _TO.of(given)
    start = (now_ms if start_ms is None else start_ms) // (width * _MINUTE_MS)
    end = start + BUCKETS if end_ms is None else -(-end_ms // (width * _MINUTE_MS))
    if end <= start:
        after = "now, where `from` is not given" if start_ms is None else "`from`"
        raise refused(INVALID_REQUEST, "?to", "invalid-value", f"`to`: it is not later than {after}")
    if end - start > BUCKETS_MAX:
        wanted = f"from `from` on these are {end - start} buckets of {format_duration(width * _MINUTE_MS)}"
        detail = f"`to`: {wanted}, at most {BUCKETS_MAX} are possible; take a larger `bucket`"
        raise refused(INVALID_REQUEST, "?to", "invalid-value", detail)
    return DueQuery(start * width, width, end - start)


def _bucket_minutes(text: str) -> int:
    """Whole minutes, and beyond a day whole days, whose sums are known. Raises Refusal."""
    try:
        bucket_ms = parse_duration_ms(text)
    except MalformedDirective as error:
        raise refused(INVALID_REQUEST, "?bucket", "invalid-value", f"`bucket`: {error}") from error
    step_ms = _MINUTE_MS if bucket_ms <= _DAY_MS else _DAY_MS
    if bucket_ms % step_ms or not 0 < bucket_ms <= BUCKET_MS_MAX:
        detail = f"`bucket`: expected whole minutes up to 1d, or whole days up to 3650d, not {text}"
        raise refused(INVALID_REQUEST, "?bucket", "invalid-value", detail)
    return bucket_ms // _MINUTE_MS
