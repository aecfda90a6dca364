"""Pausing, resuming and purging a topic: what enters the log, and the answer."""

from collections.abc import Callable
from typing import Any

import pytest

from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import DueCounts, Resolution, ShardFigures
from delayline.records.headers import CONTROL
from delayline.records.message import Shard
from mq.errors import QueueUnavailable
from tests.unit.api.in_memory import Api, pointers, problem

BUFFER = "delayline.buffer.orders"
SHARDS = [Shard("orders", str(number)) for number in range(4)]
KINDS = ["pause", "resume", "purge"]


def path(kind: str, topic: str = "orders") -> str:
    return f"/v1/topics/{topic}:{kind}"


def api(**settings: Any) -> Api:
    made = Api(**settings)
    made.queue.ensure_topic("orders")
    return made


def deciding(*counts: int | None) -> Callable[[], Resolution | None]:
    """One decision after the other; None: it is not decided."""
    left = iter(counts)

    def decide() -> Resolution | None:
        count = next(left)
        return None if count is None else Resolution(Outcome.APPLIED, count=count)

    return decide


def written(of: Api, kind: str) -> list[list[tuple[bytes, bytes | None]]]:
    expected = [(CONTROL, kind.encode())]
    found = [record.headers for partition in "0123" for record in of.records(BUFFER, partition)]
    assert all(headers == expected for headers in found)
    return found


@pytest.mark.parametrize(("kind", "state"), [("pause", "paused"), ("resume", "resumed")])
def test_every_shard_gets_a_record_and_all_have_decided_it(kind: str, state: str) -> None:
    made = api()
    answer = made.request("POST", path(kind))
    body = {"topic": "orders", "state": state, "shards": 4, "complete": True, "missing_shards": []}
    assert (answer.status_code, answer.json()) == (200, body)
    assert len(written(made, kind)) == 4
    assert made.owners.operations == [(shard, 0) for shard in SHARDS]


def test_a_purge_counts_how_many_it_has_cancelled() -> None:
    made = api()
    made.owners.decide = deciding(5, 0, 7, 1)
    answer = made.request("POST", path("purge"))
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "topic": "orders",
            "matched": 13,
            "cancelled": 13,
            "dry_run": False,
            "complete": True,
            "missing_shards": [],
            "undo": None,
        },
    )
    assert len(written(made, "purge")) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_shards_that_do_not_decide_in_time_are_named(kind: str) -> None:
    made = api(operation_timeout_s=0.02)
    made.owners.decide = deciding(2, None, 3, None)
    answer = made.request("POST", path(kind))
    missing = [{"topic": "orders", "partition": 1}, {"topic": "orders", "partition": 3}]
    assert answer.status_code == 202
    assert (answer.json()["complete"], answer.json()["missing_shards"]) == (False, missing)
    assert answer.json().get("cancelled", answer.json().get("shards")) == (5 if kind == "purge" else 2)


def test_a_dry_run_counts_what_waits_and_writes_nothing() -> None:
    made = api()
    made.queue.ensure_buffer("orders", made.rules)
    made.owners.counts = [DueCounts(shard, (1, 2, 7)) for shard in SHARDS if shard.partition != "2"]
    answer = made.request("POST", path("purge"), params={"dry_run": "true"})
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "topic": "orders",
            "matched": 30,
            "cancelled": 0,
            "dry_run": True,
            "complete": False,
            "missing_shards": [{"topic": "orders", "partition": 2}],
            "undo": None,
        },
    )
    assert written(made, "purge") == []


def test_a_dry_run_counts_in_shards_of_which_there_are_no_figures_yet() -> None:
    """Figures are half a second old: the first message of a topic is not in them at first."""
    made = api()
    made.queue.ensure_buffer("orders", made.rules)
    made.owners.shards = [ShardFigures(SHARDS[0], ready=True, owner_epoch=1, pending=0)]
    made.owners.counts = [DueCounts(shard, (0, 0, 1)) for shard in SHARDS]
    answer = made.request("POST", path("purge"), params={"dry_run": "true"}).json()
    assert (answer["matched"], answer["complete"], answer["missing_shards"]) == (4, True, [])
    (asked,) = made.owners.asked
    assert asked[0] == SHARDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("nothing", (404, "topic-unknown")),
        ("delayline.audit", (404, "topic-unknown")),
        ("a b", (400, "invalid-request")),
        ("plain", (400, "topic-not-enabled")),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_not_made(kind: str, topic: str, expected: tuple[int, str]) -> None:
    made = api()
    made.queue.ensure_topic("plain")
    topics = made.queue.topics()
    assert problem(made.request("POST", path(kind, topic))) == expected
    assert made.queue.topics() == topics


@pytest.mark.parametrize(
    ("kind", "query", "fault"),
    [
        ("pause", "?dry_run=true", ("?dry_run", "unknown-parameter")),
        ("purge", "?dry_run=yes", ("?dry_run", "invalid-value")),
        ("purge", "?wait=1s", ("?wait", "unknown-parameter")),
    ],
)
def test_a_parameter_that_is_not_known_is_refused(kind: str, query: str, fault: tuple[str, str]) -> None:
    made = api()
    assert pointers(made.request("POST", path(kind) + query)) == [fault]
    assert BUFFER not in made.queue.topics()


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_is_not_ignored(kind: str) -> None:
    made = api()
    assert problem(made.request("POST", path(kind), json={"dry_run": True})) == (400, "invalid-body")
    assert BUFFER not in made.queue.topics()


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_that_takes_nothing_is_reported(kind: str) -> None:
    made = api()
    made.queue.failure = QueueUnavailable("away")
    assert problem(made.request("POST", path(kind))) == (503, "queue-unavailable")


def test_a_topic_reports_paused() -> None:
    made = api()
    made.queue.ensure_buffer("orders", made.rules)
    made.owners.shards = [
        ShardFigures(shard, ready=True, owner_epoch=1, paused=shard.partition == "1") for shard in SHARDS
    ]
    topic = made.get("/v1/topics/orders").json()
    assert (topic["paused"], [shard["paused"] for shard in topic["shards"]]) == (True, [False, True, False, False])
    made.owners.shards = []
    assert made.get("/v1/topics/orders").json()["paused"] is None
