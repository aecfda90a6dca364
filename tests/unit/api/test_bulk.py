"""Cancelling all that a filter matches: what enters the log, how much at once, and the answer."""

from dataclasses import replace
from typing import Any

import httpx
import pytest

from api import bulk
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import LAST_MS, Found, Listing, Place, Query, Resolution, Row, State
from delayline.records.message import MessageId, Shard
from mq.errors import QueueUnavailable
from tests.unit.api.in_memory import NOW_MS, Api, pointers, problem

PATH = "/v1/messages:cancel"
BUFFER = "delayline.buffer.orders"
SHARDS = tuple(Shard("orders", str(number)) for number in range(4))


def row(offset: int) -> Row:
    shard, due_ms = SHARDS[offset % 4], NOW_MS + 1000 + offset
    return Row(Place(due_ms, shard, offset), Found(MessageId(shard, offset, due_ms), State.PENDING, NOW_MS, due_ms))


class Pages:
    """Pages one behind the other, as an owner gives them: `of.owners.listings` is the next one when it is asked."""

    def __init__(self, of: Api, *pages: Listing) -> None:
        self._pages = list(pages)
        self._page = of.owners.page
        self._of = of
        self.queries: list[Query] = []

    def __call__(self, shards: Any, query: Query) -> Any:
        self.queries.append(query)
        self._of.owners.listings = [self._pages.pop(0)]
        return self._page(shards, query)


def api(*pages: Listing, **settings: Any) -> tuple[Api, Pages]:
    made = Api(**settings)
    made.queue.ensure_topic("orders")
    made.queue.ensure_buffer("orders", made.rules)
    asked = Pages(made, *pages)
    made.owners.page = asked
    return made, asked


def pages(count: int, each: int) -> list[Listing]:
    """`count` rows in pages of `each`."""
    rows = [row(offset) for offset in range(count)]
    starts = list(range(0, count, each))
    return [
        Listing(
            SHARDS,
            tuple(rows[start : start + each]),
            rows[start : start + each][-1].place if start != starts[-1] else None,
        )
        for start in starts
    ]


def cancel(of: Api, dry_run: bool = False, **wanted: Any) -> httpx.Response:
    return of.send({"filter": {"topic": "orders", **wanted}, "dry_run": dry_run}, PATH)


def answer(matched: int, cancelled: int = 0, too_late: int = 0, unknown: int = 0, **rest: Any) -> dict[str, Any]:
    counts = {"matched": matched, "cancelled": cancelled, "too_late": too_late, "unknown": unknown, "undo": None}
    return {**counts, "dry_run": False, "complete": True, "missing_shards": [], **rest}


def operations(of: Api) -> list[bytes]:
    return [dict(record.headers)[b"delay-ref"] or b"" for record in of.all_records(BUFFER)]


def test_every_match_gets_an_operation_in_its_own_partition() -> None:
    made, asked = api(*pages(10, 4))
    assert cancel(made).json() == answer(10, cancelled=10)
    assert sorted(operations(made)) == sorted(str(row(offset).found.id).encode() for offset in range(10))
    assert [record.headers[0] for record in made.records(BUFFER, "1")] == [(b"delay-op", b"cancel")] * 3
    assert [query.after for query in asked.queries] == [None, row(3).place, row(7).place]


def test_the_filter_reaches_the_owners() -> None:
    made, asked = api(*pages(1, 1))
    sent = cancel(made, key="ü", own_id="o", due_after="2026-01-01T01:00:00+01:00", due_before=NOW_MS + 9)
    assert sent.status_code == 200
    query = Query(State.PENDING, "ü".encode(), NOW_MS, NOW_MS + 9, None, bulk.CHUNK, "o")
    assert asked.queries == [query]


def test_without_more_than_a_topic_everything_that_waits_in_it_is_meant() -> None:
    made, asked = api(*pages(1, 1))
    cancel(made)
    assert asked.queries == [Query(due_until_ms=LAST_MS, limit=bulk.CHUNK)]


