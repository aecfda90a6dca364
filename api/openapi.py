"""The OpenAPI document: operations with examples here, schemas from `api.schemas`, paths from the routes."""

from collections.abc import Iterable
from typing import Any

import msgspec
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from api import acts, schemas
from api.openapi_parts import REF, TOPIC, content, parameter, problems, ref
from api.problems import Problem

DESCRIPTION = (
    "Send messages with a delay and ask for their state. Times come in as RFC 3339 with an offset or as "
    "epoch milliseconds, and go out as RFC 3339 in UTC. 201 means durable, 202 does not. Unknown fields and "
    "parameters are errors; everything that goes wrong is a problem document (RFC 9457)."
)

_DOCUMENTED = (
    acts.TopicIn,
    schemas.MessageIn,
    schemas.BatchIn,
    schemas.PreviewIn,
    schemas.PatchIn,
    acts.CancelIn,
    acts.CancelOut,
    acts.ControlOut,
    acts.PurgeOut,
    acts.TopicMade,
    acts.TopicDeleted,
    acts.SkipIn,
    acts.StalledOut,
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
    _, components = msgspec.json.schema_components(_DOCUMENTED, ref_template=REF)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Delayline", "version": version, "description": DESCRIPTION},
        "paths": paths,
        "components": {"schemas": components},
    }


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
        TOPIC,
        parameter(
            "mode",
            "query",
            "`sync` waits until the messages are durable; `async` and `oneway` do not; `oneway` answers without body",
            {"type": "string", "enum": ["sync", "async", "oneway"], "default": "sync"},
        ),
        parameter(
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
                "schema": {"anyOf": [ref(schemas.MessageIn), ref(schemas.BatchIn)]},
                "examples": _SEND_EXAMPLES,
            }
        },
    },
    "responses": {
        "200": content("A batch with `atomic: false`: see each result", schemas.BatchAnswer),
        "201": {
            "description": "Durable",
            "headers": _LOCATION | _ETAG | _REPLAYED,
            "content": {
                "application/json": {"schema": {"anyOf": [ref(schemas.SentMessage), ref(schemas.BatchAnswer)]}}
            },
        },
        "202": {
            "description": "Handed over, not durable yet",
            "content": {
                "application/json": {"schema": {"anyOf": [ref(schemas.UnconfirmedMessage), ref(schemas.BatchAnswer)]}}
            },
        },
        **problems(400, 403, 404, 409, 413, 415, 422, 429, 503),
    },
}

PREVIEW = {
    "operationId": "previewSchedule",
    "summary": "What a schedule would mean now",
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": ref(schemas.PreviewIn),
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
    "responses": {"200": content("When it would be due", schemas.PreviewOut), **problems(400, 413, 415, 503)},
}

_MESSAGE_ID = parameter(
    "message_id",
    "path",
    "`<topic>.<partition>.<offset>.<due ms>`, as the send answered",
    {"type": "string"},
    "orders.3.1041.1767225630000",
)

_WISHES = [
    parameter(
        "If-Match", "header", 'Only where the message has this version: `"0"`, or `*` for any', {"type": "string"}
    ),
    parameter(
        "Prefer", "header", "`respond-async`: do not wait until it is decided; `wait=3`: 3 s", {"type": "string"}
    ),
    parameter("wait", "query", "How long to wait until it is decided", {"type": "string", "default": "10s"}),
]

_ACCEPTED = {
    "202": content(
        "Stored, and not decided yet: ask for it",
        schemas.OperationOut,
        headers={"Location": {"description": "Where to ask", "schema": {"type": "string"}}},
    ),
    **problems(400, 404, 409, 410, 412, 503),
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
                "schema": ref(schemas.PatchIn),
                "examples": {"later": {"summary": "In an hour from now", "value": {"schedule": {"delay": "1h"}}}},
            }
        },
    },
    "responses": {
        "200": content("The message, with its new time", schemas.MessageOut, headers=_ETAG),
        **_ACCEPTED,
        **problems(413, 415),
    },
}

DELIVER = {
    "operationId": "deliverMessage",
    "summary": "Deliver a message that waits now",
    "parameters": [_MESSAGE_ID, *_WISHES],
    "responses": {"204": {"description": "It is due now"}, **_ACCEPTED},
}

_VIEW = parameter(
    "view",
    "query",
    "`full` adds key, value and headers while the message waits",
    {"type": "string", "enum": ["basic", "full"], "default": "basic"},
)

GET_MESSAGE = {
    "operationId": "getMessage",
    "summary": "The state of a message, or of an operation",
    "parameters": [_MESSAGE_ID, _VIEW],
    "responses": {
        "200": {
            "description": "The message, or the operation",
            "headers": _ETAG,
            "content": {
                "application/json": {"schema": {"anyOf": [ref(schemas.MessageOut), ref(schemas.OperationOut)]}}
            },
        },
        **problems(400, 404, 410, 503),
    },
}

_OWN_ID = parameter("own_id", "path", "The id that the sender gave it", {"type": "string"}, "order-7")

GET_OWN = {
    "operationId": "getOwn",
    "summary": "A message that waits, by its own id",
    "parameters": [TOPIC, _OWN_ID, _VIEW],
    "responses": {
        "200": content("The message", schemas.MessageOut, headers=_ETAG),
        **problems(400, 404, 409, 410, 503),
    },
}

