"""Dead letters: listing them, and sending them again."""

from typing import Any

import httpx
import pytest

from api.reading import own_topic
from delay_service.core.dead import encode_dead, left_out
from delayline.records.message import Header, Key, Shard
from delayline.records.record import Record, encode_body
from mq.contract import Append
from mq.errors import QueueUnavailable
from tests.unit.api.in_memory import NOW_MS, Api, pointers, problem

PATH = "/v1/topics/orders/dead"
REDRIVE = "/v1/topics/orders/dead:redrive"
DEAD = "delayline.dead"


def api(**settings: Any) -> Api:
    made = Api(**settings)
    made.queue.ensure_topic("orders")
    return made


def bury(
    of: Api, number: int, topic: str = "orders", partition: str = "0", headers: tuple[Header, ...] = (), **given: Any
) -> str:
    """A dead letter with the value `number`; its id."""
    original = Record(given.get("key", b"7"), given.get("value", b"%d" % number), list(headers))
    shard = Shard(topic, given.get("shard", "2"))
    body = encode_dead(shard, Key(NOW_MS, number), f"{topic}.2.{number}.{NOW_MS}", "bad", "why", original)
    return bury_raw(of, body, partition)


def bury_raw(of: Api, body: bytes, partition: str = "0") -> str:
    offset = of.queue.append([Append(DEAD, partition, body)]).result()[0].offset
    of.clock.advance(1)
    return f"{partition}.{offset}"


def pages(of: Api, **query: str) -> list[list[str]]:
    """The values of all pages."""
    found: list[list[str]] = []
    before: str | None = None
    while not found or before is not None:
        given = query if before is None else {**query, "before": before}
        page = of.get(PATH, params=given).json()
        found.append([message["value"] for message in page["messages"]])
        before = page["next_before"]
        assert len(found) < 50
    return found


def redriven(of: Api, topic: str = "orders", partition: str = "2") -> list[Record]:
    return of.records(topic, partition)


def redrive(of: Api, **body: Any) -> httpx.Response:
    return of.send(body, REDRIVE)


# --- the list


def test_a_letter_shows_the_record_as_it_came_and_why_it_is_dead() -> None:
    of = api()
    letter = bury(of, 5, headers=((b"delay-ms", b"soon"), (b"raw", b"\xff")))
    assert of.get(PATH).json() == {
        "messages": [
            {
                "id": letter,
                "message_id": f"orders.2.5.{NOW_MS}",
                "topic": "orders",
                "partition": 2,
                "offset": 5,
                "due_at": "2026-01-01T00:00:00.000Z",
                "dead_at": "2026-01-01T00:00:00.000Z",
                "error_code": "bad",
                "reason": "why",
                "key": "7",
                "value": "5",
                "headers": [
                    {"name": "delay-ms", "value": "soon"},
                    {"name": "raw", "value": None, "value_base64": "/w=="},
                ],
            }
        ],
        "next_before": None,
    }


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
def test_pages_are_one_list_newest_first_over_all_partitions(limit: int) -> None:
    of = api()
    for number in range(12):
        bury(of, number, partition=str(number % 3))
    found = pages(of, limit=str(limit))
    assert [value for page in found for value in page] == [str(number) for number in range(11, -1, -1)]
    assert all(len(page) <= limit for page in found)


def test_letters_of_other_topics_and_records_of_others_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_topic, "CHUNK_RECORDS", 3)
    of = api()
    for number in range(20):
        bury(of, number, "orders" if number % 10 == 0 else "mail")
    bury_raw(of, encode_body(None, b"something else"))
    assert pages(of) == [["10", "0"]]


def test_a_request_passes_over_so_many_and_the_list_goes_on_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_topic, "LOOKED_MAX", 4)
    of = api()
    for number in range(10):
        bury(of, number, "orders" if number == 0 else "mail")
    found = pages(of)
    assert (len(found), found[-1]) == (3, ["0"])


def test_large_letters_make_short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_topic, "PAGE_BYTES_MAX", 250)
    of = api()
    for number in range(5):
        bury(of, number, value=b"%d" % number * 100)
    assert [len(page) for page in pages(of)] == [3, 2]


@pytest.mark.parametrize("before", ["", "x", "0:1", "0:1,1:1,2:1,3:1,4:1", "0:1,1:1,2:1,9:1"])
def test_text_that_comes_from_no_page_is_refused(before: str) -> None:
    answer = api().get(PATH, params={"before": before})
    assert (answer.status_code, pointers(answer)) == (400, [("?before", "invalid-value")])


@pytest.mark.parametrize(("path", "method"), [(PATH, "GET"), (REDRIVE, "POST")])
def test_a_topic_that_does_not_exist_has_no_letters_and_is_not_made(path: str, method: str) -> None:
    of = Api()
    assert problem(of.request(method, path, json={"all": True})) == (404, "topic-unknown")
    assert of.queue.topics() == []


# --- sending again


def test_a_letter_is_sent_to_its_partition_without_what_meant_something_to_us() -> None:
    of = api()
    headers: tuple[Header, ...] = (
        (b"src", b"web"),
        (b"delay-ms", b"soon"),
        (b"delayline-accepted", b"1"),
        (b"delayline-redriven", b"older"),
    )
    answer = redrive(of, ids=[bury(of, 5, headers=headers)])
    assert answer.json() == {"matched": 1, "redriven": 1, "not_found": [], "next_after": None, "dry_run": False}
    redriven_id = f"orders.2.5.{NOW_MS}".encode()
    assert redriven(of) == [Record(b"7", b"5", [(b"src", b"web"), (b"delayline-redriven", redriven_id)])]


