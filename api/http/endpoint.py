"""What a route takes and answers: declared once, beside the route, and read by the route and by the OpenAPI document.

Endpoint        one method of one path; its path parameters are in the path (`PATH_PARAMETERS`)
Choice ...      a query parameter: `of` reads it, None where it is not given; `default` is what that means
RequestHeader   a request header that means something to this endpoint
Reply           an answer that is no problem: its status, its bodies, its headers
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from api.http.caller import Open
from api.http.requests import Query
from delayline.access.acts import Act

Schema = dict[str, Any]

_NUMBER = re.compile(r"[0-9]{1,9}")
WHOLE_NUMBER: Schema = {"type": "integer", "minimum": 0}
MOMENT: Schema = {"anyOf": [{"type": "string", "format": "date-time"}, WHOLE_NUMBER]}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of `choices`."""

    name: str
    meaning: str
    choices: Sequence[str]
    default: str | None = None
    example: None = None

    def of(self, query: Query) -> str | None:
        """Raises Refusal."""
        return query.choice(self.name, *self.choices)

    @property
    def schema(self) -> Schema:
        return _with_default({"type": "string", "enum": list(self.choices)}, self.default)


@dataclass(frozen=True, slots=True)
class Number:
    """A decimal from `least` to `largest`."""

    name: str
    meaning: str
    largest: int
    least: int = 0
    default: int | None = None
    example: None = None

    def of(self, query: Query) -> int | None:
        """Raises Refusal."""
        return query.number(self.name, self.largest, self.least)

    @property
    def schema(self) -> Schema:
        return _with_default({"type": "integer", "minimum": self.least, "maximum": self.largest}, self.default)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition by its number, or by its name as answers have it."""

    name: str
    meaning: str
    example: None = None

    def of(self, query: Query) -> int | str | None:
        text = query.text(self.name)
        return int(text) if text is not None and _NUMBER.fullmatch(text) else text

    @property
    def schema(self) -> Schema:
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class Text:
    """A text, which the route reads further; `pattern` is what it must match there."""

    name: str
    meaning: str
    default: str | None = None
    example: str | None = None
    pattern: str | None = None

    def of(self, query: Query) -> str | None:
        return query.text(self.name)

    @property
    def schema(self) -> Schema:
        pattern = {} if self.pattern is None else {"pattern": self.pattern}
        return _with_default({"type": "string", **pattern}, self.default)


@dataclass(frozen=True, slots=True)
class Moment:
    """RFC 3339 with an offset, or epoch milliseconds."""

    name: str
    meaning: str
    example: None = None

    def of(self, query: Query) -> int | None:
        """Epoch milliseconds. Raises Refusal."""
        return query.moment_ms(self.name)

    @property
    def schema(self) -> Schema:
        return MOMENT


QueryParameter = Choice | Number | Partition | Text | Moment


def query_of(request: Request, parameters: Sequence[QueryParameter]) -> Query:
    """The request's query, in which these and no others may stand. Raises Refusal."""
    return Query(request, *(one.name for one in parameters))


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """A request header."""

    name: str
    meaning: str
    length_max: int | None = None
    required: bool = False

    @property
    def schema(self) -> Schema:
        return {"type": "string"} if self.length_max is None else {"type": "string", "maxLength": self.length_max}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is no problem. `bodies` are structs, any one of which may come as JSON; `texts` are media types
    of bodies that are text; `headers` are names in `RESPONSE_HEADERS`."""

    status: int
    meaning: str
    bodies: Sequence[type] = ()
    headers: Sequence[str] = ()
    texts: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`act` is what its caller must have a right to, for the topic in its path; where the topics are elsewhere
    (`checks_topics`) the route checks them itself. `takes` are the structs that a JSON body may be; `refuses` are
    the statuses of problems that are the operation's own: any path may answer others (`default` in the document)."""

    id: str
    summary: str
    act: Act | Open
    checks_topics: bool = False
    replies: Sequence[Reply]
    refuses: Sequence[int] = ()
    takes: Sequence[type] = ()
    query: Sequence[QueryParameter] = ()
    headers: Sequence[RequestHeader] = ()

    @property
    def counts(self) -> bool:
        """Whether a request counts for the quota of its caller. Metrics do not: who watches must not go blind."""
        return self.act not in (Open.TO_ALL, Act.METRICS)


PATH_PARAMETERS = {
    "topic": Text("topic", "The topic's name", example="orders", pattern="^[a-zA-Z0-9._-]{1,249}$"),
    "partition": Text("partition", "The partition", example="0"),
    "message_id": Text(
        "message_id",
        "`<topic>.<partition>.<offset>.<due ms>`, as the send answered",
        example="orders.3.1041.1767225630000",
    ),
    "own_id": Text("own_id", "The id that the sender gave it", example="order-7"),
}

ETAG, LOCATION, REPLAYED, APPLIED = "ETag", "Location", "Idempotency-Replayed", "Preference-Applied"
RETRY_AFTER, SET_COOKIE = "Retry-After", "Set-Cookie"

ACT = RequestHeader("Delayline-Request", "Any value: no form can send it, and there is no body", required=True)

VIEW = Choice("view", "`full` adds key, value and headers while the message waits", ("basic", "full"), "basic")
WAIT = Text("wait", "How long to wait until it is decided", default="10s")
CONDITIONS = (
    RequestHeader("If-Match", 'Only where the message has this version: `"0"`, or `*` for any'),
    RequestHeader("Prefer", "`respond-async`: do not wait until it is decided; `wait=3`: 3 s"),
)


def _with_default(schema: Schema, default: object) -> Schema:
    return schema if default is None else {**schema, "default": default}
