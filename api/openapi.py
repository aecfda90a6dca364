"""The OpenAPI document: operations with examples here, schemas from `api.schemas`, paths from the routes."""

from collections.abc import Iterable
from typing import Any

import msgspec
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from api import schemas
from api.problems import Problem

DESCRIPTION = (
    "Send messages with a delay and ask what has become of them. Times come in as RFC 3339 with an offset or as "
    "epoch milliseconds, and go out as RFC 3339 in UTC. 201 means durable, 202 does not. Unknown fields and "
    "parameters are errors; everything that goes wrong is a problem document (RFC 9457)."
)

_REF = "#/components/schemas/{name}"
_DOCUMENTED = (
    schemas.MessageIn,
    schemas.BatchIn,
    schemas.PreviewIn,
    schemas.PatchIn,
    schemas.CancelIn,
    schemas.CancelOut,
    schemas.SentMessage,
    schemas.UnconfirmedMessage,
    schemas.BatchAnswer,
    schemas.MessageOut,
    schemas.OperationOut,
    schemas.RecordsPage,
    schemas.MessagesPage,
    schemas.HistogramOut,
    schemas.TopicsOut,
    schemas.TopicView,
    schemas.RedriveIn,
    schemas.DeadPage,
    schemas.RedriveOut,
    schemas.PreviewOut,
    schemas.InfoOut,
    schemas.HealthOut,
    Problem,
)


def document(version: str, routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the routes that were registered with an operation. FastAPI's own generator looks
    for pydantic models, of which there are none here. HEAD is left out: it is GET without the body (RFC 9110)."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            methods = (route.methods or set()) - {"HEAD"}
            paths.setdefault(route.path_format, {}).update(
                {method.lower(): route.openapi_extra for method in methods}
            )
    _, components = msgspec.json.schema_components(_DOCUMENTED, ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Delayline", "version": version, "description": DESCRIPTION},
        "paths": paths,
        "components": {"schemas": components},
    }


def _ref(struct: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=struct.__name__)}


def _json(description: str, struct: type, **rest: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _ref(struct)}}, **rest}


def _problems(*statuses: int) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": _ref(Problem)}}
    meanings = {
        400: "Invalid, or not built yet: see `type` and `errors`",
        403: "Not for clients",
        404: "No such thing",
        409: "It has ended: see `outcome`; several messages have this own id; a request with this key is in flight",
        410: "It has ended, and how is not kept any more",
        412: "It has another version than `If-Match` says",
        413: "Too large",
        415: "Not JSON",
        422: "Another request was accepted with this `Idempotency-Key`",
        429: "As many messages wait for the topic as its rule allows; see `Retry-After`",
        503: "Not now; see `Retry-After`. A send was not stored, or it is unknown whether",
    }
    return {str(status): {"description": meanings[status], "content": content} for status in statuses}


def _parameter(
    name: str, where: str, description: str, schema: dict[str, Any], example: Any = None
) -> dict[str, Any]:
    parameter = {"name": name, "in": where, "required": where == "path", "description": description, "schema": schema}
    return parameter if example is None else {**parameter, "example": example}


_TOPIC = _parameter(
    "topic", "path", "The topic's name", {"type": "string", "pattern": "^[a-zA-Z0-9._-]{1,249}$"}, "orders"
)

_ETAG = {"ETag": {"description": "The message's version", "schema": {"type": "string"}, "example": '"0"'}}
_LOCATION = {"Location": {"description": "Where to ask about the message", "schema": {"type": "string"}}}

_REPLAYED = {"Idempotency-Replayed": {"description": "`true`: answered before", "schema": {"type": "string"}}}

