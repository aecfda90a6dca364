"""Who changed what: lines of JSON about each request that cancels, reschedules, controls or makes and deletes topics,
and about sends that replace another message.

An act is written down twice: `asked` before it is tried, and `answered` with the status. An act whose first line
cannot be stored everywhere is refused (503), as Vault refuses without an audit device. So every act that was carried
out is written down, also where the process died in it. What no rule allows (403) is one line, `refused`, and what is
refused for another reason before it is tried is none. Other sends are left out: they are in the topic. What was done
elsewhere and is noticed here, such as keys in their file, is one line, `noticed`.

Page: docs/formats/operators.md.
"""

import itertools
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter
from starlette.requests import Request
from starlette.types import Scope

from api.bridge import Bridge
from api.http.act_stores import ActStore
from api.http.answers import BODY
from api.http.caller import CALLER
from api.http.endpoint import Endpoint
from api.http.problems import NOT_READY, Refusal, refusal_of
from api.http.refused_acts import RefusedActs
from api.http.requests import QUERY_BYTES_MAX
from delayline.access.acts import Act
from delayline.clock import Clock
from delayline.names import is_topic_name
from delayline.process.printable import cut, printable_json
from delayline.times import format_moment

_log = structlog.get_logger("access")

LOGGED = frozenset({Act.CANCEL, Act.RESCHEDULE, Act.CONTROL, Act.TOPICS})
BODY_CHARS_MAX = 4096
"""Of what a body asks for: a filter, a time, the ids of letters. No message is among it."""

FIELD_CHARS_MAX = 300
"""Of each other text that a client chooses: longer than a topic's name."""

STORED_S = 10.0
"""How long a line may take; behind that it counts as not stored."""

ACT_LOG = "delayline.act_log"
"""Where a request's scope has it."""

_ACT = "delayline.act"
"""Where it has the act that the request is."""


async def begin_act(request: Request, asked: msgspec.Struct) -> None:
    """Write down what the body asks for, before anything is done. Raises Refusal (503)."""
    act: ActUnderWay | None = request.scope.get(_ACT)
    if act is not None:
        raw = request.scope[BODY]
        await act.begin(asked, {"body_bytes": len(raw), "body_sha256": sha256(raw).hexdigest()})


def about_topic(request: Request, topic: str) -> None:
    """Note which topic a request is about whose path names none."""
    act: ActUnderWay | None = request.scope.get(_ACT)
    if act is not None:
        act.about["topic"] = _topic(topic)


class ActUnderWay:
    """The act of one request. `status` is set where it is carried out."""

    status = 500

    def __init__(self, log: "ActLog", about: dict[str, Any]) -> None:
        """`about` are fields of all of its lines."""
        self.about = about
        self.taken: Sequence[ActStore] | None = None  # those that have its first line; None before `begin`
        self._log = log

    async def begin(self, asked: msgspec.Struct | None = None, more: Mapping[str, Any] | None = None) -> None:
        """Write down that it is asked for. Raises Refusal (503) where that cannot be stored everywhere."""
        body = "" if asked is None else cut(msgspec.json.encode(asked).decode(), BODY_CHARS_MAX)
        self.about |= {"body": body, **(more or {})}
        await self._log.begin(self)


class ActLog:
    """Writes each line into every store. For the event loop's thread, but for `notice`."""

    def __init__(self, stores: Sequence[ActStore], clock: Clock, registry: CollectorRegistry) -> None:
        self._stores = stores
        self._clock = clock
        self._bridge = Bridge()
        self._run = secrets.token_hex(6)
        self._numbers = itertools.count(1)
        self._refused = RefusedActs(clock, registry)
        self._unwritten = Counter(
            "delayline_access_acts_unwritten", "Lines that a log of acts could not take", registry=registry
        )

    @asynccontextmanager
    async def logging(self, scope: Scope, endpoint: Endpoint, topic: str | None) -> AsyncIterator[ActUnderWay]:
        """Around a request, which begins the act before it does anything. Raises Refusal (401) where the caller is
        unknown."""
        act = scope[_ACT] = ActUnderWay(self, _about(scope, endpoint, topic))
        try:
            yield act
        except BaseException as error:
            act.status = refusal_of(error).status if isinstance(error, Exception) else 503
            if act.taken is None and act.status == 403:
                await self._refuse(act)
            raise
        finally:
            if act.taken is not None:
                await self._store(act.taken, {"event": "answered", **act.about, "status": act.status})

    async def begin(self, act: ActUnderWay) -> None:
        act.about = {"act": self._next(), **act.about}
        act.taken = await self._store(self._stores, {"event": "asked", **act.about})
        if len(act.taken) < len(self._stores):
            raise Refusal(NOT_READY, "who did what cannot be written down, so nothing is done")

    async def _refuse(self, act: ActUnderWay) -> None:
        left_out = self._refused.left_out(act.about["principal"])
        if left_out is not None:
            line = {"event": "refused", "act": self._next(), **act.about, "status": act.status, "left_out": left_out}
            await self._store(self._stores, line)

    def _next(self) -> str:
        """Numbers have no gaps but for lines that could not be written."""
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
        data = self._encoded({"event": "noticed", "act": self._next(), "principal": None, **line})
        is_stored = True
        for store in self._stores:
            try:
                store.append("", data).result(STORED_S)
            except Exception as error:  # noqa: BLE001 - as above
                is_stored = False
                self._failed(store, error)
        return is_stored

    def _encoded(self, line: Mapping[str, Any]) -> bytes:
        """Printable: people look at the file with tools that know no JSON."""
        text = msgspec.json.encode({"at": format_moment(self._clock.now_ms()), **line}).decode()
        return printable_json(text).encode()

    def _failed(self, store: ActStore, error: Exception) -> None:
        self._unwritten.inc()
        _log.error("a log of acts cannot be written", log=store.name, error=str(error) or type(error).__name__)


def _about(scope: Scope, endpoint: Endpoint, topic: str | None) -> dict[str, Any]:
    return {
        "principal": scope[CALLER].principal,
        "operation": endpoint.id,
        "path": cut(scope["raw_path"].decode("latin-1"), FIELD_CHARS_MAX),
        "query": cut(_known_query(scope["query_string"], endpoint), FIELD_CHARS_MAX),
        "address": cut(scope["delayline.address"], FIELD_CHARS_MAX),
        "request_id": scope["delayline.request_id"],
        "topic": _topic(topic),
    }


def _known_query(query: bytes, endpoint: Endpoint) -> str:
    """What means something to the endpoint. More than a query may have is refused, or was."""
    known = {one.name for one in endpoint.query}
    pairs = parse_qsl(query[:QUERY_BYTES_MAX].decode("latin-1"), keep_blank_values=True)
    return urlencode([(name, value) for name, value in pairs if name in known])


def _topic(name: str | None) -> str | None:
    return name if name is not None and is_topic_name(name) else None
