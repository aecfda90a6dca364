"""Who did what, in the topic of the installation: the lines there, and reading them."""

import json
from typing import Any

import pytest

from api.reading import own_topic
from delayline.records.record import encode_body
from mq.contract import Append
from mq.errors import QueueUnavailable
from tests.unit.api.access.held import HeldAccess, allowing
from tests.unit.api.in_memory import NOW_MS, Api, pointers, problem
from tests.unit.api.situations import api, ask

OPERATORS = "delayline.operators"
ACTS = "/v1/acts"


class Scene:
    def __init__(self, **settings: Any) -> None:
        rules = (
            allowing("ann", "cancel", "control") + allowing("bob", "control") + allowing("root", "admin", topics="*")
        )
        self.access = HeldAccess(rules, "ann", "bob", "eve", "root")
        self.api: Api = api(access=self.access, act_topic=True, keeps_acts=True, **settings)

    def ask(self, id: str, principal: str = "ann", **headers: Any) -> Any:
        answer = ask(self.api, id, authorization=self.access.header(principal), **headers)
        self.api.clock.advance(1000)
        return answer

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"") for record in self.api.all_records(OPERATORS)]

    def read(self, **query: Any) -> Any:
        return self.api.get(ACTS, params=query, headers={"authorization": self.access.header("root")})

    def listed(self, **query: Any) -> list[tuple[str, str, int | None]]:
        """What stands on all pages."""
        found: list[tuple[str, str, int | None]] = []
        before: str | None = None
        while True:
            page = self.read(**query, **({} if before is None else {"before": before})).json()
            found += [(line["operation"], line["event"], line.get("status")) for line in page["acts"]]
            if (before := page["next_before"]) is None:
                return found


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_act_is_two_records_with_its_principal_as_the_key(scene: Scene) -> None:
    scene.ask("purgeTopic")
    records = scene.api.all_records(OPERATORS)
    assert [record.key for record in records] == [b"ann"] * 2
    asked, answered = scene.lines()
    assert (asked["event"], answered["event"], answered["status"]) == ("asked", "answered", 200)
    assert asked["act"] == answered["act"]
    assert asked["topic"] == answered["topic"] == "orders"


def test_acts_have_names_of_their_own_whatever_the_client_calls_its_requests(scene: Scene) -> None:
    for _ in range(2):
        scene.ask("pauseTopic", x_request_id="the same")
    assert len({line["act"] for line in scene.lines()}) == 2


def test_where_the_topic_takes_nothing_nothing_is_done(scene: Scene) -> None:
    scene.ask("pauseTopic")
    before = scene.api.queue.offsets("delayline.buffer.orders", "0")
    scene.api.queue.failure = QueueUnavailable("away")
    assert problem(scene.ask("resumeTopic")) == (503, "not-ready")
    scene.api.queue.failure = None
    assert scene.api.queue.offsets("delayline.buffer.orders", "0") == before
    assert scene.api.metric("delayline_access_acts_unwritten_total") == 1
    assert scene.ask("resumeTopic").status_code == 200


def test_after_a_failure_partitions_that_are_down_are_left_out(scene: Scene) -> None:
    scene.ask("pauseTopic")
    queue = scene.api.queue
    (home,) = [name for name in queue.topic(OPERATORS).partitions if queue.offsets(OPERATORS, name)[1]]
    known, whole = queue.topic, queue.topic(OPERATORS)
    queue.topic = lambda name: whole._replace(down=frozenset({home})) if name == OPERATORS else known(name)
    queue.failure = QueueUnavailable("away")
    assert scene.ask("resumeTopic").status_code == 503
    queue.failure = None
    assert scene.ask("resumeTopic").status_code == 200
    assert queue.offsets(OPERATORS, home)[1] == 2
    assert len(scene.lines()) == 4


def test_the_first_line_is_durable_before_anything_is_done(scene: Scene) -> None:
    """It waits for the queue: what is appended for the act comes behind it."""
    seen: list[int] = []
    append_each = scene.api.queue.append_each

    def noted(requests: Any) -> None:
        if any(record.topic == "delayline.buffer.orders" for request in requests for record in request.records):
            seen.append(len(scene.lines()))
        append_each(requests)

    scene.api.queue.append_each = noted
    scene.ask("pauseTopic")
    assert seen == [1]


