"""What is decided by the owner of a shard, asked of a process that owns none."""

from collections.abc import Callable

from tests.acceptance.asking import HTTP, send, wait_for
from tests.fault.server import Server


def test_a_process_without_a_worker_hears_what_the_owners_decide(
    topic: str, running: Callable[..., list[Server]]
) -> None:
    api, _ = running("api", "worker")
    path, key = f"{api.url}/v1/topics/{topic}", {"Idempotency-Key": "k"}
    send(api.url, topic, ["warm-up"], delay="1h")
    wait_for(lambda: HTTP.get(path).json()["pending"], lambda pending: pending == 1)
    first = send(api.url, topic, ["a"], delay="1h", own_id="x")[0]
    again = send(api.url, topic, ["b"], delay="1h", own_id="x")[0]
    body = {"value": "c", "schedule": {"delay": "1h"}}
    once, twice = (HTTP.post(f"{path}/messages", json=body, headers=key) for _ in range(2))
    send(api.url, topic, [str(number) for number in range(500)], delay="1h")
    wait_for(lambda: HTTP.get(path).json()["pending"], lambda pending: pending == 503)
    paused = HTTP.post(f"{path}:pause").json()
    moved = HTTP.patch(f"{path}/own/x", json={"schedule": {"delay": "2h"}}, headers={"If-Match": '"1"'})
    cancelled = HTTP.post(f"{api.url}/v1/messages:cancel", json={"filter": {"topic": topic}}).json()

    assert (again["message_id"], again["deduplicated"]) == (first["message_id"], True)
    assert (twice.json(), twice.headers["idempotency-replayed"]) == (once.json(), "true")
    assert (paused["complete"], moved.status_code) == (True, 412)
    assert (cancelled["cancelled"], cancelled["complete"]) == (503, True)
    assert HTTP.post(f"{path}:purge").json()["cancelled"] == 0


def test_what_one_process_was_asked_to_do_any_other_one_shows(
    topic: str, running: Callable[..., list[Server]]
) -> None:
    """The topic is made by the first act: there was no worker that would have made it."""
    first, second = running("api", "api", access__act_topic="true")
    assert HTTP.post(f"{first.url}/v1/topics/{topic}/dead:redrive", json={"ids": ["0.0"]}).status_code == 200
    first.kill()
    page = HTTP.get(f"{second.url}/v1/acts").json()
    found = [(line["event"], line["operation"], line["topic"], line.get("status")) for line in page["acts"]]
    wanted = [("answered", 200), ("asked", None)]
    assert found == [(event, "redriveDeadLetters", topic, status) for event, status in wanted]
    assert page["kept"]
