"""How routes are registered: FastAPI knows their paths and documents them, and stays out of their way."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http import metering
from api.http.act_log import ACT_LOG, LOGGED, ActLog
from api.http.caller import CALLER, Caller, Open, check, check_known
from api.http.endpoint import Endpoint, query_of
from api.http.requests import check_act
from delayline.access.acts import Act
from delayline.errors import MalformedMessageId
from delayline.records.message import MessageId, OperationId

Handler = Callable[[Request], Awaitable[Response]]


class PlainRoute(APIRoute):
    """A route whose endpoint takes the request and gives the response: no dependencies to solve, no files to close,
    no exceptions to translate (`api.http.edge` does). Together with telemetry that is off, FastAPI takes 13 us per
    request this way instead of 32. GET answers HEAD, too (RFC 9110, 9.3.2)."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        methods = self.methods or set()
        self.methods = methods | {"HEAD"} if "GET" in methods else methods

        self.app = plain_app(endpoint, options["openapi_extra"]["endpoint"], is_act="POST" in methods)


def plain_app(handler: Handler, endpoint: Endpoint, *, is_act: bool) -> ASGIApp:
    """The handler alone, behind what every POST has to show (`is_act`), the caller's quota, and the right that the
    endpoint needs."""

    is_logged = endpoint.act in LOGGED
    counts = endpoint.counts

    async def plain(scope: Scope, receive: Receive, send: Send) -> None:
        if is_act:
            check_act(scope["delayline.headers"])
        if counts:  # before the log of acts: a principal could fill it with what is refused
            metering.begin(scope)
        if is_logged and (log := scope.get(ACT_LOG)) is not None:
            response = await _logged(scope, Request(scope, receive, send), log)
        else:
            _check_right(scope, endpoint)
            response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)

    async def _logged(scope: Scope, request: Request, log: ActLog) -> Response:
        async with log.logging(scope, endpoint, _named_topic(scope["path_params"])) as act:
            _check_right(scope, endpoint)
            query_of(request, endpoint.query)
            if not endpoint.takes:  # else the handler begins it, with what the body asks for
                await act.begin()
            response = await handler(request)
            assert act.taken is not None, f"{endpoint.id} is done, and was not written down before"
            act.status = response.status_code
        return response

    return plain


def _check_right(scope: Scope, endpoint: Endpoint) -> None:
    """Raises Refusal (401, 403), and MalformedMessageId."""
    if endpoint.act is Open.TO_ALL:
        return
    caller: Caller = scope[CALLER]
    check_known(caller)
    if isinstance(endpoint.act, Act) and not endpoint.checks_topics:
        check(caller, endpoint.act, _topic(scope["path_params"]))


def _topic(path_params: Mapping[str, str]) -> str | None:
    """The topic that the path names, or whose message or operation it names. Raises MalformedMessageId."""
    text = path_params.get("message_id")
    return (
        path_params.get("topic") if text is None else (OperationId.parse(text) or MessageId.parse(text)).shard.topic
    )


def _named_topic(path_params: Mapping[str, str]) -> str | None:
    """The same, None also where the path is malformed."""
    try:
        return _topic(path_params)
    except MalformedMessageId:
        return None


def add_route(router: APIRouter, method: str, path: str, handler: Handler, endpoint: Endpoint) -> None:
    """Register a handler with what it takes and answers, for the OpenAPI document."""
    router.add_api_route(
        path,
        handler,
        methods=[method],
        openapi_extra={"endpoint": endpoint},
        response_model=None,
    )
