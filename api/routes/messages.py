"""GET /v1/messages/{id}: what has become of a message."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api import openapi
from api.answers import json_answer
from api.bridge import Bridge
from api.problems import ALREADY_TERMINAL, NOT_FOUND, Refusal
from api.requests import Query
from api.routing import add_route
from api.services import Services
from api.views import message_out
from delayline.inquiry import Found, Gone, OwnerUnavailable
from delayline.message import MessageId


class MessageRoutes:
    """Questions about single messages go to their owners."""

    def __init__(self, services: Services, bridge: Bridge) -> None:
        self._owners = services.owners
        self._timeout_s = services.settings.owner_timeout_s
        self._bridge = bridge

    def register(self, router: APIRouter) -> None:
        add_route(router, "GET", "/v1/messages/{message_id}", self.get, openapi.GET_MESSAGE)

    async def get(self, request: Request) -> Response:
        view = Query(request, "view").choice("view", "basic", "full")
        message_id = MessageId.parse(request.path_params["message_id"])
        return self.answer(await self.found(message_id), full=view == "full")

    @staticmethod
    def answer(found: Found, *, full: bool) -> Response:
        return json_answer(200, message_out(found, full=full), [(b"etag", b'"%d"' % found.version)])

    async def found(self, message_id: MessageId) -> Found:
        """Raises Refusal where there is no such message, or nobody remembers it; OwnerUnavailable."""
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
                raise Refusal(NOT_FOUND, "there is no such message, and never was")