_SEND_EXAMPLES = {
    "now": {"summary": "Straight to the topic", "value": {"value": "hello"}},
    "delay": {"summary": "In half a minute", "value": {"value": {"order": 7}, "schedule": {"delay": "30s"}}},
    "keyed": {
        "summary": "With a key and a header",
        "value": {
            "key": "7",
            "value": {"order": 7},
            "headers": [{"name": "src", "value": "web"}],
            "schedule": {"delay_ms": 30_000},
        },
    },
    "moment": {
        "summary": "At a moment",
        "value": {"value": "happy new year", "schedule": {"deliver_at": "2030-01-01T00:00:00+01:00"}},
    },
    "own id": {
        "summary": "With an id of the sender's own",
        "value": {"value": {"order": 7}, "schedule": {"delay": "30s", "own_id": "order-7", "ttl": "1h"}},
    },
    "level": {"summary": "RocketMQ level 3 (10 s)", "value": {"value": "retry me", "schedule": {"level": 3}}},
    "every": {
        "summary": "Three times, a minute apart",
        "value": {"value": "are you there?", "schedule": {"every": "1m", "times": 3}},
    },
    "bytes": {
        "summary": "Any bytes, to a partition",
        "value": {"value_base64": "AP8=", "partition": 0, "schedule": {"delay": "PT1H"}},
    },
    "batch": {
        "summary": "Several, all or none",
        "value": {"atomic": True, "messages": [{"value": 1}, {"value": 2, "schedule": {"delay": "5s"}}]},
    },
    "loose batch": {
        "summary": "Several, each for itself",
        "value": {"atomic": False, "messages": [{"value": 1}, {"value": 2, "schedule": {"delay": "soon"}}]},
    },
}

SEND = {
    "operationId": "sendMessages",
    "summary": "Send a message or a batch, now or later",
    "parameters": [
        _TOPIC,
        _parameter(
            "mode",
            "query",
            "`sync` waits until the messages are durable; `async` and `oneway` do not; `oneway` answers without body",
            {"type": "string", "enum": ["sync", "async", "oneway"], "default": "sync"},
        ),
        _parameter(
            "Idempotency-Key",
            "header",
            "The sender's name for this very request: sent again, it is answered as the first time. For one message "
            "with a delay",
            {"type": "string", "maxLength": 255},
        ),
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"anyOf": [_ref(schemas.MessageIn), _ref(schemas.BatchIn)]},
                "examples": _SEND_EXAMPLES,
            }
        },
    },
    "responses": {
        "200": _json("A batch with `atomic: false`: see each result", schemas.BatchAnswer),
        "201": {
            "description": "Durable",
            "headers": _LOCATION | _ETAG | _REPLAYED,
            "content": {
                "application/json": {"schema": {"anyOf": [_ref(schemas.SentMessage), _ref(schemas.BatchAnswer)]}}
            },
        },
        "202": {
            "description": "Handed over, not durable yet",
            "content": {
                "application/json": {
                    "schema": {"anyOf": [_ref(schemas.UnconfirmedMessage), _ref(schemas.BatchAnswer)]}
                }
            },
        },
        **_problems(400, 403, 404, 409, 413, 415, 422, 429, 503),
    },
}

PREVIEW = {
    "operationId": "previewSchedule",
    "summary": "What a schedule would mean now",
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": _ref(schemas.PreviewIn),
                "examples": {
                    "delay": {"summary": "A duration", "value": {"schedule": {"delay": "1h30m"}}},
                    "cron": {
                        "summary": "Working days at nine in Berlin",
                        "value": {"schedule": {"cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin"}, "count": 10},
                    },
                },
            }
        },
    },
    "responses": {"200": _json("When it would be due", schemas.PreviewOut), **_problems(400, 413, 415, 503)},
}

_MESSAGE_ID = _parameter(
    "message_id",
    "path",
    "`<topic>.<partition>.<offset>.<due ms>`, as the send answered",
    {"type": "string"},
    "orders.3.1041.1767225630000",
)

_WISHES = [
    _parameter(
        "If-Match", "header", 'Only where the message has this version: `"0"`, or `*` for any', {"type": "string"}
    ),
    _parameter(
        "Prefer", "header", "`respond-async`: do not wait until it is decided; `wait=3`: 3 s", {"type": "string"}
    ),
    _parameter("wait", "query", "How long to wait until it is decided", {"type": "string", "default": "10s"}),
]

_ACCEPTED = {
    "202": _json(
        "Stored, and not decided yet: ask for it",
        schemas.OperationOut,
        headers={"Location": {"description": "Where to ask", "schema": {"type": "string"}}},
    ),
    **_problems(400, 404, 409, 410, 412, 503),
}

