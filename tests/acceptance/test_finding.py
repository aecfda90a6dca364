"""Lists, counts and figures of a real worker."""

from typing import Any

from tests.acceptance.asking import HTTP, send, wait_for
from tests.fault.server import Server


def _messages(server: Server, **query: str) -> Any:
    return HTTP.get(f"{server.url}/v1/messages", params=query).json()


def test_what_waits_is_listed_counted_and_summed_until_it_is_delivered(shared: Server) -> None:
    later = send(shared.url, "found", ["a", "b", "c"], delay="1h")
    soon = send(shared.url, "found", ["d"], delay="90m")
    wanted = [message["message_id"] for message in later + soon]

    page = wait_for(lambda: _messages(shared, topic="found"), lambda page: len(page["messages"]) == 4)
    counts = HTTP.get(f"{shared.url}/v1/topics/found/histogram", params={"bucket": "30m"}).json()
    topic = wait_for(
        lambda: HTTP.get(f"{shared.url}/v1/topics/found").json(),
        lambda topic: topic["pending"] == 4 and topic["complete"],
    )
    HTTP.post(f"{shared.url}/v1/messages/{wanted[3]}:deliver")
    ended = wait_for(lambda: _messages(shared, topic="found", state="delivered"), lambda page: bool(page["messages"]))
    left = _messages(shared, topic="found")

    assert sorted(message["message_id"] for message in page["messages"]) == sorted(wanted)
    assert page["messages"][-1]["message_id"] == wanted[3]
    assert (page["complete"], page["next_page_token"]) == (True, None)
    assert (sum(counts["counts"]), sum(counts["counts"][:3])) == (4, 3)
    assert [shard["state"] for shard in topic["shards"]] == ["running"] * 4
    assert [message["message_id"] for message in ended["messages"]] == [wanted[3]]
    assert len(left["messages"]) == 3


def test_pages_over_all_topics_are_one_list(shared: Server) -> None:
    for number in range(3):
        send(shared.url, f"pages-{number}", ["x"] * 5, delay=f"{number + 1}d")
    seen: list[str] = []
    wait_for(lambda: len(_messages(shared)["messages"]), lambda count: count >= 15)
    token: dict[str, str] | None = {}
    while token is not None:
        page = _messages(shared, page_size="4", **token)
        seen += [message["topic"] for message in page["messages"] if message["topic"].startswith("pages-")]
        token = {"page_token": page["next_page_token"]} if page["next_page_token"] else None
    assert seen == ["pages-0"] * 5 + ["pages-1"] * 5 + ["pages-2"] * 5


def test_a_message_is_found_by_its_own_id_with_its_history(shared: Server) -> None:
    (sent,) = send(shared.url, "listed", ["x"], delay="1h", own_id="order-7")
    path = f"{shared.url}/v1/messages/{sent['message_id']}"
    page = wait_for(lambda: _messages(shared, own_id="order-7"), lambda page: bool(page["messages"]))
    HTTP.patch(path, json={"schedule": {"delay": "2h"}})
    HTTP.post(f"{path}:deliver")
    ended = wait_for(lambda: HTTP.get(path).json(), lambda message: message["state"] == "delivered")
    assert [(message["message_id"], message["own_id"]) for message in page["messages"]] == [
        (sent["message_id"], "order-7")
    ]
    events = [event["event"] for event in ended["history"]]
    assert (events[0], events[-3:]) == ("accepted", ["rescheduled", "rescheduled", "delivered"])
    assert ended["history"][-1]["version"] == ended["version"] >= 2
