"""Who did what: the lines of acts, in the order in which they were tried."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

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

    def ask(self, id: str, principal: str | None = "ann", query: str = "") -> Any:
        headers: dict[str, Any] = {} if principal is None else {"authorization": self.access.header(principal)}
        return ask(self.api, id, query, x_request_id="of-a-test", **headers)

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


def test_what_bodies_ask_for_is_in_the_second_line(scene: Scene) -> None:
    scene.ask("cancelMessages")
    assert json.loads(scene.lines()[1]["body"])["filter"]["topic"] == "orders"


def test_a_query_is_written_down(scene: Scene) -> None:
    scene.ask("purgeTopic", query="?dry_run=true")
    assert [line["query"] for line in scene.lines()] == ["dry_run=true"] * 2


@pytest.mark.parametrize("id", ["getTopic", "listTopics", "listMessages", "getInfo"])
def test_what_changes_nothing_is_not_written_down(scene: Scene, id: str) -> None:
    assert scene.ask(id).status_code == 200
    assert scene.lines() == []


def test_who_may_not_is_written_down_with_the_refusal(scene: Scene) -> None:
    assert problem(scene.ask("purgeTopic", "eve")) == (403, "not-allowed")
    assert [(line["principal"], line.get("status")) for line in scene.lines()] == [("eve", None), ("eve", 403)]


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
