"""POST /v1/topics/{topic}:undo, and what a purge and a bulk cancel answer and write for it."""

from typing import Any

import httpx
import pytest

from api import undoing
from api.reading import own_topic
from api.undoing import Purged
from delayline.buffer.outcome import Outcome
from delayline.buffer.undo import encode_copy
from delayline.names import Names
from delayline.questions.inquiry import Resolution
from delayline.records.headers import UNDO
from delayline.records.record import encode_body, pack, split_directives
from mq.contract import Append
from mq.errors import ClaimLost
from tests.unit.api.in_memory import NOW_MS, Api, pointers, problem
from tests.unit.api.situations import ID, api, ask
from tests.unit.api.test_bulk import cancel

MINUTE_MS = 60_000
BUFFER = "delayline.buffer.orders"
PURGED = "delayline.purged"
UNDO_FOR = {"undo_ms": 10 * MINUTE_MS}


def undoable(**settings: Any) -> Api:
    made = api(**{**UNDO_FOR, **settings})
    made.owners.decide = lambda: Resolution(Outcome.APPLIED, count=1)
    return made


def purge(of: Api, query: str = "") -> Any:
    return ask(of, "purgeTopic", query).json()


def undo(of: Api, id: str, topic: str = "orders") -> httpx.Response:
    return of.request("POST", f"/v1/topics/{topic}:undo", params={"id": id})


def kept(of: Api, id: str, count: int = 1, partition: str = "0", topic: str = "orders") -> None:
    """Copies, as a shard writes them."""
    for number in range(count):
        value = b"\x00" + pack(split_directives(encode_body(None, b"%d" % number), frozenset()), NOW_MS)
        body = encode_copy(value, f"{topic}.3.{number}.{NOW_MS + MINUTE_MS}", NOW_MS + MINUTE_MS, id, None)
        of.queue.append([Append(PURGED, partition, body)]).result()


def headers(of: Api, topic: str, partition: str = "0") -> list[bytes | None]:
    return [dict(record.headers).get(UNDO) for record in of.records(topic, partition)]


def test_a_purge_answers_how_to_undo_it_and_its_records_carry_the_id() -> None:
    of = undoable()
    found = purge(of)["undo"]
    assert found == {"id": "0.0", "until": "2026-01-01T00:10:00.000Z"}
    for partition in "0123":
        assert headers(of, BUFFER, partition) == [b"0.0"]


def test_a_bulk_cancel_does_as_well() -> None:
    of = undoable()
    found = cancel(of).json()["undo"]
    assert found["id"] == "0.0"
    assert b"0.0" in headers(of, BUFFER, ID.shard.partition)


@pytest.mark.parametrize(("query", "undo_ms"), [("?undo=false", 1000), ("?dry_run=true", 1000), ("", 0)])
def test_nothing_is_kept_where_that_is_not_wanted(query: str, undo_ms: int) -> None:
    of = undoable(undo_ms=undo_ms)
    assert purge(of, query)["undo"] is None
    assert of.all_records(PURGED) == []
    assert set(headers(of, BUFFER)) <= {None}


def test_a_bulk_cancel_without_copies_carries_no_id() -> None:
    of = undoable()
    asked = {"filter": {"topic": "orders"}, "undo": False}
    assert of.send(asked, "/v1/messages:cancel").json()["undo"] is None
    assert headers(of, BUFFER, ID.shard.partition) == [None]


def test_it_is_answered_also_where_an_owner_knows_of_nothing_that_has_ended() -> None:
    """One that took the shard over between two commits of a purge counts its own only."""
    of = undoable()
    of.owners.decide = lambda: Resolution(Outcome.APPLIED, count=0)
    assert purge(of)["undo"]["id"] == "0.0"


def test_what_was_kept_is_sent_to_the_partition_that_it_was_in_and_once() -> None:
    of = undoable()
    id = purge(of)["undo"]["id"]
    kept(of, id, 3)
    kept(of, "0.77", 2)
    answers = [undo(of, id).json() for _ in range(2)]
    assert answers == [
        {"topic": "orders", "id": id, "restored": 3, "restored_before": 0},
        {"topic": "orders", "id": id, "restored": 0, "restored_before": 3},
    ]
    assert [record.value for record in of.records(BUFFER, "3")][1:] == [b"0", b"1", b"2"]


def test_its_time_ends_by_the_clock_of_the_queue() -> None:
    of = undoable()
    first, second = (purge(of)["undo"]["id"] for _ in range(2))
    kept(of, first)
    kept(of, second)
    of.clock.advance(10 * MINUTE_MS)
    assert undo(of, first).json()["restored"] == 1
    of.clock.advance(1)
    assert problem(undo(of, second)) == (410, "undo-over")


def test_its_time_begins_anew_where_a_shard_cancels_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_topic, "LOOKED_MAX", 2)
    of = undoable()
    id = purge(of)["undo"]["id"]
    of.clock.advance(20 * MINUTE_MS)
    kept(of, id)
    kept(of, "0.77", 5)
    of.clock.advance(10 * MINUTE_MS)
    assert undo(of, id).json()["restored"] == 1