CANCEL = {
    "operationId": "cancelMessage",
    "summary": "Cancel a message that waits: it will never be delivered",
    "parameters": [_MESSAGE_ID, *_WISHES],
    "responses": {"204": {"description": "It is cancelled"}, **_ACCEPTED},
}

RESCHEDULE = {
    "operationId": "rescheduleMessage",
    "summary": "Deliver a message that waits at another time",
    "parameters": [_MESSAGE_ID, *_WISHES],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": _ref(schemas.PatchIn),
                "examples": {"later": {"summary": "In an hour from now", "value": {"schedule": {"delay": "1h"}}}},
            }
        },
    },
    "responses": {
        "200": _json("The message, with its new time", schemas.MessageOut, headers=_ETAG),
        **_ACCEPTED,
        **_problems(413, 415),
    },
}

DELIVER = {
    "operationId": "deliverMessage",
    "summary": "Deliver a message that waits now",
    "parameters": [_MESSAGE_ID, *_WISHES],
    "responses": {"204": {"description": "It is due now"}, **_ACCEPTED},
}

_VIEW = _parameter(
    "view",
    "query",
    "`full` adds key, value and headers while the message waits",
    {"type": "string", "enum": ["basic", "full"], "default": "basic"},
)

GET_MESSAGE = {
    "operationId": "getMessage",
    "summary": "What has become of a message, or of an operation",
    "parameters": [_MESSAGE_ID, _VIEW],
    "responses": {
        "200": {
            "description": "The message, or the operation",
            "headers": _ETAG,
            "content": {
                "application/json": {"schema": {"anyOf": [_ref(schemas.MessageOut), _ref(schemas.OperationOut)]}}
            },
        },
        **_problems(400, 404, 410, 503),
    },
}

_OWN_ID = _parameter("own_id", "path", "The id that the sender gave it", {"type": "string"}, "order-7")

GET_OWN = {
    "operationId": "getOwn",
    "summary": "A message that waits, by its own id",
    "parameters": [_TOPIC, _OWN_ID, _VIEW],
    "responses": {
        "200": _json("The message", schemas.MessageOut, headers=_ETAG),
        **_problems(400, 404, 409, 410, 503),
    },
}

RESCHEDULE_OWN = {**RESCHEDULE, "operationId": "rescheduleOwn", "parameters": [_TOPIC, _OWN_ID, *_WISHES]}

CANCEL_OWN = {**CANCEL, "operationId": "cancelOwn", "parameters": [_TOPIC, _OWN_ID, *_WISHES]}

_WHOLE_NUMBER = {"type": "integer", "minimum": 0}

READ_RECORDS = {
    "operationId": "readRecords",
    "summary": "What stands in a topic, as a page or as a stream",
    "parameters": [
        _TOPIC,
        _parameter("partition", "query", "Only this partition", _WHOLE_NUMBER),
        _parameter("offset", "query", "From this offset on, instead of the newest; needs `partition`", _WHOLE_NUMBER),
        _parameter(
            "limit",
            "query",
            "At most so many records",
            {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100},
        ),
        _parameter(
            "follow",
            "query",
            "`sse`: the page, then everything that comes, as server-sent events; `Last-Event-ID` resumes",
            {"type": "string", "enum": ["sse"]},
        ),
    ],
    "responses": {
        "200": {
            "description": "Records, oldest first",
            "content": {
                "application/json": {"schema": _ref(schemas.RecordsPage)},
                "text/event-stream": {"schema": {"type": "string"}},
            },
        },
        **_problems(400, 404, 503),
    },
}

_MOMENT = {"anyOf": [{"type": "string", "format": "date-time"}, _WHOLE_NUMBER]}

