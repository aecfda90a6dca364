"""Who did what: the lines of acts, in the order in which they were tried."""

import json
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from api.http.act_log import BODY_CHARS_MAX
from tests.unit.api.access.held import HeldAccess, allowing
from tests.unit.api.in_memory import Api, problem
from tests.unit.api.situations import api, ask

CHANGING = {
    "cancelMessage": 204,
    "cancelMessages": 200,
    "cancelOwn": 204,
    "createTopic": 201,
    "deleteTopic": 200,
    "deliverMessage": 204,
    "getStall": 200,  # it shows a record
    "pauseTopic": 200,
    "purgeTopic": 200,
    "redriveDeadLetters": 200,
    "rescheduleMessage": 200,
    "rescheduleOwn": 200,
    "resumeTopic": 200,
    "skipStall": 409,
    "undo": 400,
}


class Scene:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "the acts.jsonl"
        self.access = HeldAccess(allowing("ann", "cancel", "reschedule", "control", "topics", "read"), "ann", "eve")
        self.api: Api = api(access=self.access, act_log=self.file)

    def ask(self, id: str, principal: str | None = "ann", query: str = "", path: dict[str, str] | None = None) -> Any:
        headers: dict[str, Any] = {} if principal is None else {"authorization": self.access.header(principal)}
        return ask(self.api, id, query, path=path, x_request_id="of-a-test", **headers)

    def send(self, path: str, body: Any) -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"authorization": self.access.header("ann"), "content-type": "application/json"}
        return self.api.request("POST", path, content=content, headers=headers)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("id", sorted(CHANGING))
def test_an_act_is_written_down_before_and_after(scene: Scene, id: str) -> None:
    if id == "createTopic":
        scene.access.allow(allowing("ann", "topics", topics="*"))
    answer = scene.ask(id)
    asked, answered = scene.lines()
    assert (asked["event"], answered["event"]) == ("asked", "answered")
    assert answered["status"] == answer.status_code
    about = ("principal", "operation", "path", "query", "address", "request_id")
    assert [asked[name] for name in about] == [answered[name] for name in about]
    assert (asked["principal"], asked["operation"], asked["request_id"]) == ("ann", id, "of-a-test")


def test_what_a_body_asks_for_is_in_both_lines_as_it_was_understood(scene: Scene) -> None:
    raw = b'{"filter":' + b" " * 5000 + b'{"key":"victim", "topic":"orders"}}'
    scene.send("/v1/messages:cancel", raw)
    for line in scene.lines():
        assert json.loads(line["body"])["filter"]["key"] == "victim"
        assert (line["body_bytes"], line["body_sha256"]) == (len(raw), sha256(raw).hexdigest())
        assert line["topic"] == "orders"


def test_a_body_that_asks_for_much_is_cut(scene: Scene) -> None:
    scene.send("/v1/topics/orders/dead:redrive", {"ids": [f"{number:030}" for number in range(1000)]})
    body = scene.lines()[0]["body"]
    assert body.startswith('{"ids":["0000')
    assert len(body) < BODY_CHARS_MAX + 30
    assert re.search(r"… \(3\d{4} characters\)$", body)


@pytest.mark.parametrize(
    "raw",
    [b'{"filter":{"topic":"orders"},"value":"secret"}', b'{"filter":{"topic":"orders"},"x":"secret', b'["secret"]'],
)
def test_a_body_that_is_refused_is_not_written_down(scene: Scene, raw: bytes) -> None:
    assert scene.send("/v1/messages:cancel", raw).status_code == 400
    assert scene.lines() == []


def test_a_query_is_written_down(scene: Scene) -> None:
    scene.ask("purgeTopic", query="?dry_run=true")
    assert [line["query"] for line in scene.lines()] == ["dry_run=true"] * 2


def test_a_query_that_is_not_known_is_refused_before_anything_is_written_down(scene: Scene) -> None:
    for query in ("?dry_run=true&secret=1", "?dry_run=" + "x" * 5000):
        assert scene.ask("purgeTopic", query=query).status_code == 400
    assert scene.lines() == []


def test_acts_are_numbered_without_gaps(scene: Scene) -> None:
    for principal in ("ann", None, "ann"):
        scene.ask("pauseTopic", principal)
    scene.send("/v1/messages:cancel", b"{")
    scene.ask("resumeTopic")
    assert [int(line["act"].split("-")[1], 16) for line in scene.lines()] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("id", ["getTopic", "listTopics", "listMessages", "getInfo"])
def test_what_changes_nothing_is_not_written_down(scene: Scene, id: str) -> None:
    assert scene.ask(id).status_code == 200
    assert scene.lines() == []


@pytest.mark.parametrize("id", ["purgeTopic", "cancelMessages", "createTopic"])
def test_who_may_not_is_one_line(scene: Scene, id: str) -> None:
    assert problem(scene.ask(id, "eve")) == (403, "not-allowed")
    (line,) = scene.lines()
    assert (line["event"], line["principal"], line["status"], line["left_out"]) == ("refused", "eve", 403, 0)
    assert line["topic"] is not None