def test_an_undo_that_has_begun_in_time_can_be_finished_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undoing, "CHUNK", 2)
    of = undoable()
    id = purge(of)["undo"]["id"]
    kept(of, id, 3)
    of.clock.advance(10 * MINUTE_MS)
    purged = Purged(of.queue, of.queue, of.queue.claim, Names("delayline"))
    opened = purged.find("orders", id)
    assert opened is not None
    begun = purged.restoring(opened)
    while not begun.back:
        begun.step()
    of.clock.advance(10 * MINUTE_MS)
    answer = undo(of, id).json()
    assert (answer["restored"], answer["restored_before"]) == (1, 2)


def test_a_topic_that_was_deleted_and_made_again_gets_nothing_back() -> None:
    of = undoable()
    id = purge(of)["undo"]["id"]
    kept(of, id)
    known = of.queue.topic
    of.queue.topic = lambda name: known(name)._replace(topic_id=bytes(16)) if name == "orders" else known(name)
    assert problem(undo(of, id)) == (410, "undo-over")


@pytest.mark.parametrize(
    ("topic", "id", "status"), [("orders", "0.9", 404), ("mails", "0.0", 404), ("x y", "0.0", 400)]
)
def test_an_undo_that_is_none_is_refused(topic: str, id: str, status: int) -> None:
    of = undoable()
    of.queue.ensure_topic("mails")
    purge(of)
    assert undo(of, id, topic).status_code == status


def listed(of: Api, topic: str = "orders", **query: str) -> Any:
    return of.get(f"/v1/topics/{topic}/undos", params=query).json()


def ids(page: Any) -> list[str]:
    return [one["id"] for one in page["undos"]]


def test_what_can_be_undone_is_listed_also_if_nobody_has_got_the_answer() -> None:
    of = undoable()
    purge(of)
    of.clock.advance(1000)
    cancel(of)
    day = "2026-01-01T00"
    assert listed(of) == {
        "undos": [
            {"id": "0.1", "of": "cancel", "opened_at": f"{day}:00:01.000Z", "until": f"{day}:10:01.000Z"},
            {"id": "0.0", "of": "purge", "opened_at": f"{day}:00:00.000Z", "until": f"{day}:10:00.000Z"},
        ],
        "next_before": None,
    }


def test_an_undo_is_listed_until_its_time_is_over() -> None:
    of = undoable(undo_ms=24 * 60 * MINUTE_MS)
    purge(of)
    of.clock.advance(24 * 60 * MINUTE_MS)
    assert ids(listed(of)) == ["0.0"]
    of.clock.advance(1)
    assert ids(listed(of)) == []


def test_undos_of_other_topics_are_not_listed_nor_of_one_that_was_deleted() -> None:
    of = undoable()
    of.queue.ensure_topic("mails")
    purge(of)
    assert ids(listed(of, "mails")) == []
    known = of.queue.topic
    of.queue.topic = lambda name: known(name)._replace(topic_id=bytes(16)) if name == "orders" else known(name)
    assert ids(listed(of)) == []


def test_where_nothing_was_ever_purged_the_list_is_empty_and_of_no_topic_there_is_none() -> None:
    of = undoable()
    assert listed(of) == {"undos": [], "next_before": None}
    assert of.get("/v1/topics/no/undos").status_code == 404


def test_the_list_goes_on_in_pages_behind_what_is_no_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_topic, "LOOKED_MAX", 2)
    of = undoable()
    first, second = (purge(of)["undo"]["id"] for _ in range(2))
    kept(of, second, 5)
    page = listed(of, limit="1")
    pages = [ids(page)]
    while page["next_before"] is not None:
        page = listed(of, limit="1", before=page["next_before"])
        pages.append(ids(page))
    assert pages.count([]) >= 2
    assert [one for page in pages for one in page] == [second, first]


def test_an_undo_needs_an_id() -> None:
    answer = ask(undoable(), "undo")
    assert problem(answer) == (400, "invalid-request")
    assert pointers(answer) == [("?id", "missing")]


def test_copies_of_another_topic_under_the_same_id_are_left_alone() -> None:
    of = undoable()
    id = purge(of)["undo"]["id"]
    kept(of, id, topic="mails")
    assert undo(of, id).json()["restored"] == 0


def test_where_another_process_has_claimed_it_the_answer_is_to_ask_again() -> None:
    of = undoable()
    id = purge(of)["undo"]["id"]
    kept(of, id)

    def lose(claim: object, records: object) -> None:
        raise ClaimLost("another one")

    of.queue.append_under = lose
    answer = undo(of, id)
    assert problem(answer) == (503, "not-ready")
    assert "another process" in answer.json()["detail"]


def test_the_topic_of_copies_cannot_be_read_by_clients() -> None:
    of = undoable()
    purge(of)
    assert of.get(f"/v1/topics/{Names('delayline').purged}/records").status_code == 404
