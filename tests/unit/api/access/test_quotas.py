"""What a quota refuses over HTTP, and what it lets pass."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from delayline.access.acts import Act
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Held, RequestedNames, Resolution
from tests.unit.api.access.held import HeldAccess, allowing
from tests.unit.api.in_memory import MESSAGES, Api, pointers, problem
from tests.unit.api.reading.test_dead import bury
from tests.unit.api.situations import ENDPOINTS, api, ask

LATER = {"value": 1, "schedule": {"delay": "1h"}}


class Scene:
    """Ann, with a quota, and Bob, with none."""

    def __init__(self, *limits: str, **settings: Any) -> None:
        self.rules = allowing("*", *Act, topics="*")
        self.access = HeldAccess(self.rules, "ann", "bob")
        self.limit(*limits)
        self.api = api(access=self.access, **settings)

    def limit(self, *limits: str) -> None:
        lines = "\n".join(limits)
        self.access.allow(f"{self.rules}[[quota]]\nprincipals = ['ann']\n{lines}\n")

    def headers(self, who: str = "ann") -> dict[str, Any]:
        return {"authorization": self.access.header(who)}

    def send(self, body: Any = LATER, who: str = "ann", path: str = MESSAGES) -> httpx.Response:
        return self.api.send(body, path, headers=self.headers(who))

    def wait(self, answer: httpx.Response) -> None:
        self.api.clock.advance(1000 * int(answer.headers["retry-after"]))

    @property
    def bytes(self) -> float:
        return self.api.metric("delayline_quota_bytes_total", entrance="http", quota="ann")

    def refused(self, limit: str) -> float:
        return self.api.metric("delayline_quota_refused_total", entrance="http", quota="ann", limit=limit)


def test_beyond_the_burst_the_answer_names_the_quota_and_how_long_to_wait() -> None:
    scene = Scene("requests_per_second = 1", "requests_burst = 2")
    assert [scene.send().status_code for _ in range(2)] == [201, 201]
    answer = scene.send()
    assert problem(answer) == (429, "quota-exceeded")
    assert answer.json()["quota"] == "requests_per_second"
    assert "`requests_per_second` of ann" in answer.json()["detail"]
    assert answer.headers["retry-after"] == "1"
    assert scene.refused("requests_per_second") == 1
    scene.wait(answer)
    assert scene.send().status_code == 201


def test_the_wait_is_in_whole_seconds_and_enough() -> None:
    scene = Scene('bytes_per_second = "1KiB"', 'bytes_burst = "1KiB"')
    assert scene.send({"value": "x" * 5000}).status_code == 201
    answer = scene.send()
    assert problem(answer) == (429, "quota-exceeded")
    assert answer.json()["quota"] == "bytes_per_second"
    assert answer.headers["retry-after"] == "4"
    scene.api.clock.advance(3000)
    assert scene.send().status_code == 429
    scene.api.clock.advance(1000)
    assert scene.send().status_code == 201


def test_others_are_not_slowed_down() -> None:
    scene = Scene("requests_per_second = 1", "requests_burst = 1")
    scene.send()
    assert scene.send().status_code == 429
    assert {scene.send(who="bob").status_code for _ in range(20)} == {201}


@pytest.mark.parametrize("id", sorted(id for id in ENDPOINTS if ENDPOINTS[id][2]["security"] != [{}]))
def test_every_endpoint_that_needs_a_principal_counts(id: str) -> None:
    """But for metrics: who watches must not go blind."""
    scene = Scene("requests_per_second = 1", "requests_burst = 1")
    scene.send()
    status = ask(scene.api, id, **scene.headers()).status_code
    assert (status == 429) == (id != "getMetrics")


def test_without_a_quota_for_the_principal_nothing_is_limited() -> None:
    scene = Scene("requests_per_second = 1", "requests_burst = 1")
    scene.access.allow(scene.rules + "[[quota]]\nprincipals = ['eve']\nrequests_per_second = 1\n")
    assert {scene.send().status_code for _ in range(20)} == {201}


def test_without_keys_there_are_no_quotas_over_http() -> None:
    assert {Api().send(LATER).status_code for _ in range(3)} == {201}
    shown = Api().get("/v1/quotas").json()
    assert shown == {"over_http": False, "quotas": [], "principals": [], "complete": True}


def test_a_change_of_the_file_counts_at_once_and_forgives_nothing() -> None:
    scene = Scene("requests_per_second = 1", "requests_burst = 1")
    scene.send()
    scene.limit("requests_per_second = 1", "requests_burst = 1", "pending_max = 7")
    assert scene.send().status_code == 429
    scene.limit("requests_per_second = 1", "requests_burst = 2")
    assert scene.send().status_code == 201


def test_no_byte_of_a_body_is_read_where_it_is_refused() -> None:
    scene = Scene('bytes_per_second = "1B"', 'bytes_burst = "1B"')
    assert scene.send().status_code == 201
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read += 1
        yield b"{}"

    kind = {"content-type": "application/json"}
    answer = scene.api.request("POST", MESSAGES, content=body(), headers={**scene.headers(), **kind})
    assert problem(answer) == (429, "quota-exceeded")
    assert read == 0


def test_bytes_are_counted_as_they_are_read_also_of_a_body_that_is_refused() -> None:
    scene = Scene('bytes_per_second = "1B"', 'bytes_burst = "100B"', body_bytes_max=1000)

    async def body() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 100

    kind = {"content-type": "application/json"}
    answer = scene.api.request("POST", MESSAGES, content=body(), headers={**scene.headers(), **kind})
    assert answer.status_code == 413
    assert scene.bytes == 1100
    assert scene.send().status_code == 429


def test_what_has_no_body_needs_no_bytes() -> None:
    scene = Scene('bytes_per_second = "1B"', 'bytes_burst = "1B"')
    scene.send()
    assert ask(scene.api, "listTopics", **scene.headers()).status_code == 200


def test_of_many_requests_at_once_no_more_pass_than_the_bucket_has() -> None:
    scene = Scene("requests_per_second = 1", "requests_burst = 5")

    async def work(http: httpx.AsyncClient) -> list[httpx.Response]:
        return await asyncio.gather(*(http.post(MESSAGES, json=LATER, headers=scene.headers()) for _ in range(20)))

    statuses = [answer.status_code for answer in scene.api.run(work)]
    assert (statuses.count(201), statuses.count(429)) == (5, 15)


@pytest.mark.parametrize(
    ("schedule", "limit"),
    [
        ({"delay": "2d"}, "horizon_max"),
        ({"deliver_at": "2026-01-03T00:00:00Z"}, "horizon_max"),
        ({"every": "1h"}, "times_max"),
        ({"every": "1h", "times": 4}, "times_max"),
        ({"cron": "* * * * *"}, "times_max"),
        ({"delay": "1d"}, None),
        ({"every": "1h", "times": 3}, None),
        ({"delay": "0s"}, None),
    ],
)
def test_how_far_ahead_and_how_often(schedule: Any, limit: str | None) -> None:
    scene = Scene('horizon_max = "1d"', "times_max = 3")
    answer = scene.send({"value": 1, "schedule": schedule})
    assert scene.send({"value": 1, "schedule": schedule}, who="bob").status_code == 201
    if limit is None:
        assert answer.status_code == 201
        return
    assert problem(answer) == (400, "quota-exceeded")
    assert answer.json()["quota"] == limit
    assert pointers(answer) == [("/schedule", "quota-exceeded")]
    assert "retry-after" not in answer.headers


def test_the_waits_of_a_retry_are_the_operators_choice() -> None:
    scene = Scene('horizon_max = "1ms"')
    assert scene.send({"value": 1, "schedule": {"retry": "billing"}}).status_code == 201


@pytest.mark.parametrize("id", ["rescheduleMessage", "rescheduleOwn", "redriveDeadLetters"])
def test_what_moves_a_message_is_bounded_too(id: str) -> None:
    scene = Scene('horizon_max = "1d"')
    body: dict[str, Any] = {"all": True} if id == "redriveDeadLetters" else {}
    far, near = ({**body, "schedule": {"delay": delay}} for delay in ("2d", "1h"))
    answer = ask(scene.api, id, body=far, **scene.headers())
    assert (*problem(answer), answer.json()["quota"]) == (400, "quota-exceeded", "horizon_max")
    assert ask(scene.api, id, body=near, **scene.headers()).status_code == 200


def test_a_batch_with_a_member_beyond_the_horizon_is_stored_whole_or_not_at_all() -> None:
    scene = Scene('horizon_max = "1d"')
    far = {"value": 2, "schedule": {"delay": "2d"}}
    answer = scene.send({"messages": [LATER, far]})
    assert answer.status_code == 400
    assert pointers(answer) == [("/messages/1/schedule", "quota-exceeded")]
    assert scene.api.all_records("delayline.buffer.orders") == []


@pytest.mark.parametrize("atomic", [True, False])
def test_of_a_batch_that_pending_max_has_no_room_for_nothing_is_stored(atomic: bool) -> None:
    scene = Scene("pending_max = 10")
    scene.api.pending["orders"] = 9
    answer = scene.send({"messages": [LATER, LATER], "atomic": atomic})
    assert (*problem(answer), answer.json()["quota"]) == (429, "quota-exceeded", "pending_max")
    assert scene.api.all_records("delayline.buffer.orders") == []
    assert scene.refused("pending_max") == 1
    assert scene.send({"messages": [LATER, {"value": 2}], "atomic": atomic}).status_code in (200, 201)
    scene.api.pending["orders"] = 10
    assert scene.send({"value": 1}).status_code == 201
    assert scene.send(who="bob").status_code == 201


def test_a_request_that_was_accepted_before_finds_room() -> None:
    scene = Scene("pending_max = 1")
    scene.api.pending["orders"] = 5
    scene.api.owners.names[RequestedNames("order-7", None)] = Held.MESSAGE
    scene.api.owners.decide = lambda: Resolution(Outcome.APPLIED)
    again = {"value": 1, "schedule": {"delay": "1h", "own_id": "order-7"}}
    assert scene.send(again).status_code == 201


def test_topics_that_are_made_count_and_those_that_are_there_do_not() -> None:
    scene = Scene("topics_per_hour = 2")
    assert scene.send(path="/v1/topics/first/messages").status_code == 201
    assert ask(scene.api, "createTopic", body={"name": "second"}, **scene.headers()).status_code == 201
    for answer in (
        scene.send(path="/v1/topics/third/messages"),
        ask(scene.api, "createTopic", body={"name": "third"}, **scene.headers()),
    ):
        assert (*problem(answer), answer.json()["quota"]) == (429, "quota-exceeded", "topics_per_hour")
        assert answer.headers["retry-after"] == "1800"
    assert "third" not in scene.api.queue.topics()
    assert scene.send(path="/v1/topics/first/messages").status_code == 201
    assert scene.send().status_code == 201
    assert scene.send(path="/v1/topics/third/messages", who="bob").status_code == 201


def test_a_topic_that_was_not_made_does_not_count() -> None:
    scene = Scene("topics_per_hour = 1")
    assert problem(ask(scene.api, "createTopic", body={"name": "orders"}, **scene.headers())) == (409, "topic-exists")
    assert ask(scene.api, "createTopic", body={"name": "first"}, **scene.headers()).status_code == 201


def test_what_is_refused_for_a_quota_does_not_fill_the_log_of_acts(tmp_path: Path) -> None:
    log = tmp_path / "acts.jsonl"
    scene = Scene("requests_per_second = 1", "requests_burst = 1", act_log=log)
    for _ in range(5):
        ask(scene.api, "pauseTopic", **scene.headers())
    assert log.read_text().count('"asked"') == 1


@pytest.mark.parametrize("named", [True, False])
def test_redriven_letters_count_like_bytes_that_were_sent(named: bool) -> None:
    scene = Scene('bytes_per_second = "1B"', 'bytes_burst = "1KiB"')
    letters = [bury(scene.api, number, value=b"x" * 1000) for number in range(2)]
    body: dict[str, Any] = {"ids": letters} if named else {"all": True}
    looked = ask(scene.api, "redriveDeadLetters", body={**body, "dry_run": True}, **scene.headers())
    assert looked.json()["matched"] == 2
    before = scene.bytes
    assert before < 200
    assert ask(scene.api, "redriveDeadLetters", body=body, **scene.headers()).json()["redriven"] == 2
    assert 2000 < scene.bytes - before < 2500
    assert problem(ask(scene.api, "redriveDeadLetters", body=body, **scene.headers())) == (429, "quota-exceeded")


def test_who_may_sees_the_quotas_and_what_is_used_of_them() -> None:
    scene = Scene("requests_per_second = 1", "requests_burst = 2", 'bytes_per_second = "1B"', 'bytes_burst = "2KiB"')
    for _ in range(3):
        scene.send()
    sent = b'{"value":1,"schedule":{"delay":"1h"}}'
    shown = ask(scene.api, "getQuotas", **scene.headers("bob")).json()
    rates = {"requests_per_second": "1", "requests_burst": "2"}
    limits = {"bytes_per_second": "1B", "bytes_burst": "2KiB", **rates}
    assert shown == {
        "over_http": True,
        "quotas": [{"principals": ["ann"], "limits": limits}],
        "principals": [
            {
                "principal": "ann",
                "entrance": "http",
                "limits": limits,
                "used": [
                    {"limit": "bytes_per_second", "used": 2 * len(sent), "burst": 2048},
                    {"limit": "requests_per_second", "used": 2, "burst": 2},
                ],
                "throttled": 1,
            }
        ],
        "complete": True,
    }
