"""Topics, info, health, readiness, metrics."""

from typing import Any

from delayline.questions.inquiry import ShardFigures
from delayline.records.message import Shard
from tests.unit.api.in_memory import NOW_MS, Api, problem


def test_topics_are_listed_by_name_and_ours_are_not_among_them() -> None:
    api = Api()
    api.send({"value": 1, "schedule": {"delay": "1s"}})
    api.send({"value": 1}, "/v1/topics/plain/messages")
    rows = api.get("/v1/topics").json()["topics"]
    assert [(row["name"], row["partitions"], row["delay_enabled"]) for row in rows] == [
        ("orders", 4, True),
        ("plain", 4, False),
    ]


def test_info_describes_the_installation_and_what_it_takes() -> None:
    info = Api(body_bytes_max=1000, batch_messages_max=10).get("/v1/info").json()
    assert (info["name"], info["version"], info["namespace"]) == ("delayline", "1.2.3", "delayline")
    assert info["guarantee"] == "exactly once"
    assert info["levels"][:4] == ["1s", "5s", "10s", "30s"]
    assert info["horizon_max"] == "3650d"
    assert (info["limits"]["body_bytes_max"], info["limits"]["batch_messages_max"]) == (1000, 10)
    assert info["now"] == "2026-01-01T00:00:00.000Z"


def test_a_process_that_answers_is_healthy_even_when_it_is_not_ready() -> None:
    api = Api()
    api.readiness = (False, "3 shards are catching up")
    assert api.get("/healthz").json() == {"status": "ok"}


def test_readiness_is_200_or_a_problem_with_the_reason() -> None:
    api = Api()
    assert api.get("/readyz").json() == {"status": "ready"}
    api.readiness = (True, "stalled: orders.0 (unreadable_log)")
    assert api.get("/readyz").json() == {"status": "ready", "detail": "stalled: orders.0 (unreadable_log)"}
    api.readiness = (False, "3 shards are catching up")
    answer = api.get("/readyz")
    assert problem(answer) == (503, "not-ready")
    assert answer.json()["detail"] == "3 shards are catching up"


def test_metrics_are_in_the_text_exposition_format() -> None:
    api = Api()
    api.send({"value": 1})
    answer = api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert 'delayline_messages_accepted_total{topic="orders",via="http"} 1.0' in answer.text


def test_a_queue_that_is_closed_makes_topics_unavailable_and_not_a_500() -> None:
    api = Api()
    api.queue.close()
    assert problem(api.send({"value": 1})) == (503, "queue-unavailable")


# --- how topics stand


def figures(number: int, **given: Any) -> ShardFigures:
    return ShardFigures(Shard("orders", str(number)), **{"ready": True, "owner_epoch": 2, **given})


def standing(*shards: ShardFigures) -> Api:
    api = Api()
    api.queue.ensure_topic("orders")
    api.queue.ensure_buffer("orders", api.rules)
    api.owners.shards = list(shards)
    return api


def test_a_topic_has_the_sums_of_its_shards() -> None:
    api = standing(
        figures(0, pending=5, backlog=2, next_due_ms=NOW_MS - 500, ingest_lag=1),
        figures(1, pending=7, next_due_ms=NOW_MS + 500, ingest_lag=2),
        figures(2, next_due_ms=None),
        figures(
            3, pending=1, repeats=4, next_due_ms=NOW_MS + 900, stalled="target", detail="it is full", retry_ms=4000
        ),
        ShardFigures(Shard("other", "0"), ready=True, owner_epoch=1, pending=99),
    )
    assert api.get("/v1/topics").json() == {
        "topics": [
            {
                "name": "orders",
                "partitions": 4,
                "delay_enabled": True,
                "pending": 13,
                "repeats": 4,
                "due_backlog": 2,
                "oldest_due_at": "2025-12-31T23:59:59.500Z",
                "next_due_at": "2025-12-31T23:59:59.500Z",
                "ingest_lag": 3,
                "stalled": [{"partition": 3, "reason": "target", "detail": "it is full", "retry_in_ms": 4000}],
                "paused": False,
                "complete": True,
                "missing_shards": [],
            }
        ],
        "as_of": "2026-01-01T00:00:00.000Z",
        "complete": True,
    }


def test_nothing_is_overdue_before_it_is_due() -> None:
    (row,) = standing(*(figures(n, next_due_ms=NOW_MS + 1) for n in range(4))).get("/v1/topics").json()["topics"]
    assert (row["oldest_due_at"], row["next_due_at"]) == (None, "2026-01-01T00:00:00.001Z")


def test_a_topic_whose_owners_are_silent_has_no_figures_rather_than_zeros() -> None:
    api = standing()
    answer = api.get("/v1/topics").json()
    (row,) = answer["topics"]
    assert (row["pending"], row["ingest_lag"], row["complete"], answer["complete"]) == (None, None, False, False)
    assert len(row["missing_shards"]) == 4


def test_a_topic_whose_shards_are_all_being_taken_over_has_no_figures_either() -> None:
    api = standing(*(figures(number, ready=False, owner_epoch=0) for number in range(4)))
    (row,) = api.get("/v1/topics").json()["topics"]
    assert (row["pending"], row["due_backlog"], len(row["missing_shards"])) == (None, None, 4)


def test_a_topic_that_nobody_has_sent_a_delayed_message_to_has_zeros() -> None:
    api = Api()
    api.queue.ensure_topic("orders")
    answer = api.get("/v1/topics").json()
    assert (answer["topics"][0]["pending"], answer["complete"]) == (0, True)
    assert api.get("/v1/topics/orders").json()["shards"] == []


def test_a_shard_that_is_not_read_to_its_end_counts_and_is_missing() -> None:
    api = standing(figures(0, pending=5), figures(1, pending=7, ready=False), figures(2), figures(3))
    (row,) = api.get("/v1/topics").json()["topics"]
    assert (row["pending"], row["missing_shards"]) == (12, [{"topic": "orders", "partition": 1}])


def test_the_shards_of_a_topic_stand_one_by_one() -> None:
    stall = {"stalled": "takeover", "detail": "no answer", "retry_ms": 10}
    api = standing(
        figures(0, pending=5, backlog=1, next_due_ms=NOW_MS, ingest_lag=4, next_offset=9, low_offset=3),
        figures(1, ready=False),
        figures(2, ready=False, owner_epoch=0, **stall),
    )
    answer = api.get("/v1/topics/orders").json()
    unknown = dict.fromkeys(answer["shards"][0], None)
    assert answer["shards"] == [
        {
            "partition": 0,
            "state": "running",
            "pending": 5,
            "repeats": 0,
            "due_backlog": 1,
            "oldest_due_at": "2026-01-01T00:00:00.000Z",
            "next_due_at": "2026-01-01T00:00:00.000Z",
            "ingest_lag": 4,
            "owner_epoch": 2,
            "next_offset": 9,
            "low_offset": 3,
            "paused": False,
            "stalled": None,
        },
        {**answer["shards"][1], "partition": 1, "state": "catching-up", "pending": 0},
        {
            **unknown,
            "partition": 2,
            "state": "stalled",
            "stalled": {"partition": 2, "reason": "takeover", "detail": "no answer", "retry_in_ms": 10},
        },
        {**unknown, "partition": 3, "state": "missing"},
    ]
    assert answer["pending"] == 5
    assert [shard["partition"] for shard in answer["missing_shards"]] == [1, 2, 3]
    assert (answer["complete"], answer["as_of"]) == (False, "2026-01-01T00:00:00.000Z")
