"""What is decided by the owner of a shard, asked of a process that owns none."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.acceptance.asking import HTTP, send, wait_for
from tests.acceptance.on_kafka import PARTITIONS
from tests.fault.server import Server, http_client, read_topic


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


def test_two_processes_that_undo_at_once_bring_each_message_back_once(
    topic: str, running: Callable[..., list[Server]]
) -> None:
    first, second, _ = running("api", "api", "worker")
    values = [str(number) for number in range(700)]
    send(first.url, topic, values, delay="12s")
    wait_for(lambda: HTTP.get(f"{first.url}/v1/topics/{topic}").json()["pending"], lambda pending: pending == 700)
    purged = HTTP.post(f"{first.url}/v1/topics/{topic}:purge").json()
    path = f"/v1/topics/{topic}:undo?id={purged['undo']['id']}"

    def undo(server: Server) -> dict[str, int]:
        """Asked again when the answer wants it: another one may have begun meanwhile."""
        with http_client(20) as http:
            while (answer := http.post(server.url + path, headers={"delayline-request": "1"})).status_code == 503:
                time.sleep(int(answer.headers["retry-after"]))
            assert answer.status_code == 200, answer.text
            return dict(answer.json())

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(undo, (first, second)))
    again = undo(second)

    assert purged["cancelled"] == 700
    assert all(answer["restored"] + answer["restored_before"] <= 700 for answer in answers)
    assert (again["restored"], again["restored_before"]) == (0, 700)
    found = wait_for(lambda: list(read_topic(first.url, topic, PARTITIONS)), lambda records: len(records) >= 700)
    assert sorted(record["value"] for record in found) == sorted(values)
