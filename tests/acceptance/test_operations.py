"""Operations on one version of a message, and operations that are not waited for, on a real worker."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.acceptance.asking import HTTP, send, wait_for
from tests.fault.server import Server


def test_of_clients_that_have_seen_one_version_one_moves_the_message(shared: Server) -> None:
    message_id = send(shared.url, "versions", ["x"], delay="1h")[0]["message_id"]
    url = f"{shared.url}/v1/messages/{message_id}"

    def move(hours: int) -> httpx.Response:
        return HTTP.patch(url, json={"schedule": {"delay": f"{hours}h"}}, headers={"If-Match": '"0"'})

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(move, range(2, 10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7, [one.text for one in answers]
    moved = next(answer for answer in answers if answer.status_code == 200)
    assert (moved.headers["etag"], HTTP.get(url).json()["due_at"]) == ('"1"', moved.json()["due_at"])
    assert HTTP.delete(url, headers={"If-Match": '"0"'}).status_code == 412
    assert HTTP.delete(url, headers={"If-Match": '"1"'}).status_code == 204


def test_an_operation_that_is_not_waited_for_shows_its_result_later(shared: Server) -> None:
    message_id = send(shared.url, "later", ["x"], delay="1h")[0]["message_id"]
    url = f"{shared.url}/v1/messages/{message_id}"
    refused = HTTP.delete(url, headers={"Prefer": "respond-async", "If-Match": '"7"'})
    done = HTTP.delete(url, headers={"Prefer": "respond-async"})

    assert _came_of(shared, refused, {412: "version-mismatch"}) == "version-mismatch"
    assert _came_of(shared, done, {204: "applied"}) == "applied"
    assert HTTP.get(url).json()["state"] == "cancelled"


def _came_of(server: Server, answer: httpx.Response, known: dict[int, str]) -> str:
    """The operation's state once it is decided. It may have been already when it was answered."""
    if answer.status_code != 202:
        return known[answer.status_code]
    path = server.url + answer.headers["location"]
    operation = wait_for(lambda: HTTP.get(path).json(), lambda operation: operation["state"] != "accepted")
    return str(operation["state"])


def test_all_that_a_filter_matches_is_cancelled_and_nothing_else(shared: Server) -> None:
    for _ in range(3):
        send(shared.url, "many", [str(number) for number in range(700)], delay="1h")
    kept = send(shared.url, "many", ["later"], delay="2h")[0]
    edge = HTTP.get(f"{shared.url}/v1/messages/{kept['message_id']}").json()["due_at"]
    body = {"filter": {"topic": "many", "due_before": edge}}
    counted = wait_for(lambda: _cancel(shared, {**body, "dry_run": True}), lambda found: found["matched"] == 2100)
    cancelled = _cancel(shared, body)

    assert (counted["matched"], counted["cancelled"]) == (2100, 0)
    assert (cancelled["matched"], cancelled["cancelled"], cancelled["complete"]) == (2100, 2100, True)
    assert _cancel(shared, body)["matched"] == 0
    left = HTTP.get(f"{shared.url}/v1/messages", params={"topic": "many"}).json()["messages"]
    assert [message["message_id"] for message in left] == [kept["message_id"]]


def _cancel(server: Server, body: dict[str, Any]) -> Any:
    return HTTP.post(f"{server.url}/v1/messages:cancel", json=body, timeout=60).json()