def test_with_a_schedule_it_waits_in_the_buffer() -> None:
    of = api()
    assert redrive(of, ids=[bury(of, 5)], schedule={"delay": "1m"}).json()["redriven"] == 1
    (record,) = redriven(of, "delayline.buffer.orders")
    assert record.headers[-1] == (b"delay-ms", b"60000")
    assert redriven(of) == []


def test_a_letter_named_twice_is_sent_once_and_unknown_ones_are_listed() -> None:
    of = api()
    known, other = bury(of, 5), bury(of, 6, "mail")
    unknown = [other, "0.99", "9.0", "x", "0.", "0.-1", "0." + "9" * 30]
    answer = redrive(of, ids=[known, known, *unknown]).json()
    assert (answer["matched"], answer["redriven"], answer["not_found"]) == (1, 1, unknown)
    assert len(redriven(of)) == 1


def test_many_letters_by_name_are_sent_in_their_order() -> None:
    of = api()
    ids = [bury(of, number) for number in range(40)]
    assert redrive(of, ids=ids).json()["redriven"] == 40
    assert [record.value for record in redriven(of)] == [b"%d" % number for number in range(40)]


def test_all_are_sent_up_to_a_moment_in_as_many_requests_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.routes.dead.REDRIVEN_AT_ONCE", 3)
    of = api()
    for number in range(10):
        bury(of, number, "orders" if number != 4 else "mail", partition=str(number % 2))
    until = NOW_MS + 7
    counts: list[int] = []
    after = None
    while not counts or after is not None:
        answer = redrive(of, all=True, until=until, **({"after": after} if after else {})).json()
        counts.append(answer["redriven"])
        after = answer["next_after"]
        assert len(counts) < 10
    assert counts == [3, 3, 1]
    assert sorted(record.value or b"" for record in redriven(of)) == [b"0", b"1", b"2", b"3", b"5", b"6", b"7"]


def test_a_dry_run_counts_and_sends_nothing() -> None:
    of = api()
    ids = [bury(of, number) for number in range(3)]
    for body in ({"all": True}, {"ids": ids}):
        answer = redrive(of, **body, dry_run=True).json()
        assert (answer["matched"], answer["redriven"], answer["dry_run"]) == (3, 0, True)
    assert redriven(of) == []


def test_a_letter_of_a_partition_that_is_gone_goes_where_its_key_belongs() -> None:
    of = api()
    assert redrive(of, ids=[bury(of, 5, shard="99")]).json()["redriven"] == 1
    assert len(of.all_records("orders")) == 1


def test_a_letter_that_the_topic_has_no_room_for_is_named() -> None:
    of = api(record_bytes_max=6000)
    letter = bury(of, 5, value=b"x" * 5000)
    answer = redrive(of, ids=[letter], schedule={"delay": "1s"})
    assert problem(answer) == (413, "too-large")
    assert letter in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({}, ("/ids", "contradiction")),
        ({"all": True, "ids": ["0.1"]}, ("/ids", "contradiction")),
        ({"ids": ["0.1"], "until": 5}, ("/until", "contradiction")),
        ({"ids": ["0.1"], "after": "0:1"}, ("/after", "contradiction")),
        ({"ids": []}, ("/ids", "invalid-value")),
        ({"all": True, "until": "soon"}, ("/until", "invalid-value")),
        ({"all": True, "after": "x"}, ("/after", "invalid-value")),
        ({"all": True, "schedule": {"delay": "soon"}}, ("/schedule/delay", "invalid-schedule")),
        ({"all": True, "until_when": 1}, ("/until_when", "unknown-field")),
    ],
)
def test_a_body_that_makes_no_sense_is_pointed_at(body: dict[str, Any], fault: tuple[str, str]) -> None:
    answer = redrive(api(), **body)
    assert (answer.status_code, pointers(answer)) == (400, [fault])


def test_a_schedule_for_a_topic_that_takes_no_delays_is_refused() -> None:
    of = Api()
    of.queue.ensure_topic("plain")
    letter = bury(of, 1, "plain")
    path = "/v1/topics/plain/dead:redrive"
    assert problem(of.send({"ids": [letter], "schedule": {"delay": "1s"}}, path)) == (400, "topic-not-enabled")
    assert of.send({"ids": [letter]}, path).json()["redriven"] == 1


def test_what_the_queue_does_not_take_is_a_503() -> None:
    of = api()
    letter = bury(of, 1)
    of.queue.failure = QueueUnavailable("gone")
    assert problem(redrive(of, ids=[letter])) == (503, "queue-unavailable")


def bury_left_out(of: Api) -> str:
    original = left_out(Record(b"k", b"too large", []))
    body = encode_dead(Shard("orders", "2"), Key(NOW_MS, 5), f"orders.2.5.{NOW_MS}", "skipped", "why", original)
    return bury_raw(of, body)


def test_a_letter_that_has_only_size_and_digest_is_not_sent_again() -> None:
    of = api()
    letter, other = bury_left_out(of), bury(of, 7)
    assert problem(redrive(of, ids=[letter])) == (400, "invalid-request")
    assert redrive(of, all=True).json()["redriven"] == 1
    assert (other, [record.value for record in redriven(of)]) == ("0.1", [b"7"])