RESCHEDULE_OWN = {**RESCHEDULE, "operationId": "rescheduleOwn", "parameters": [TOPIC, _OWN_ID, *_WISHES]}

CANCEL_OWN = {**CANCEL, "operationId": "cancelOwn", "parameters": [TOPIC, _OWN_ID, *_WISHES]}

_WHOLE_NUMBER = {"type": "integer", "minimum": 0}

READ_RECORDS = {
    "operationId": "readRecords",
    "summary": "The records of a topic, as a page or as a stream",
    "parameters": [
        TOPIC,
        parameter("partition", "query", "Only this partition", _WHOLE_NUMBER),
        parameter("offset", "query", "From this offset on, instead of the newest; needs `partition`", _WHOLE_NUMBER),
        parameter(
            "limit",
            "query",
            "At most so many records",
            {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100},
        ),
        parameter(
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
                "application/json": {"schema": ref(schemas.RecordsPage)},
                "text/event-stream": {"schema": {"type": "string"}},
            },
        },
        **problems(400, 404, 503),
    },
}

_MOMENT = {"anyOf": [{"type": "string", "format": "date-time"}, _WHOLE_NUMBER]}

LIST_MESSAGES = {
    "operationId": "listMessages",
    "summary": "Messages that wait, by due time, or that have ended lately, newest first",
    "parameters": [
        parameter("topic", "query", "Only this topic", TOPIC["schema"]),
        parameter("key", "query", "Only messages with this key", {"type": "string"}),
        parameter("own_id", "query", "Only the messages with this own id: one per shard at most", {"type": "string"}),
        parameter(
            "state",
            "query",
            "What waits, or what has ended so, as far as it is remembered",
            {
                "type": "string",
                "enum": ["pending", "delivered", "cancelled", "expired", "dead", "duplicate", "superseded"],
                "default": "pending",
            },
        ),
        parameter("due_after", "query", "Due at this moment or later", _MOMENT),
        parameter("due_before", "query", "Due before this moment", _MOMENT),
        parameter("page_size", "query", "Rows", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
        parameter("page_token", "query", "`next_page_token` of the page before", {"type": "string"}),
    ],
    "responses": {"200": content("A page", schemas.MessagesPage), **problems(400, 404, 503)},
}

HISTOGRAM = {
    "operationId": "countDue",
    "summary": "How many messages are due when",
    "parameters": [
        TOPIC,
        parameter("from", "query", "Else now", _MOMENT),
        parameter("to", "query", "Else 60 buckets later", _MOMENT),
        parameter(
            "bucket", "query", "Whole minutes, beyond a day whole days", {"type": "string", "default": "1m"}, "1h"
        ),
    ],
    "responses": {"200": content("Counts", schemas.HistogramOut), **problems(400, 404, 503)},
}

_REDRIVE_SOME = {"ids": ["0.17", "2.3"], "schedule": {"delay": "1m"}}

LIST_TOPICS = {
    "operationId": "listTopics",
    "summary": "The topics that users can send to, and how they stand",
    "responses": {"200": content("By name", schemas.TopicsOut), **problems(400, 503)},
}

GET_TOPIC = {
    "operationId": "getTopic",
    "summary": "How a topic and each of its shards stand",
    "parameters": [TOPIC],
    "responses": {"200": content("The topic", schemas.TopicView), **problems(400, 404, 503)},
}

LIST_DEAD = {
    "operationId": "listDeadLetters",
    "summary": "Messages of a topic that could not be delivered, newest first",
    "parameters": [
        TOPIC,
        parameter("limit", "query", "Rows", {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100}),
        parameter("before", "query", "`next_before` of the page before", {"type": "string"}),
    ],
    "responses": {"200": content("A page", schemas.DeadPage), **problems(400, 404, 503)},
}

REDRIVE = {
    "operationId": "redriveDeadLetters",
    "summary": "Send dead letters to their topic again, at least once",
    "parameters": [TOPIC],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": ref(schemas.RedriveIn),
                "examples": {
                    "some": {"summary": "Two of them, in a minute", "value": _REDRIVE_SOME},
                    "all": {"summary": "How many there are", "value": {"all": True, "dry_run": True}},
                },
            }
        },
    },
    "responses": {"200": content("What was done", schemas.RedriveOut), **problems(400, 403, 404, 413, 415, 503)},
}

INFO = {
    "operationId": "getInfo",
    "summary": "What this installation is, and its limits",
    "responses": {"200": content("The installation", schemas.InfoOut), **problems(400, 503)},
}

HEALTH = {
    "operationId": "getHealth",
    "summary": "Whether the process answers",
    "responses": {"200": content("It does", schemas.HealthOut)},
}

READY = {
    "operationId": "getReadiness",
    "summary": "Whether messages are taken in and delivered",
    "responses": {"200": content("They are", schemas.HealthOut), **problems(503)},
}

METRICS = {
    "operationId": "getMetrics",
    "summary": "Metrics for Prometheus",
    "responses": {
        "200": {"description": "Text exposition format", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **problems(503),
    },
}
