"""Lists of messages and histograms: what is asked of the owners, and what is made of their answers."""

from typing import Any

import pytest

from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import (
    LAST_MS,
    DueCounts,
    DueQuery,
    Ending,
    Found,
    Listing,
    Place,
    Query,
    Row,
    ShardFigures,
    State,
)
from delayline.records.message import MessageId, Shard
from tests.unit.api.in_memory import NOW_MS, Api, pointers, problem

PATH = "/v1/messages"
HISTOGRAM = "/v1/topics/orders/histogram"
SHARDS = [Shard("orders", str(number)) for number in range(4)]
MINUTE_MS = 60_000


def row(offset: int, delay_ms: int = 1000, key: bytes | None = b"7") -> Row:
    shard, due_ms = SHARDS[offset % 4], NOW_MS + delay_ms
    found = Found(MessageId(shard, offset, due_ms), State.PENDING, NOW_MS, due_ms, 0, key)
    return Row(Place(due_ms, shard, offset), found)


def api(*listings: Listing, **settings: Any) -> Api:
    """Delayed messages were sent to `orders` before; nothing is remembered of the sending."""
    made = Api(**settings)
    made.queue.ensure_topic("orders")
    made.queue.ensure_buffer("orders", made.rules)
    made.owners.listings = list(listings)
    return made


def whole(*rows: Row, upto: Place | None = None) -> Listing:
    return Listing(tuple(SHARDS), rows, upto)


def asked(of: Api) -> Query:
    query = of.owners.asked[-1][1]
    assert isinstance(query, Query)
    return query


# --- lists


def test_a_row_is_a_message_and_its_key() -> None:
    of = api(whole(row(5)))
    assert of.get(PATH, params={"topic": "orders"}).json() == {
        "messages": [
            {
                "message_id": f"orders.1.5.{NOW_MS + 1000}",
                "own_id": None,
                "topic": "orders",
                "partition": 1,
                "state": "pending",
                "accepted_at": "2026-01-01T00:00:00.000Z",
                "due_at": "2026-01-01T00:00:01.000Z",
                "next_due_at": None,
                "version": 0,
                "deduplicated": False,
                "outcome": None,
                "key": "7",
            }
        ],
        "next_page_token": None,
        "looked": 0,
        "as_of": "2026-01-01T00:00:00.000Z",
        "complete": True,
        "missing_shards": [],
    }


def test_a_key_that_is_no_text_is_shown_in_base64() -> None:
    (message,) = api(whole(row(5, key=b"\xff"))).get(PATH, params={"topic": "orders"}).json()["messages"]
    assert (message["key"], message["key_base64"]) == (None, "/w==")


def test_what_has_ended_is_listed_with_its_outcome_and_without_a_key() -> None:
    found = Found(MessageId(SHARDS[0], 4, NOW_MS), State.DELIVERED, NOW_MS, NOW_MS)
    ending = Ending(Outcome.DELIVERED, NOW_MS + 3, 3)
    ended = Row(Place(-NOW_MS, SHARDS[0], 4), Found(**{**_fields(found), "ending": ending}))
    of = api(whole(ended))
    (message,) = of.get(PATH, params={"topic": "orders", "state": "delivered"}).json()["messages"]
    assert message["outcome"]["lateness_ms"] == 3
    assert "key" not in message
    assert asked(of).state is State.DELIVERED


def _fields(found: Found) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Found.__slots__}


def test_every_parameter_reaches_the_owners() -> None:
    of = api(whole())
    given = {
        "key": "ü",
        "own_id": "o",
        "due_after": "2026-01-01T01:00:00+01:00",
        "due_before": str(NOW_MS + 9),
        "page_size": "7",
    }
    assert of.get(PATH, params={"topic": "orders", **given}).status_code == 200
    assert of.owners.asked == [
        (SHARDS, Query(State.PENDING, "ü".encode(), NOW_MS, NOW_MS + 9, None, 7, "o")),
    ]


def test_without_parameters_all_topics_that_take_delays_and_all_shards_with_an_owner_are_asked() -> None:
    of = api(whole())
    of.queue.ensure_topic("plain")
    left = Shard("left", "0")
    of.owners.shards = [ShardFigures(left, ready=True, owner_epoch=1)]
    of.get(PATH)
    assert of.owners.asked == [([left, *SHARDS], Query(limit=100, due_until_ms=LAST_MS))]