def test_nothing_of_messages_is_written_down(scene: Scene) -> None:
    scene.api.send({"value": "secret-value", "key": "secret-key"})
    for id in ("cancelMessages", "redriveDeadLetters", "purgeTopic"):
        scene.ask(id)
    assert all(b"secret" not in (record.value or b"") for record in scene.api.all_records(OPERATORS))


def test_the_list_is_newest_first_over_all_principals_and_pages(scene: Scene) -> None:
    for principal, id in (("ann", "pauseTopic"), ("bob", "resumeTopic"), ("eve", "purgeTopic")):
        scene.ask(id, principal)
    wanted = [("resumeTopic", 200), ("pauseTopic", 200)]
    by_hand = [line for id, status in wanted for line in ((id, "answered", status), (id, "asked", None))]
    by_hand.append(("purgeTopic", "refused", 403))
    for limit in (1, 2, 100):
        found = scene.listed(limit=limit)
        assert sorted(found, key=str) == sorted(by_hand, key=str)
        assert [id for id, event, _ in found if event != "asked"] == ["purgeTopic", "resumeTopic", "pauseTopic"]


@pytest.mark.parametrize(
    ("query", "operations"),
    [
        ({"principal": "ann"}, {"pauseTopic", "cancelMessages"}),
        ({"operation": "resumeTopic"}, {"resumeTopic"}),
        ({"topic": "orders"}, {"pauseTopic", "resumeTopic", "cancelMessages"}),
        ({"topic": "other"}, set()),
        ({"since": NOW_MS + 1000}, {"resumeTopic", "cancelMessages"}),
        ({"until": NOW_MS + 1000}, {"pauseTopic"}),
        ({"since": NOW_MS + 1000, "until": NOW_MS + 2000}, {"resumeTopic"}),
    ],
)
def test_a_list_can_be_narrowed(scene: Scene, query: dict[str, Any], operations: set[str]) -> None:
    scene.ask("pauseTopic")
    scene.ask("resumeTopic", "bob")
    scene.ask("cancelMessages")
    assert {id for id, _, _ in scene.listed(**query)} == operations


def test_a_page_passes_over_a_bounded_number_of_lines(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_topic, "LOOKED_MAX", 3)
    scene.ask("resumeTopic", "bob")
    for _ in range(4):
        scene.ask("pauseTopic")
    first = scene.read(principal="bob").json()
    assert (first["acts"], first["next_before"] is None) == ([], False)
    assert [event for _, event, _ in scene.listed(principal="bob")] == ["answered", "asked"]


def test_records_of_others_are_passed_over_and_fields_of_later_versions_too(scene: Scene) -> None:
    scene.ask("pauseTopic")
    later = {**scene.lines()[0], "later": 1}
    for body in (b"\xff", encode_body(None, b"no line"), encode_body(None, json.dumps(later).encode())):
        scene.api.queue.append([Append(OPERATORS, "0", body)]).result()
    assert len(scene.listed()) == 3


@pytest.mark.parametrize("pointer", ["?before", "?since", "?limit"])
def test_what_is_no_page_is_refused(scene: Scene, pointer: str) -> None:
    answer = scene.read(**{pointer[1:]: "x"})
    assert problem(answer) == (400, "invalid-request")
    assert pointers(answer)[0][0] == pointer


def test_a_list_shows_whether_acts_are_kept_there(scene: Scene) -> None:
    assert scene.read().json()["kept"] is True
    assert api().get(ACTS).json() == {"acts": [], "next_before": None, "kept": False}


def test_the_records_of_the_topic_are_nobodys_to_read_otherwise(scene: Scene) -> None:
    scene.access.allow(allowing("ann", "payload", topics="*"))
    scene.api.get(ACTS)
    answer = ask(scene.api, "readRecords", path={"topic": OPERATORS}, authorization=scene.access.header("ann"))
    assert problem(answer) == (404, "topic-unknown")
