"""Who changed what: lines of JSON about each request that cancels, reschedules, controls or makes and deletes topics.

An act is written down twice: `asked` before it is tried, and `answered` with the status and the body. An act whose
first line cannot be stored everywhere is refused (503), as Vault refuses without an audit device. So every act that
was carried out is written down, also where the process died in it. Sends are left out: they are in the topic. What
was done elsewhere and is noticed here, such as keys in their file, is one line, `noticed`.

Page: docs/formats/operators.md.
"""

import itertools
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter
from starlette.requests import Request
from starlette.types import Scope

from api.bridge import Bridge
from api.http.act_stores import ActStore
from api.http.answers import BODY
from api.http.caller import CALLER
from api.http.problems import NOT_READY, Refusal, refusal_of
from delayline.access.acts import Act
from delayline.clock import Clock
from delayline.times import format_moment

_log = structlog.get_logger("access")

LOGGED = frozenset({Act.CANCEL, Act.RESCHEDULE, Act.CONTROL, Act.TOPICS})
BODY_BYTES_MAX = 4096
"""Of a body that are written down: a filter, a time, the ids of letters. No message is among them."""

STORED_S = 10.0
"""How long a line may take; behind that it counts as not stored."""

ACT_LOG = "delayline.act_log"
"""Where a request's scope has it."""

_TOPIC = "delayline.act_topic"
"""Where it has the topic that its body names."""


def about_topic(request: Request, topic: str) -> None:
    """Note which topic a request is about whose path names none."""
    request.scope[_TOPIC] = topic


class Answered:
    """How an act ends; `status` is set where it is carried out."""

    status = 500


class ActLog:
    """Writes each line into every store. For the event loop's thread, but for `notice`."""

    def __init__(self, stores: Sequence[ActStore], clock: Clock, registry: CollectorRegistry) -> None:
        self._stores = stores
        self._clock = clock
        self._bridge = Bridge()
        self._run = secrets.token_hex(6)
        self._numbers = itertools.count(1)
        self._unwritten = Counter(
            "delayline_access_acts_unwritten", "Lines that a log of acts could not take", registry=registry
        )

    @asynccontextmanager
    async def logging(self, scope: Scope, endpoint_id: str, topic: str | None) -> AsyncIterator[Answered]:
        """Around an act. Raises Refusal: 401 where the caller is unknown, 503 where the first line cannot be
        stored."""
        about = {"act": self._act(), **_about(scope, endpoint_id)}
        asked = await self._store(self._stores, {"event": "asked", **about, "topic": topic})
        answered = Answered()
        try:
            if len(asked) < len(self._stores):
                raise Refusal(NOT_READY, "who did what cannot be written down, so nothing is done")
            yield answered
        except BaseException as error:
            answered.status = refusal_of(error).status if isinstance(error, Exception) else 503
            raise
        finally:
            body = scope.get(BODY, b"")[:BODY_BYTES_MAX].decode(errors="replace")
            ending = {"topic": scope.get(_TOPIC, topic), "body": body, "status": answered.status}
            await self._store(asked, {"event": "answered", **about, **ending})

    def _act(self) -> str:
        return f"{self._run}-{next(self._numbers):x}"

    async def _store(self, stores: Sequence[ActStore], line: Mapping[str, Any]) -> list[ActStore]:
        """The stores that have taken it, side by side."""
        data, principal = self._encoded(line), line["principal"]
        under_way = [(store, store.append(principal, data)) for store in stores]
        taken = []
        for store, future in under_way:
            try:
                await self._bridge.result(future, STORED_S)
                taken.append(store)
            except Exception as error:  # noqa: BLE001 - whatever it is, the line may not be there
                self._failed(store, error)
        return taken

    def notice(self, **line: str | None) -> bool:
        """Write down something that others have done already, and whether every store has taken it. Blocks; for any
        thread but the event loop's."""
        data = self._encoded({"event": "noticed", "act": self._act(), "principal": None, **line})
        is_stored = True
        for store in self._stores:
            try:
                store.append("", data).result(STORED_S)
            except Exception as error:  # noqa: BLE001 - as above
                is_stored = False
                self._failed(store, error)
        return is_stored

    def _encoded(self, line: Mapping[str, Any]) -> bytes:
        return msgspec.json.encode({"at": format_moment(self._clock.now_ms()), **line})

    def _failed(self, store: ActStore, error: Exception) -> None:
        self._unwritten.inc()
        _log.error("a log of acts cannot be written", log=store.name, error=str(error) or type(error).__name__)


def _about(scope: Scope, endpoint_id: str) -> Mapping[str, Any]:
    return {
        "principal": scope[CALLER].principal,
        "operation": endpoint_id,
        "path": scope["raw_path"].decode("latin-1"),
        "query": scope["query_string"].decode("latin-1"),
        "address": scope["delayline.address"],
        "request_id": scope["delayline.request_id"],
    }
