"""Topics made and deleted by hand, over HTTP and from the command line."""

from uuid import uuid4

import httpx
import pytest

from tests.acceptance.asking import HTTP, Ran, answer_of, delivered, run, send, wait_delivered, wait_for
from tests.fault.server import Server


@pytest.fixture
def topic() -> str:
    return f"t-{uuid4().hex[:8]}"


def delete(server: Server, topic: str, **query: str) -> httpx.Response:
    return HTTP.delete(f"{server.url}/v1/topics/{topic}", params=query)


def names(server: Server) -> list[str]:
    return [row["name"] for row in HTTP.get(f"{server.url}/v1/topics").json()["topics"]]


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].removeprefix("/problems/")


def test_a_topic_is_made_used_and_deleted(shared: Server, topic: str) -> None:
    made = HTTP.post(f"{shared.url}/v1/topics", json={"name": topic, "partitions": 2})
    assert (made.status_code, made.json()) == (201, {"name": topic, "partitions": 2})
    assert problem(HTTP.post(f"{shared.url}/v1/topics", json={"name": topic})) == (409, "topic-exists")
    send(shared.url, topic, ["a"], delay="1ms")
    wait_for(lambda: list(read(shared, topic)), lambda found: found == ["a"])
    gone = delete(shared, topic)
    assert (gone.status_code, gone.json()) == (200, {"topic": topic, "cancelled": 0})
    assert topic not in names(shared)
    assert problem(delete(shared, topic)) == (404, "topic-unknown")


def read(server: Server, topic: str) -> list[str]:
    answer = HTTP.get(f"{server.url}/v1/topics/{topic}/records", params={"limit": 100})
    return [record["value"] for record in answer.json()["records"]]


def test_a_topic_for_which_messages_wait_is_deleted_only_by_force(shared: Server, topic: str) -> None:
    send(shared.url, topic, ["a", "b"], delay="1h")
    wait_for(lambda: HTTP.get(f"{shared.url}/v1/topics/{topic}").json()["pending"], lambda found: found == 2)
    refused = delete(shared, topic)
    assert problem(refused) == (409, "topic-busy")
    assert "2 messages wait" in refused.json()["detail"]
    gone = delete(shared, topic, force="true")
    assert (gone.status_code, gone.json()) == (200, {"topic": topic, "cancelled": 2})


def test_a_topic_made_again_works_as_a_new_one(shared: Server, topic: str) -> None:
    send(shared.url, topic, ["old"], delay="1h")
    assert delete(shared, topic, force="true").status_code == 200
    send(shared.url, topic, ["new"], delay="1ms")
    wait_delivered(shared, ["new"], topic)
    assert delivered(shared.url, topic) == ["new"]


def test_after_a_restart_a_deleted_topic_stays_deleted(server: Server) -> None:
    send(server.url, "orders", ["a"], delay="1h")
    assert delete(server, "orders", force="true").status_code == 200
    server.kill()
    server.start()
    server.wait_ready()
    assert names(server) == []
    send(server.url, "orders", ["b"], delay="1ms")
    wait_delivered(server, ["b"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "delayline.audit"}, 403),
        ({"name": "a b"}, 400),
        ({"name": "t", "partitions": 0}, 400),
        ({"name": "t", "partitions": 257}, 400),
        ({"name": "t", "retention": "1d"}, 400),
        ({"name": "x" * 249}, 400),
        ({}, 400),
    ],
)
def test_what_cannot_be_a_topic_is_refused(shared: Server, body: dict[str, object], status: int) -> None:
    assert HTTP.post(f"{shared.url}/v1/topics", json=body).status_code == status


def commanded(server: Server, *arguments: str) -> Ran:
    return run("topics", *arguments, url=server.url)


def test_the_command_line_makes_and_deletes_topics(shared: Server, topic: str) -> None:
    made = commanded(shared, "create", topic, "--partitions", "3")
    assert (made.code, made.out) == (0, f"{topic}  made, 3 partitions\n")
    assert answer_of(commanded(shared, "show", topic, "--json"))["partitions"] == 3
    assert commanded(shared, "create", topic).code == 4
    send(shared.url, topic, ["a"], delay="1h")
    assert commanded(shared, "delete", topic).code == 2, "nobody can be asked"
    gone = commanded(shared, "delete", topic, "--force", "--yes")
    assert (gone.code, gone.out) == (0, f"{topic}  deleted, 1 message cancelled\n")
