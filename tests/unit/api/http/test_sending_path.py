"""Which requests are answered without the framework's router."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from api.http.caller import CALLER, Anyone
from api.http.sending_path import SendingPath
from api.routes.send import SEND


def _asked(method: str, path: str) -> str:
    """The topic that a send got, or `router`."""
    answered = []

    async def router(scope: Any, receive: Any, send: Any) -> None:
        answered.append("router")

    async def sent(request: Request) -> Response:
        answered.append(request.path_params["topic"])
        return Response()

    async def ignore(message: Any) -> None:
        return None

    headers = {b"content-type": b"application/json"}
    scope = {"type": "http", "method": method, "path": path, "delayline.headers": headers, CALLER: Anyone()}
    asyncio.run(SendingPath(router, sent, SEND)(scope, ignore, ignore))  # type: ignore[arg-type]
    (found,) = answered
    return str(found)


@pytest.mark.parametrize("topic", ["orders", "a.b-c_d", "messages", " ", "ä"])
def test_a_send_gets_its_topic_as_it_stands_in_the_path(topic: str) -> None:
    assert _asked("POST", f"/v1/topics/{topic}/messages") == topic


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/topics/orders/messages"),
        ("POST", "/v1/topics/orders/messages/"),
        ("POST", "/v1/topics//messages"),
        ("POST", "/v1/topics/messages"),
        ("POST", "/v1/topics/a/b/messages"),
        ("POST", "/v1/topics/orders/messages:cancel"),
        ("POST", "/v1/messages"),
    ],
)
def test_everything_else_is_the_routers(method: str, path: str) -> None:
    assert _asked(method, path) == "router"
