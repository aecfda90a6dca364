"""Ids of the sender's own, on a real worker."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.acceptance.asking import HTTP, delivered, send, wait_delivered, wait_for
from tests.fault.server import Server


def _send(server: Server, topic: str, value: str, **schedule: Any) -> dict[str, Any]:
    return send(server.url, topic, [value], **schedule)[0]


def test_of_many_senders_with_one_own_id_one_gets_its_message_in_and_all_hear_which(shared: Server) -> None:
    with ThreadPoolExecutor(8) as threads:
        sent = list(threads.map(lambda n: _send(shared, "once", str(n), delay="2s", own_id="x"), range(8)))
    assert sorted(message["deduplicated"] for message in sent) == [False] + [True] * 7
    assert len({message["message_id"] for message in sent}) == 1
    winner = next(str(n) for n, message in enumerate(sent) if not message["deduplicated"])
    assert wait_delivered(shared, [winner], "once") == [winner]
    assert _send(shared, "once", "again", delay="1h", own_id="x")["deduplicated"] is False


def test_a_message_is_asked_for_moved_and_cancelled_by_its_own_id(shared: Server) -> None:
    sent = _send(shared, "named", "a", delay="1h", own_id="order/7")
    path = f"{shared.url}/v1/topics/named/own/order%2F7"
    asked = HTTP.get(path).json()
    moved = HTTP.patch(path, json={"schedule": {"delay": "2h"}}).json()
    listed = HTTP.get(f"{shared.url}/v1/messages", params={"topic": "named", "own_id": "order/7"}).json()
    assert (asked["message_id"], asked["own_id"], asked["state"]) == (sent["message_id"], "order/7", "pending")
    assert (moved["own_id"], moved["version"], moved["due_at"] > asked["due_at"]) == ("order/7", 1, True)
    assert [message["message_id"] for message in listed["messages"]] == [sent["message_id"]]
    assert (HTTP.delete(path).status_code, HTTP.delete(path).status_code) == (204, 404)


def test_sent_again_to_replace_only_the_last_is_delivered(shared: Server) -> None:
    for value in ("a", "b", "c"):
        last = _send(shared, "debounce", value, delay="1s", own_id="x", on_conflict="replace")
        assert last["deduplicated"] is False
    assert wait_delivered(shared, ["c"], "debounce") == ["c"]


def test_a_series_shows_where_it_is_and_what_comes_next(shared: Server) -> None:
    _send(shared, "series", "tick", every="1s", times=3, own_id="ticker")
    path = f"{shared.url}/v1/topics/series/own/ticker"
    second = wait_for(lambda: HTTP.get(path).json(), lambda found: found.get("repeat", {}).get("occurrence") == 2)
    assert (second["repeat"]["times_left"], second["repeat"]["every"]) == (2, "1s")
    assert second["next_due_at"] > second["due_at"]
    assert wait_for(lambda: delivered(shared.url, "series"), lambda found: len(found) == 3) == ["tick"] * 3


def test_a_message_by_the_calendar_is_known_by_its_own_id_before_its_first_delivery(shared: Server) -> None:
    first = _send(shared, "nightly", "a", cron="0 0 1 1 *", own_id="report")
    again = _send(shared, "nightly", "b", cron="0 0 1 1 *", own_id="report")
    path = f"{shared.url}/v1/topics/nightly/own/report"
    assert HTTP.get(path).json()["message_id"] == first["message_id"]
    assert (again["deduplicated"], again["message_id"]) == (True, first["message_id"])
    assert (HTTP.delete(path).status_code, HTTP.delete(path).status_code) == (204, 404)


def test_a_repeated_request_for_a_message_by_the_calendar_makes_one_series(shared: Server) -> None:
    body = {"value": "a", "schedule": {"cron": "0 0 1 1 *"}}
    url, key = f"{shared.url}/v1/topics/nightly/messages", {"idempotency-key": "report"}
    first, again = (HTTP.post(url, json=body, headers=key).json() for _ in range(2))
    assert again == first
