"""Topics, info, health, readiness, metrics."""

from tests.unit.api.door import Door, problem


def test_topics_are_listed_by_name_and_ours_are_not_among_them() -> None:
    door = Door()
    door.send({"value": 1, "schedule": {"delay": "1s"}})
    door.send({"value": 1}, "/v1/topics/plain/messages")
    assert door.get("/v1/topics").json() == {
        "topics": [
            {"name": "orders", "partitions": 4, "delay_enabled": True},
            {"name": "plain", "partitions": 4, "delay_enabled": False},
        ]
    }


def test_info_says_what_the_installation_is_and_what_it_takes() -> None:
    info = Door(body_bytes_max=1000, batch_messages_max=10).get("/v1/info").json()
    assert (info["name"], info["version"], info["namespace"]) == ("delayline", "1.2.3", "delayline")
    assert info["guarantee"] == "exactly-once"
    assert info["levels"][:4] == ["1s", "5s", "10s", "30s"]
    assert info["horizon_max"] == "3650d"
    assert (info["limits"]["body_bytes_max"], info["limits"]["batch_messages_max"]) == (1000, 10)
    assert info["now"] == "2026-01-01T00:00:00.000Z"


def test_a_process_that_answers_is_healthy_even_when_it_is_not_ready() -> None:
    door = Door()
    door.readiness = (False, "3 shards are catching up")
    assert door.get("/healthz").json() == {"status": "ok"}


def test_readiness_is_200_or_a_problem_with_the_reason() -> None:
    door = Door()
    assert door.get("/readyz").json() == {"status": "ready"}
    door.readiness = (False, "3 shards are catching up")
    answer = door.get("/readyz")
    assert problem(answer) == (503, "not-ready")
    assert answer.json()["detail"] == "3 shards are catching up"


def test_metrics_are_in_the_text_exposition_format() -> None:
    door = Door()
    door.send({"value": 1})
    answer = door.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert 'delayline_messages_accepted_total{topic="orders",via="http"} 1.0' in answer.text


def test_a_queue_that_is_closed_makes_topics_unavailable_and_not_a_500() -> None:
    door = Door()
    door.queue.close()
    assert problem(door.send({"value": 1})) == (503, "queue-unavailable")