def test_of_what_a_principal_may_not_a_bounded_part_is_written_down(scene: Scene) -> None:
    for _ in range(25):
        scene.ask("purgeTopic", "eve")
    assert len(scene.lines()) == 10
    assert scene.api.metric("delayline_access_acts_left_out_total") == 15
    scene.api.clock.advance(1000)
    for _ in range(2):
        scene.ask("purgeTopic", "eve")
    assert [line["left_out"] for line in scene.lines()[9:]] == [0, 15]
    scene.ask("purgeTopic", "ann")
    assert len(scene.lines()) == 13


def test_a_principal_without_rights_chooses_no_long_lines(scene: Scene) -> None:
    scene.ask("purgeTopic", "eve", path={"topic": "a" * 30_000}, query="?secret=1&dry_run=" + "b" * 30_000)
    (line,) = scene.lines()
    assert line["topic"] is None
    assert line["path"].endswith("(30017 characters)")
    assert "secret" not in line["query"]
    assert len(json.dumps(line)) < 1500


def test_a_topic_is_one_or_is_not_written_down_as_one(scene: Scene) -> None:
    scene.ask("purgeTopic", "eve", path={"topic": "a" * 249})
    scene.ask("purgeTopic", "eve", path={"topic": "a" * 250})
    scene.ask("purgeTopic", "eve", path={"topic": "%C2%9B31m%E2%80%AE"})
    assert [line["topic"] for line in scene.lines()] == ["a" * 249, None, None]


def test_lines_are_printable(scene: Scene) -> None:
    scene.send("/v1/messages:cancel", {"filter": {"topic": "orders", "key": "\x9b31m\u202eevil\u2028\x85\x7f"}})
    assert all(line.isprintable() for line in scene.file.read_text().removesuffix("\n").split("\n"))
    assert json.loads(scene.lines()[0]["body"])["filter"]["key"] == "\x9b31m\u202eevil\u2028\x85\x7f"


SENT = "/v1/topics/orders/messages"


def _replacing(own_id: str) -> dict[str, Any]:
    return {"value": "secret", "schedule": {"delay": "1h", "own_id": own_id, "on_conflict": "replace"}}


@pytest.mark.parametrize(
    ("body", "own_ids"),
    [
        (_replacing("order-7"), ["order-7"]),
        ({"messages": [_replacing("a"), {"value": "secret"}, _replacing("b")]}, ["a", "b"]),
    ],
)
def test_a_send_that_replaces_is_an_act(scene: Scene, body: Any, own_ids: list[str]) -> None:
    scene.access.allow(allowing("ann", "send", "cancel"))
    answer = scene.send(SENT + "?mode=async", body)
    asked, answered = scene.lines()
    assert (asked["event"], answered["event"], answered["status"]) == ("asked", "answered", answer.status_code)
    assert (asked["operation"], asked["topic"], asked["principal"]) == ("sendMessages", "orders", "ann")
    assert json.loads(asked["body"]) == {"own_ids": own_ids, "on_conflict": "replace"}
    assert "secret" not in scene.file.read_text()


def test_where_no_line_can_be_written_nothing_is_replaced(scene: Scene) -> None:
    scene.access.allow(allowing("ann", "send", "cancel"))
    scene.file.unlink()
    scene.file.mkdir()
    assert problem(scene.send(SENT + "?mode=async", _replacing("a"))) == (503, "not-ready")
    assert scene.api.queue.read("delayline.buffer.orders", "0", 0, 10) == []


def test_other_sends_are_not_written_down(scene: Scene) -> None:
    scene.access.allow(allowing("ann", "send", "cancel"))
    for schedule in (None, {"delay": "1h"}, {"delay": "1h", "own_id": "a"}):
        assert scene.send(SENT + "?mode=async", {"value": "x", "schedule": schedule}).status_code == 202
    assert scene.lines() == []


def test_requests_without_a_key_write_nothing(scene: Scene) -> None:
    assert scene.ask("purgeTopic", None).status_code == 401
    assert scene.lines() == []


def test_where_no_line_can_be_written_nothing_is_done(scene: Scene) -> None:
    scene.file.unlink()
    scene.file.mkdir()
    assert problem(scene.ask("pauseTopic")) == (503, "not-ready")
    assert scene.api.queue.read("delayline.buffer.orders", "0", 0, 10) == []
    assert scene.api.metric("delayline_access_acts_unwritten_total") == 1


def test_a_file_that_was_moved_away_is_made_anew(scene: Scene) -> None:
    scene.ask("pauseTopic")
    scene.file.rename(scene.file.with_name("before"))
    scene.ask("resumeTopic")
    assert [line["operation"] for line in scene.lines()] == ["resumeTopic"] * 2


def test_others_do_not_read_it(scene: Scene) -> None:
    scene.ask("pauseTopic")
    assert os.stat(scene.file).st_mode & 0o007 == 0