def test_the_plus_of_an_offset_may_stand_in_the_query_as_it_is() -> None:
    of = api(whole())
    assert of.get(f"{PATH}?topic=orders&due_after=2026-01-01T01:00:00+01:00").status_code == 200
    assert asked(of).due_from_ms == NOW_MS


def test_a_page_token_leads_on_behind_the_last_row() -> None:
    of = api(whole(row(4), row(5), row(6)))
    first = of.get(PATH, params={"topic": "orders", "page_size": "2"}).json()
    assert [message["partition"] for message in first["messages"]] == [0, 1]
    of.get(PATH, params={"topic": "orders", "page_size": "3", "page_token": first["next_page_token"]})
    assert (asked(of).after, asked(of).limit) == (row(5).place, 3)


def test_an_empty_page_can_have_a_token() -> None:
    page = api(whole(upto=row(4).place)).get(PATH, params={"topic": "orders"}).json()
    assert page["messages"] == []
    assert page["next_page_token"]


@pytest.mark.parametrize(
    "other",
    [
        {"topic": "mail"},
        {},
        {"topic": "orders", "key": "8"},
        {"topic": "orders", "own_id": "8"},
        {"topic": "orders", "due_before": str(NOW_MS)},
    ],
)
def test_a_token_of_another_list_is_refused(other: dict[str, str]) -> None:
    of = api(whole(row(4), row(5)))
    of.queue.ensure_topic("mail")
    token = of.get(PATH, params={"topic": "orders", "page_size": "1"}).json()["next_page_token"]
    answer = of.get(PATH, params={**other, "page_token": token})
    assert problem(answer) == (400, "invalid-request")
    assert pointers(answer) == [("?page_token", "invalid-value")]


def test_a_page_that_is_too_large_is_refused_with_the_largest_size() -> None:
    answer = api().get(f"{PATH}?page_size=1001")
    assert answer.json()["detail"] == "`page_size` is a number from 1 to 1000"


@pytest.mark.parametrize("token", ["", "x", "AAAA", "lQ", "ü", "k" * 300])
def test_text_that_is_no_token_is_refused(token: str) -> None:
    answer = api(whole()).get(PATH, params={"topic": "orders", "page_token": token})
    assert pointers(answer) == [("?page_token", "invalid-value")]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"page_size": "0"}, ("?page_size", "invalid-value")),
        ({"page_size": "1001"}, ("?page_size", "invalid-value")),
        ({"state": "accepted"}, ("?state", "invalid-value")),
        ({"due_after": "soon"}, ("?due_after", "invalid-value")),
        ({"due_before": "1767225600"}, ("?due_before", "invalid-value")),
        ({"offset": "1"}, ("?offset", "unknown-parameter")),
        ({"own_id": "7", "state": "dead"}, ("?own_id", "not-supported")),
        ({"key": "7", "state": "delivered"}, ("?key", "not-supported")),
    ],
)
def test_a_parameter_that_makes_no_sense_is_pointed_at(given: dict[str, str], fault: tuple[str, str]) -> None:
    of = api(whole())
    answer = of.get(PATH, params=given)
    assert (answer.status_code, pointers(answer)) == (400, [fault])
    assert of.owners.asked == []


@pytest.mark.parametrize("topic", ["unknown", "delayline.dead", "delayline.buffer.orders"])
@pytest.mark.parametrize("path", [PATH + "?topic={}", "/v1/topics/{}/histogram", "/v1/topics/{}"])
def test_a_topic_that_does_not_exist_is_not_made(path: str, topic: str) -> None:
    of = api(whole())
    assert problem(of.get(path.format(topic))) == (404, "topic-unknown")
    assert of.queue.topics() == ["orders"]


def test_a_shard_without_an_answer_is_missing_and_the_rows_of_the_others_stand() -> None:
    page = api(Listing(tuple(SHARDS[:3]), (row(4),), None)).get(PATH, params={"topic": "orders"}).json()
    assert (len(page["messages"]), page["complete"]) == (1, False)
    assert page["missing_shards"] == [{"topic": "orders", "partition": 3}]


