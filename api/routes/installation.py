"""Topics and info: what there is."""

from collections.abc import Iterable, Sequence

from fastapi import APIRouter
from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from api.bodies.answers import InfoOut, Limits, TopicOut, TopicsOut, TopicView, UnheededOut
from api.http.answers import json_answer
from api.http.caller import Open, caller_of
from api.http.endpoint import Endpoint, Reply
from api.http.requests import Query
from api.http.routing import add_route
from api.reading.reader import PAGE_RECORDS_MAX
from api.reading.standing import Figures, shard_view, topic_out
from api.reading.survey import Survey
from api.sending.drafts import HEADERS_MAX, KEY_BYTES_MAX
from api.services import Services
from api.topics import TopicBook, shards_of
from delayline.access.acts import Act
from delayline.records.message import Shard
from delayline.schedule.unheeded import ADVICE, UnheededNames
from delayline.times import format_duration, format_moment
from mq.contract import TopicInfo

_LIST_TOPICS = Endpoint(
    id="listTopics",
    act=Open.TO_PRINCIPALS,
    summary="The topics that users can send to and the caller may read, and how they stand",
    replies=[Reply(200, "By name", [TopicsOut])],
    refuses=[400, 503],
)
_GET_TOPIC = Endpoint(
    id="getTopic",
    act=Act.READ,
    summary="How a topic and each of its shards stand",
    replies=[Reply(200, "The topic", [TopicView])],
    refuses=[400, 404, 503],
)
_INFO = Endpoint(
    id="getInfo",
    act=Open.TO_PRINCIPALS,
    summary="What this installation is, and its limits",
    replies=[Reply(200, "The installation", [InfoOut])],
    refuses=[400, 503],
)


class InstallationRoutes:
    """Questions about the installation as a whole."""

    def __init__(self, services: Services, topics: TopicBook, survey: Survey, unheeded: UnheededNames) -> None:
        self._services = services
        self._settings = services.settings
        self._topics = topics
        self._survey = survey
        self._unheeded = unheeded

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", "/v1/topics", self.topics, _LIST_TOPICS)
        add_route(router, "GET", "/v1/topics/{topic}", self.topic, _GET_TOPIC)
        add_route(router, "GET", "/v1/info", self.info, _INFO)

    async def topics(self, request: Request) -> Response:
        Query(request)
        caller = caller_of(request)
        infos = [info for info in await self._topics.ask(self._topics.list) if caller.may(Act.READ, info.name)]
        known = await self._known()
        missing = await self._missing(infos, known)
        now_ms = self._services.clock.now_ms()
        rows = [self._row(info, known, missing, now_ms) for info in infos]
        return json_answer(200, TopicsOut(rows, format_moment(now_ms), not missing))

    async def topic(self, request: Request) -> Response:
        Query(request)
        name: str = request.path_params["topic"]
        self._topics.check_users(name)
        info = await self._topics.info(name)
        known = await self._known()
        missing = await self._missing([info], known)
        now_ms = self._services.clock.now_ms()
        row = self._row(info, known, missing, now_ms)
        shards = [shard for shard in shards_of(info) if shard in known or shard in missing]
        views = [shard_view(shard, known.get(shard), now_ms) for shard in shards]
        unheeded = [UnheededOut(one.name, one.why, one.seen, ADVICE[one.why]) for one in self._unheeded.of(name)]
        return json_answer(
            200, TopicView(**asdict(row), as_of=format_moment(now_ms), shards=views, unheeded=unheeded)
        )

    async def _known(self) -> Figures:
        return {figures.shard: figures for figures in await self._survey.figures()}

    async def _missing(self, infos: Iterable[TopicInfo], known: Figures) -> list[Shard]:
        """Shards whose figures are unknown, or not whole before they have been read to the end."""
        ready = {shard for shard, figures in known.items() if figures.ready}
        return await self._survey.missing([shard for info in infos for shard in shards_of(info)], ready)

    def _row(self, info: TopicInfo, known: Figures, missing: Sequence[Shard], now_ms: int) -> TopicOut:
        of_topic = [shard for shard in missing if shard.topic == info.name]
        return topic_out(info, known, of_topic, now_ms, enabled=self._settings.is_delay_enabled(info.name))

    async def info(self, request: Request) -> Response:
        Query(request)
        settings = self._settings
        answer = InfoOut(
            name="delayline",
            version=settings.version,
            namespace=settings.namespace,
            guarantee="exactly once",
            horizon_max=format_duration(settings.horizon_max_ms),
            levels=[format_duration(level_ms) for level_ms in settings.rules.levels_ms],
            topics_on_first_use=settings.topics_on_first_use,
            limits=Limits(
                body_bytes_max=settings.body_bytes_max,
                batch_messages_max=settings.batch_messages_max,
                headers_max=HEADERS_MAX,
                key_bytes_max=KEY_BYTES_MAX,
                page_records_max=PAGE_RECORDS_MAX,
            ),
            now=format_moment(self._services.clock.now_ms()),
        )
        return json_answer(200, answer)
