"""Bodies that clients may send, for the OpenAPI document; tests send each of them."""

from collections.abc import Mapping
from typing import Any

from api.bodies import acts, requests

EXAMPLES: Mapping[type, Mapping[str, tuple[str, Any]]] = {
    requests.MessageIn: {
        "now": ("Straight to the topic", {"value": "hello"}),
        "delay": ("In half a minute", {"value": {"order": 7}, "schedule": {"delay": "30s"}}),
        "keyed": (
            "With a key and a header",
            {
                "key": "7",
                "value": {"order": 7},
                "headers": [{"name": "src", "value": "web"}],
                "schedule": {"delay_ms": 30_000},
            },
        ),
        "moment": (
            "At a moment",
            {"value": "happy new year", "schedule": {"deliver_at": "2030-01-01T00:00:00+01:00"}},
        ),
        "own id": (
            "With an id of the sender's own",
            {"value": {"order": 7}, "schedule": {"delay": "30s", "own_id": "order-7", "ttl": "1h"}},
        ),
        "level": ("RocketMQ level 3 (10 s)", {"value": "retry me", "schedule": {"level": 3}}),
        "every": (
            "Three times, a minute apart",
            {"value": "are you there?", "schedule": {"every": "1m", "times": 3}},
        ),
        "bytes": (
            "Any bytes, to a partition",
            {"value_base64": "AP8=", "partition": 0, "schedule": {"delay": "PT1H"}},
        ),
    },
    requests.BatchIn: {
        "batch": (
            "Several, all or none",
            {"atomic": True, "messages": [{"value": 1}, {"value": 2, "schedule": {"delay": "5s"}}]},
        ),
        "loose batch": (
            "Several, each for itself",
            {"atomic": False, "messages": [{"value": 1}, {"value": 2, "schedule": {"delay": "soon"}}]},
        ),
    },
    requests.PreviewIn: {
        "delay": ("A duration", {"schedule": {"delay": "1h30m"}}),
        "cron": (
            "Working days at nine in Berlin",
            {"schedule": {"cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin"}, "count": 10},
        ),
    },
    requests.PatchIn: {"later": ("In an hour from now", {"schedule": {"delay": "1h"}})},
    requests.RedriveIn: {
        "some": ("Two of them, in a minute", {"ids": ["0.17", "2.3"], "schedule": {"delay": "1m"}}),
        "all": ("How many there are", {"all": True, "dry_run": True}),
    },
    acts.CancelIn: {
        "count": ("How many", {"filter": {"topic": "orders"}, "dry_run": True}),
        "cancel": (
            "Those of one key that are due this year",
            {"filter": {"topic": "orders", "key": "7", "due_before": "2027-01-01T00:00:00Z"}},
        ),
    },
    acts.SkipIn: {
        "record": ("One record", {"reason": "unknown_format", "offset": 1042, "through": 1042, "by": "eva"}),
    },
    acts.TopicIn: {"one": ("With 8 partitions", {"name": "invoices", "partitions": 8})},
}
