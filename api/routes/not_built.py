"""What the API will have and does not have yet: answered with 501, never with a silence that looks like success."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.problems import NOT_SUPPORTED, Refusal

_ENDPOINTS = (
    ("POST", "/v1/topics/{topic}:pause"),
    ("POST", "/v1/topics/{topic}:resume"),
    ("POST", "/v1/topics/{topic}:purge"),
)


def register(router: APIRouter) -> None:
    """One route per endpoint; none stands in the OpenAPI document."""
    for method, path in _ENDPOINTS:
        router.add_api_route(path, _refuse, methods=[method], include_in_schema=False, response_model=None)


async def _refuse(request: Request) -> Response:
    raise Refusal(NOT_SUPPORTED, f"{request.method} on this path is not built yet", status=501)