@pytest.mark.parametrize("silent", [True, False])
def test_owners_that_do_not_answer_leave_every_shard_missing(silent: bool) -> None:
    of = api(owner_timeout_s=0.02)
    of.owners.silent = silent
    page = of.get(PATH).json()
    assert (page["messages"], page["complete"], len(page["missing_shards"])) == ([], False, 4)


def test_a_topic_that_never_had_a_delayed_message_lacks_nothing() -> None:
    of = Api()
    of.queue.ensure_topic("orders")
    assert of.get(PATH, params={"topic": "orders"}).json()["complete"] is True
    assert of.get(HISTOGRAM).json()["complete"] is True
    assert of.queue.topics() == ["orders"]


# --- histograms


def counting(*counts: DueCounts) -> Api:
    of = api()
    of.owners.counts = list(counts)
    return of


def test_the_counts_of_shards_are_added_up() -> None:
    of = counting(*(DueCounts(shard, (1, 2, 0, 3, number)) for number, shard in enumerate(SHARDS)))
    given = {"bucket": "1h", "from": str(NOW_MS), "to": "2026-01-01T03:00:00Z"}
    assert of.get(HISTOGRAM, params=given).json() == {
        "topic": "orders",
        "from": "2026-01-01T00:00:00.000Z",
        "to": "2026-01-01T03:00:00.000Z",
        "bucket": "1h",
        "bucket_ms": 3_600_000,
        "counts": [8, 0, 12],
        "before": 4,
        "after": 6,
        "as_of": "2026-01-01T00:00:00.000Z",
        "complete": True,
        "missing_shards": [],
    }
    assert of.owners.asked == [(SHARDS, DueQuery(NOW_MS // MINUTE_MS, 60, 3))]


@pytest.mark.parametrize(
    ("given", "query"),
    [
        ({}, DueQuery(NOW_MS // MINUTE_MS, 1, 60)),
        ({"bucket": "15m"}, DueQuery(NOW_MS // MINUTE_MS, 15, 60)),
        ({"from": str(NOW_MS + 1), "to": str(NOW_MS + 2)}, DueQuery(NOW_MS // MINUTE_MS, 1, 1)),
        ({"bucket": "7d", "from": str(NOW_MS)}, DueQuery(NOW_MS // 604_800_000 * 10_080, 10_080, 60)),
        ({"bucket": "1d", "to": str(NOW_MS + 1)}, DueQuery(NOW_MS // MINUTE_MS, 1440, 1)),
    ],
)
def test_a_range_is_widened_to_whole_buckets(given: dict[str, str], query: DueQuery) -> None:
    of = counting(*(DueCounts(shard, (0,) * (query.number + 2)) for shard in SHARDS))
    assert of.get(HISTOGRAM, params=given).status_code == 200
    assert of.owners.asked == [(SHARDS, query)]


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"bucket": "soon"}, "?bucket"),
        ({"bucket": "90s"}, "?bucket"),
        ({"bucket": "0m"}, "?bucket"),
        ({"bucket": "36h"}, "?bucket"),
        ({"bucket": "9999999d"}, "?bucket"),
        ({"from": "now"}, "?from"),
        ({"to": str(NOW_MS - 1)}, "?to"),
        ({"to": str(NOW_MS + 1441 * MINUTE_MS)}, "?to"),
        ({"from": str(NOW_MS), "to": str(NOW_MS)}, "?to"),
    ],
)
def test_a_range_that_makes_no_sense_is_pointed_at(given: dict[str, str], pointer: str) -> None:
    of = counting()
    answer = of.get(HISTOGRAM, params=given)
    assert (answer.status_code, pointers(answer)) == (400, [(pointer, "invalid-value")])
    assert of.owners.asked == []


def test_a_histogram_names_the_shards_whose_counts_are_missing() -> None:
    answer = counting(DueCounts(SHARDS[0], (0,) * 62)).get(HISTOGRAM).json()
    assert (answer["complete"], [shard["partition"] for shard in answer["missing_shards"]]) == (False, [1, 2, 3])
    assert answer["counts"] == [0] * 60