LIST_MESSAGES = {
    "operationId": "listMessages",
    "summary": "Messages that wait, by due time, or that have ended lately, newest first",
    "parameters": [
        _parameter("topic", "query", "Only this topic", _TOPIC["schema"]),
        _parameter("key", "query", "Only messages with this key", {"type": "string"}),
        _parameter(
            "own_id", "query", "Only the messages with this own id: one per shard at most", {"type": "string"}
        ),
        _parameter(
            "state",
            "query",
            "What waits, or what has ended so, as far as it is remembered",
            {
                "type": "string",
                "enum": ["pending", "delivered", "cancelled", "expired", "dead", "duplicate"],
                "default": "pending",
            },
        ),
        _parameter("due_after", "query", "Due at this moment or later", _MOMENT),
        _parameter("due_before", "query", "Due before this moment", _MOMENT),
        _parameter("page_size", "query", "Rows", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
        _parameter("page_token", "query", "`next_page_token` of the page before", {"type": "string"}),
    ],
    "responses": {"200": _json("A page", schemas.MessagesPage), **_problems(400, 404, 503)},
}

HISTOGRAM = {
    "operationId": "countDue",
    "summary": "How many messages are due when",
    "parameters": [
        _TOPIC,
        _parameter("from", "query", "Else now", _MOMENT),
        _parameter("to", "query", "Else 60 buckets later", _MOMENT),
        _parameter(
            "bucket", "query", "Whole minutes, beyond a day whole days", {"type": "string", "default": "1m"}, "1h"
        ),
    ],
    "responses": {"200": _json("Counts", schemas.HistogramOut), **_problems(400, 404, 503)},
}

_REDRIVE_SOME = {"ids": ["0.17", "2.3"], "schedule": {"delay": "1m"}}

CANCEL_MANY = {
    "operationId": "cancelMessages",
    "summary": "Cancel every message of a topic that a filter matches, or count them",
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": _ref(schemas.CancelIn),
                "examples": {
                    "count": {"summary": "How many", "value": {"filter": {"topic": "orders"}, "dry_run": True}},
                    "cancel": {
                        "summary": "Those of one key that are due this year",
                        "value": {"filter": {"topic": "orders", "key": "7", "due_before": "2027-01-01T00:00:00Z"}},
                    },
                },
            }
        },
    },
    "responses": {"200": _json("What came of it", schemas.CancelOut), **_problems(400, 404, 413, 415, 503)},
}

LIST_TOPICS = {
    "operationId": "listTopics",
    "summary": "The topics that users can send to, and how they stand",
    "responses": {"200": _json("By name", schemas.TopicsOut), **_problems(400, 503)},
}

GET_TOPIC = {
    "operationId": "getTopic",
    "summary": "How a topic and each of its shards stand",
    "parameters": [_TOPIC],
    "responses": {"200": _json("The topic", schemas.TopicView), **_problems(400, 404, 503)},
}

LIST_DEAD = {
    "operationId": "listDeadLetters",
    "summary": "Messages of a topic that could not be delivered, newest first",
    "parameters": [
        _TOPIC,
        _parameter("limit", "query", "Rows", {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100}),
        _parameter("before", "query", "`next_before` of the page before", {"type": "string"}),
    ],
    "responses": {"200": _json("A page", schemas.DeadPage), **_problems(400, 404, 503)},
}

REDRIVE = {
    "operationId": "redriveDeadLetters",
    "summary": "Send dead letters to their topic again, at least once",
    "parameters": [_TOPIC],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": _ref(schemas.RedriveIn),
                "examples": {
                    "some": {"summary": "Two of them, in a minute", "value": _REDRIVE_SOME},
                    "all": {"summary": "How many there are", "value": {"all": True, "dry_run": True}},
                },
            }
        },
    },
    "responses": {"200": _json("What was done", schemas.RedriveOut), **_problems(400, 403, 404, 413, 415, 503)},
}

INFO = {
    "operationId": "getInfo",
    "summary": "What this installation is, and its limits",
    "responses": {"200": _json("The installation", schemas.InfoOut), **_problems(400, 503)},
}

HEALTH = {
    "operationId": "getHealth",
    "summary": "Whether the process answers",
    "responses": {"200": _json("It does", schemas.HealthOut)},
}

READY = {
    "operationId": "getReadiness",
    "summary": "Whether messages are taken in and delivered",
    "responses": {"200": _json("They are", schemas.HealthOut), **_problems(503)},
}

METRICS = {
    "operationId": "getMetrics",
    "summary": "Metrics for Prometheus",
    "responses": {
        "200": {"description": "Text exposition format", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **_problems(503),
    },
}
