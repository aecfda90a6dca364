"""Topics and info: what there is."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api import openapi
from api.answers import json_answer
from api.drafts import HEADERS_MAX, KEY_BYTES_MAX
from api.reader import PAGE_RECORDS_MAX
from api.requests import Query
from api.routing import add_route
from api.schemas import InfoOut, Limits, TopicOut, TopicsOut
from api.services import Services
from api.topics import TopicBook
from delayline.times import format_duration, format_moment


class InstallationRoutes:
    """Questions about the installation as a whole."""

    def __init__(self, services: Services, topics: TopicBook) -> None:
        self._services = services
        self._settings = services.settings
        self._topics = topics

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", "/v1/topics", self.topics, openapi.LIST_TOPICS)
        add_route(router, "GET", "/v1/info", self.info, openapi.INFO)

    async def topics(self, request: Request) -> Response:
        Query(request)
        found = await self._topics.ask(self._topics.list)
        is_enabled = self._settings.is_delay_enabled
        rows = [TopicOut(info.name, len(info.partitions), is_enabled(info.name)) for info in found]
        return json_answer(200, TopicsOut(rows))

    async def info(self, request: Request) -> Response:
        Query(request)
        settings = self._settings
        answer = InfoOut(
            name="delayline",
            version=settings.version,
            namespace=settings.namespace,
            guarantee=settings.guarantee,
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
