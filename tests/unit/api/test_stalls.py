"""Why a shard has stalled, and letting it go on."""

from typing import Any

from delayline.questions.inquiry import Skip, StallReport, Suspected
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from tests.unit.api.in_memory import NOW_MS, Api, problem

SHARD = Shard("orders", "0")
PATH = "/v1/topics/orders/shards/0"
SKIP = {"reason": "unknown_format", "offset": 5, "through": 5, "by": "eva"}


def healthy(owner_timeout_s: float = 5.0) -> Api:
    api = Api(owner_timeout_s=owner_timeout_s)
    api.queue.ensure_topic("orders")
    api.queue.ensure_buffer("orders", DEFAULT_RULES)
    return api


def stalled() -> Api:
    api = healthy()
    api.owners.stalls[SHARD] = StallReport(
        SHARD, "unknown_format", "at offset 5: x", 5, 1, 9, "passes", "it", b"\xff"
    )
    return api


def test_a_stall_is_shown_with_what_skipping_would_do_and_lose() -> None:
    assert stalled().get(f"{PATH}/stall").json() == {
        "topic": "orders",
        "partition": 0,
        "reason": "unknown_format",
        "detail": "at offset 5: x",
        "offset": 5,
        "first_offset": 1,
        "end_offset": 9,
        "does": "passes",
        "loses": "it",
        "record": "/w==",
        "suspect": None,
    }


def test_the_record_that_no_commit_goes_through_with_is_named() -> None:
    api = healthy()
    suspect = Suspected(f"orders.0.5.{NOW_MS}", NOW_MS, 20 << 20, NOW_MS + 1, 4)
    api.owners.stalls[SHARD] = StallReport(SHARD, "commit", "timed out", 5, 1, 9, "buries", "it", suspect=suspect)
    answer = api.get(f"{PATH}/stall").json()
    assert (answer["reason"], answer["offset"]) == ("commit", 5)
    assert answer["suspect"] == {
        "id": f"orders.0.5.{NOW_MS}",
        "due_at": "2026-01-01T00:00:00.000Z",
        "bytes": 20 << 20,
        "since": "2026-01-01T00:00:00.001Z",
        "tries": 4,
    }


def test_a_healthy_shard_has_no_reason_and_no_way_out() -> None:
    answer = healthy().get(f"{PATH}/stall").json()
    assert (answer["reason"], answer["does"], answer["loses"], answer["record"]) == (None, None, None, None)


def test_a_skip_goes_to_the_owner_as_it_was_asked() -> None:
    api = stalled()
    answer = api.request("POST", f"{PATH}:skip", json=SKIP)
    assert (answer.status_code, api.owners.skips) == (200, [(SHARD, Skip("unknown_format", 5, 5, "eva"))])


def test_what_the_owner_refuses_is_a_conflict_with_the_reason() -> None:
    answer = healthy().request("POST", f"{PATH}:skip", json=SKIP)
    assert (problem(answer), answer.json()["detail"]) == ((409, "not-skipped"), "the shard is healthy")


def test_an_owner_that_does_not_answer_is_unavailable() -> None:
    api = healthy(owner_timeout_s=0.01)
    api.owners.silent = True
    assert problem(api.get(f"{PATH}/stall"))[0] == 503


def test_what_is_asked_is_checked() -> None:
    api = stalled()
    bodies: tuple[dict[str, Any], ...] = ({}, {**SKIP, "offset": -1}, {**SKIP, "by": "x" * 201}, {**SKIP, "more": 1})
    assert [api.request("POST", f"{PATH}:skip", json=body).status_code for body in bodies] == [400] * 4
    assert api.owners.skips == []
