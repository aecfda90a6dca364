"""GET /v1/topics/{topic}/records: what is in a topic, as a page or as a stream."""

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.answers import RecordsPage
from api.http.answers import Answer, json_answer
from api.http.caller import caller_of, check
from api.http.endpoint import Choice, Endpoint, Number, Partition, Reply, RequestHeader, query_of
from api.http.problems import INVALID_REQUEST, Problems, refused
from api.http.routing import add_route
from api.reading.follow import EventStream, Followers
from api.reading.reader import PAGE_RECORDS_MAX, Positions, Reader, Seen
from api.reading.views import record_out
from api.topics import TopicBook
from delayline.access.acts import Act

LIMIT = 100
_LARGEST = 10**18 - 1
"""The query takes 18 digits (`api.http.requests`)."""


_PARTITION = Partition("partition", "Only this partition, by its number or name")
_OFFSET = Number("offset", "From this offset on, instead of the newest; needs `partition`", _LARGEST)
_PAGE_LIMIT = Number("limit", "At most so many records", PAGE_RECORDS_MAX, default=LIMIT)
_FOLLOW = Choice(
    "follow", "`sse`: the page, then everything that comes, as server-sent events; `Last-Event-ID` resumes", ["sse"]
)
_READ_RECORDS = Endpoint(
    id="readRecords",
    act=Act.PAYLOAD,
    summary="The records of a topic, as a page or as a stream",
    query=[_PARTITION, _OFFSET, _PAGE_LIMIT, _FOLLOW],
    headers=[RequestHeader("Last-Event-ID", "With `follow`: the stream goes on behind this event")],
    replies=[Reply(200, "Records, oldest first", [RecordsPage], texts=["text/event-stream"])],
    refuses=[400, 404, 503],
)


class RecordRoutes:
    """Reading topics over HTTP."""

    def __init__(self, reader: Reader, topics: TopicBook, followers: Followers, problems: Problems) -> None:
        self._reader = reader
        self._topics = topics
        self._followers = followers
        self._problems = problems

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", "/v1/topics/{topic}/records", self.read, _READ_RECORDS)

    async def read(self, request: Request) -> Response:
        query = query_of(request, _READ_RECORDS.query)
        follow, limit = _FOLLOW.of(query), _PAGE_LIMIT.of(query)
        named, offset = _PARTITION.of(query), _OFFSET.of(query)
        if offset is not None and named is None:
            raise refused(INVALID_REQUEST, "?offset", "missing-parameter", "`offset` needs `partition`")
        topic: str = request.path_params["topic"]
        self._topics.check_readable(topic)
        resumed = _resumed(request) if follow else None
        read = _Read(self._reader, topic, named, offset, LIMIT if limit is None else limit, resumed)
        page, positions = await self._topics.ask(read.follow_start if follow else read.page)
        if follow:
            return self._stream(request, topic, page, positions)
        return json_answer(200, RecordsPage([record_out(*seen) for seen in page]))

    def _stream(self, request: Request, topic: str, page: Sequence[Seen], positions: Positions) -> Response:
        if request.method == "HEAD":
            return Answer(200, headers=[(b"content-type", b"text/event-stream; charset=utf-8")])
        address: str = request.scope["delayline.address"]
        caller = caller_of(request)
        events = self._followers.follow(topic, page, positions, lambda: check(caller, Act.PAYLOAD, topic))
        return EventStream(self._followers, self._problems, address, events)


def _resumed(request: Request) -> Positions | None:
    """Where the client's last stream ended. Raises Refusal."""
    given: bytes | None = request.scope["delayline.headers"].get(b"last-event-id")
    return Positions.parse(given.decode("latin-1")) if given else None


class _Read:
    """One request's reading; its methods block."""

    def __init__(
        self,
        reader: Reader,
        topic: str,
        named: int | str | None,
        offset: int | None,
        limit: int,
        resumed: Positions | None,
    ) -> None:
        self._reader = reader
        self._topic = topic
        self._named = named
        self._offset = offset
        self._limit = limit
        self._resumed = resumed

    def page(self) -> tuple[list[Seen], Positions]:
        partitions = self._reader.partitions(self._topic, self._named)
        if self._offset is None:
            return self._reader.newest(self._topic, partitions, self._limit)
        page = self._reader.from_offset(self._topic, partitions[0], self._offset, self._limit)
        return page, Positions({partitions[0]: self._offset})

    def follow_start(self) -> tuple[list[Seen], Positions]:
        """Where a stream resumes there is no first page: everything comes from its positions."""
        if self._resumed is None:
            return self.page()
        partitions = self._reader.partitions(self._topic, self._named)
        return [], self._reader.resumed(self._topic, partitions, self._resumed)