def test_a_dry_run_counts_and_writes_nothing() -> None:
    made, _ = api(*pages(10, 4))
    assert cancel(made, dry_run=True).json() == answer(10, dry_run=True)
    assert operations(made) == []


def test_what_has_ended_meanwhile_is_too_late() -> None:
    made, _ = api(*pages(4, 4))
    answers = iter([Resolution(Outcome.APPLIED), Resolution(Outcome.UNMATCHED), *[Resolution(Outcome.APPLIED)] * 2])
    made.owners.decide = lambda: next(answers)
    assert cancel(made).json() == answer(4, cancelled=3, too_late=1)


def test_no_more_is_appended_than_is_decided_and_a_shard_that_does_not_decide_ends_it() -> None:
    made, _ = api(*pages(20, 2), operation_timeout_s=0.02)
    made.owners.decide = lambda: None
    found = cancel(made).json()
    assert found == answer(2 * bulk.WINDOW, unknown=2 * bulk.WINDOW, complete=False)
    assert len(operations(made)) == 2 * bulk.WINDOW


def test_a_queue_that_takes_no_more_ends_it() -> None:
    made, _ = api(*pages(20, 2))
    made.queue.failure = QueueUnavailable("away")
    found = cancel(made).json()
    assert (found["cancelled"], found["complete"]) == (0, False)
    assert found["unknown"] == found["matched"] < 20


def test_a_shard_that_nobody_answers_for_is_named() -> None:
    made, _ = api(Listing(SHARDS[1:], (row(1),), None))
    assert cancel(made).json() == answer(
        1, cancelled=1, complete=False, missing_shards=[{"topic": "orders", "partition": 0}]
    )


@pytest.mark.parametrize("silent", [0, 1])
def test_a_shard_that_did_not_answer_for_one_of_the_pages_is_named(silent: int) -> None:
    listings = pages(4, 2)
    listings[silent] = replace(listings[silent], shards=SHARDS[:3])
    made, _ = api(*listings)
    found = cancel(made).json()
    assert (found["matched"], found["complete"]) == (4, False)
    assert found["missing_shards"] == [{"topic": "orders", "partition": 3}]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_client_that_hangs_up_ends_it(dry_run: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = api(*pages(40, 2))

    async def gone(_: object) -> bool:
        return len(asked.queries) >= 3

    monkeypatch.setattr("starlette.requests.Request.is_disconnected", gone)
    cancel(made, dry_run=dry_run)
    assert len(asked.queries) == 3
    assert len(operations(made)) == (0 if dry_run else 6)


@pytest.mark.parametrize(
    ("body", "kind", "pointer"),
    [
        ({}, "invalid-body", "/filter"),
        ({"filter": {}}, "invalid-body", "/filter/topic"),
        ({"filter": {"topic": "orders", "state": "pending"}}, "invalid-body", "/filter/state"),
        ({"filter": {"topic": "orders", "due_before": "soon"}}, "invalid-body", "/filter/due_before"),
        ({"filter": {"topic": "orders", "due_after": 17}}, "invalid-body", "/filter/due_after"),
        ({"filter": {"topic": "orders"}, "dry_run": "yes"}, "invalid-body", "/dry_run"),
    ],
)
def test_a_filter_that_cannot_be_is_pointed_at(body: dict[str, Any], kind: str, pointer: str) -> None:
    made, _ = api(*pages(1, 1))
    refused = made.send(body, PATH)
    assert problem(refused) == (400, kind)
    assert [one for one, _ in pointers(refused)] == [pointer]
    assert operations(made) == []


@pytest.mark.parametrize(("topic", "status"), [("nothing", 404), ("delayline.dead", 404), ("a b", 400)])
def test_a_topic_that_is_none_is_refused(topic: str, status: int) -> None:
    made, _ = api(*pages(1, 1))
    assert cancel(made, topic=topic).status_code == status


def test_a_topic_without_delayed_messages_has_nothing_to_cancel_and_gets_no_buffer() -> None:
    made = Api()
    made.queue.ensure_topic("orders")
    assert cancel(made).json() == answer(0)
    assert BUFFER not in made.queue.topics()
