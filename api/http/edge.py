"""The outermost layer: every HTTP request passes it once on its way in and once on its way out.

It gives the request an id and a ticket (`InFlight`), finds its caller (`Callers`), refuses what another site's page
may have made a browser ask (`Hosts`) and request headers where their promise is not kept, and turns every exception
into a problem. Routes raise; no other layer catches.
"""

import asyncio
import itertools
import re
import secrets
from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.act_log import ACT_LOG, ActLog
from api.http.answers import EDGE_HEADERS
from api.http.caller import CALLER, Callers
from api.http.hosts import Hosts
from api.http.in_flight import InFlight
from api.http.metering import LEDGER
from api.http.problems import INVALID_REQUEST, NOT_SUPPORTED, Problems, Refusal
from delayline.access.ledger import Ledger
from delayline.http.places import address_key
from mq.errors import QueueUnavailable

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_CONDITIONAL = re.compile(r"(PATCH|DELETE) /v1/(messages/[^/]+|topics/[^/]+/own/.+)|POST /v1/messages/[^/]+:deliver")
_SENDING = re.compile(r"POST /v1/topics/[^/]+/messages")
_TAKEN = {b"idempotency-key": _SENDING, b"if-match": _CONDITIONAL}
"""Request headers that promise something, and where the promise is kept."""
_ONCE = frozenset(
    {b"idempotency-key", b"if-match", b"content-type", b"origin", b"authorization", b"cookie", b"x-csrf-token"}
)
"""Given twice, only one of the values would count, and the client could not know which."""
_ALWAYS_ANSWERED = frozenset({"/healthz", "/readyz", "/metrics"})
"""An overloaded server is still alive, and answers so."""
_UNSEEN = frozenset({"/healthz", "/readyz"})
"""They reveal nothing that is worth a trick, and probes call them by any name."""
_ANSWERS = ((b"x-content-type-options", b"nosniff"), (b"cross-origin-resource-policy", b"same-origin"))
"""With every answer: what messages hold is never taken for a script, nor loaded into a page of another site."""

_PRIVATE = ((b"cache-control", b"private"),)
"""With answers to a cookie: a cache that clients share keeps none of them, as none to a key (RFC 9111, 3.5)."""


STOPPING = "the server is stopping: it is unknown whether the request was carried out"


class Edge:
    """ASGI middleware; puts `delayline.headers` (a dict), `.address`, `.request_id`, `.ticket` and `.caller` into the
    scope."""

    def __init__(
        self,
        app: ASGIApp,
        problems: Problems,
        in_flight: InFlight,
        hosts: Hosts,
        callers: Callers,
        act_log: ActLog | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """`ledger` has what principals may use; None without quotas."""
        self.app = app
        self._ledger = ledger
        self._act_log = act_log
        self._callers = callers
        self._hosts = hosts
        self._problems = problems
        self._in_flight = in_flight
        self._run = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = scope["delayline.headers"] = dict(scope["headers"])
        request_id = self._request_id(headers.get(b"x-request-id"))
        scope["delayline.request_id"] = request_id
        client = scope.get("client")
        scope["delayline.address"] = address_key(client[0] if client else None)
        more = _PRIVATE if b"cookie" in headers else ()
        added = scope[EDGE_HEADERS] = ((b"x-request-id", request_id.encode()), *_ANSWERS, *more)
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], *added]
            await send(message)

        try:
            await self._admitted(scope, receive, send_with_id)
        except asyncio.CancelledError:  # uvicorn's, once requests under way have had their time
            if not started:
                await self._problems.answer(scope, QueueUnavailable(STOPPING))(scope, receive, send_with_id)
        except Exception as error:
            answer = self._problems.answer(scope, error)
            if started:  # too late for an answer: the broken connection is one
                raise
            await answer(scope, receive, send_with_id)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in _UNSEEN:
            await self.app(scope, receive, send)
            return
        self._hosts.check(scope)
        headers = scope["delayline.headers"]
        if len(headers) < len(scope["headers"]):
            _refuse_twice(scope)
        if scope["path"] in _ALWAYS_ANSWERED:
            scope[CALLER] = await self._callers.caller(scope)
            await self.app(scope, receive, send)
            return
        for name, where in _TAKEN.items() if not _TAKEN.keys().isdisjoint(headers) else ():
            if name in headers and not where.fullmatch(f"{scope['method']} {scope['path']}"):
                raise Refusal(NOT_SUPPORTED, f"the request header {name.decode().title()} means nothing here")
        ticket = scope["delayline.ticket"] = self._in_flight.enter(scope["delayline.address"])
        try:
            scope[CALLER] = await self._callers.caller(scope)
            scope[ACT_LOG] = self._act_log
            scope[LEDGER] = self._ledger
            await self.app(scope, receive, send)
        finally:
            ticket.release()

    def _request_id(self, given: bytes | None) -> str:
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return f"{self._run}-{next(self._numbers):x}"


def _refuse_twice(scope: Scope) -> None:
    """Raises Refusal."""
    counts = Counter(name for name, _ in scope["headers"] if name in _ONCE)
    for name, times in counts.items():
        if times > 1:
            raise Refusal(INVALID_REQUEST, f"the request header {name.decode().title()} is given {times} times")
