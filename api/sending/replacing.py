"""Sends that end another message: acts, unlike other sends."""

from collections.abc import Awaitable, Callable, Iterable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.http.act_log import ACT_LOG, ActLog
from api.http.endpoint import Endpoint
from api.sending.drafts import Draft


class Replacing(msgspec.Struct, frozen=True):
    """What is written down of such a send: of its message nothing but the own id."""

    own_ids: list[str | None]
    on_conflict: str = "replace"


async def written_down(
    request: Request,
    endpoint: Endpoint,
    topic: str,
    drafts: Iterable[Draft],
    store: Callable[[], Awaitable[Response]],
) -> Response:
    """The answer of `store`, written down where one of the drafts may end another message. Raises Refusal (503) where
    that cannot be written down; nothing is stored then."""
    own_ids = [draft.own_id for draft in drafts if draft.replaces]
    log: ActLog | None = request.scope.get(ACT_LOG)
    if not own_ids or log is None:
        return await store()
    async with log.logging(request.scope, endpoint, topic) as act:
        await act.begin(Replacing(own_ids))
        response = await store()
        act.status = response.status_code
    return response
