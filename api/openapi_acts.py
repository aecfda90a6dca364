"""What acts on many messages or on a topic, as operations of the OpenAPI document."""

from api import acts
from api.openapi_parts import TOPIC, content, parameter, problems, ref

CANCEL_MANY = {
    "operationId": "cancelMessages",
    "summary": "Cancel every message of a topic that a filter matches, or count them",
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": ref(acts.CancelIn),
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
    "responses": {"200": content("What came of it", acts.CancelOut), **problems(400, 404, 413, 415, 503)},
}

_CONTROLLED = {
    "200": content("Done in every shard", acts.ControlOut),
    "202": content("Stored; not done in every shard yet", acts.ControlOut),
    **problems(400, 404, 503),
}

PAUSE = {
    "operationId": "pauseTopic",
    "summary": "Deliver nothing of a topic's delayed messages until it is resumed",
    "parameters": [TOPIC],
    "responses": _CONTROLLED,
}

RESUME = {
    "operationId": "resumeTopic",
    "summary": "Deliver a topic's delayed messages again",
    "parameters": [TOPIC],
    "responses": _CONTROLLED,
}

_SHARD = [
    TOPIC,
    parameter("partition", "path", "The partition", {"type": "string"}, "0"),
]

STALL = {
    "operationId": "getStall",
    "summary": "Why a shard has stalled, and the way out",
    "parameters": _SHARD,
    "responses": {"200": content("How it stands", acts.StalledOut), **problems(400, 404, 503)},
}

SKIP = {
    "operationId": "skipStall",
    "summary": "Let a stalled shard go on, and lose what that costs",
    "parameters": _SHARD,
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": ref(acts.SkipIn),
                "examples": {
                    "record": {
                        "summary": "One record",
                        "value": {"reason": "unknown_format", "offset": 1042, "through": 1042, "by": "eva"},
                    }
                },
            }
        },
    },
    "responses": {"200": content("How it stands now", acts.StalledOut), **problems(400, 404, 409, 413, 415, 503)},
}

PURGE = {
    "operationId": "purgeTopic",
    "summary": "Cancel all messages that wait for a topic, or count them",
    "parameters": [
        TOPIC,
        parameter(
            "dry_run", "query", "Only count them", {"type": "string", "enum": ["true", "false"], "default": "false"}
        ),
    ],
    "responses": {
        "200": content("Done in every shard", acts.PurgeOut),
        "202": content("Stored; not done in every shard yet", acts.PurgeOut),
        **problems(400, 404, 503),
    },
}

CREATE_TOPIC = {
    "operationId": "createTopic",
    "summary": "Make a topic",
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": ref(acts.TopicIn),
                "examples": {"one": {"summary": "With 8 partitions", "value": {"name": "invoices", "partitions": 8}}},
            }
        },
    },
    "responses": {"201": content("It is made", acts.TopicMade), **problems(400, 403, 404, 409, 413, 415, 503)},
}

DELETE_TOPIC = {
    "operationId": "deleteTopic",
    "summary": "Delete a topic for which nothing waits, with everything that was delivered into it",
    "parameters": [
        TOPIC,
        parameter(
            "force",
            "query",
            "Cancel what waits first",
            {"type": "string", "enum": ["true", "false"], "default": "false"},
        ),
    ],
    "responses": {"200": content("It is gone", acts.TopicDeleted), **problems(400, 404, 409, 503)},
}
