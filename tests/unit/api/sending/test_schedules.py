"""What the fields of a schedule mean, and previews."""

from typing import Any

import pytest

from delayline.records.message import Header
from delayline.schedule.rules import DAY_MS, Rules
from delayline.times import format_moment
from tests.unit.api.in_memory import NOW_MS, Api, pointers, problem

PREVIEW = "/v1/schedules:preview"
BUFFER = "delayline.buffer.orders"


SCHEDULES: list[tuple[dict[str, Any], list[Header]]] = [
    ({"delay": "PT1S", "expire_at": "2027-01-01T00:00:00Z"},
     [(b"delay-ms", b"1000"), (b"delay-expire-at", b"2027-01-01T00:00:00Z")]),
    ({"delay": "1s", "expire_at": NOW_MS + 5000}, [(b"delay-ms", b"1000"), (b"delay-expire-at", b"1767225605000")]),
    ({"deliver_at": NOW_MS + 1, "ttl": "1h"}, [(b"deliver-at", b"1767225600001"), (b"delay-ttl", b"1h")]),
    ({"level": 1, "own_id": "Bestellung ü"}, [(b"delay-ms", b"1000"), (b"delay-id", "Bestellung ü".encode())]),
    ({"delay": "1s", "own_id": "7", "on_conflict": "replace"},
     [(b"delay-ms", b"1000"), (b"delay-id", b"7"), (b"delay-on-conflict", b"replace")]),
    ({"cron": "0 9 * * 1-5"}, [(b"delay-cron", b"0 9 * * 1-5")]),
    ({"cron": "0 9 * * *", "time_zone": "Europe/Berlin", "times": 3, "missed": "all"},
     [(b"delay-cron", b"0 9 * * *"), (b"delay-time-zone", b"Europe/Berlin"), (b"delay-times", b"3"),
      (b"delay-missed", b"all")]),
    ({"every": "1h", "backoff": 2}, [(b"delay-every", b"1h"), (b"delay-backoff", b"2.0")]),
    ({"every": "1h", "backoff": 1.5}, [(b"delay-every", b"1h"), (b"delay-backoff", b"1.5")]),
    ({"delay": "0s", "every": "1h"}, [(b"delay-ms", b"0"), (b"delay-every", b"1h")]),
]  # fmt: skip


@pytest.mark.parametrize(("schedule", "directives"), SCHEDULES)
def test_a_field_enters_the_log_as_the_directive_of_the_same_meaning(
    schedule: dict[str, Any], directives: list[Header]
) -> None:
    api = Api()
    answer = api.send({"partition": 0, "headers": [{"name": "src", "value": "web"}], "schedule": schedule})
    assert answer.status_code == 201, answer.text
    assert answer.json()["own_id"] == schedule.get("own_id")
    (record,) = api.records(BUFFER)
    assert record.headers == [(b"src", b"web"), *directives]


@pytest.mark.parametrize(
    ("schedule", "type_", "field"),
    [
        ({"cron": "* * *"}, "invalid-schedule", "cron"),
        ({"cron": "0 0 30 2 *"}, "invalid-schedule", "cron"),
        ({"cron": "* * * * *", "delay": "1s"}, "invalid-schedule", "cron"),
        ({"cron": "* * * * *", "time_zone": "Berlin"}, "invalid-schedule", "time_zone"),
        ({"delay": "1s", "time_zone": "UTC"}, "invalid-schedule", "time_zone"),
        ({"every": "999ms"}, "invalid-schedule", "every"),
        ({"every": "9999w"}, "beyond-horizon", "every"),
        ({"times": 3}, "invalid-schedule", "times"),
        ({"every": "1h", "times": 0}, "invalid-schedule", "times"),
        ({"every": "1h", "backoff": 1}, "invalid-schedule", "backoff"),
        ({"every": "1h", "backoff": 1e20}, "invalid-schedule", "backoff"),
        ({"every": "1h", "missed": "some"}, "invalid-schedule", "missed"),
        ({"delay": "1s", "missed": "all"}, "invalid-schedule", "missed"),
        ({"every": "1h", "delay": "soon"}, "invalid-schedule", "delay"),
        ({"every": "1h", "delay": "9999w"}, "beyond-horizon", "delay"),
        ({"every": "1h", "delay": "1s", "level": 3}, "contradictory-schedule", "level"),
        ({"delay": "1s", "expire_at": NOW_MS + 1000}, "invalid-schedule", "expire_at"),
        ({"delay": "1s", "expire_at": "2027-01-01T00:00:00Z", "ttl": "1h"}, "invalid-schedule", "ttl"),
        ({"own_id": "7"}, "invalid-schedule", "own_id"),
        ({"delay": "0s", "own_id": "7"}, "invalid-schedule", "own_id"),
        ({"delay": "1s", "on_conflict": "keep"}, "invalid-schedule", "on_conflict"),
    ],
)
def test_a_field_that_cannot_be_is_pointed_at(schedule: dict[str, Any], type_: str, field: str) -> None:
    api = Api()
    answer = api.send({"schedule": schedule})
    assert problem(answer) == (400, type_)
    assert [pointer for pointer, _ in pointers(answer)] == [f"/schedule/{field}"]
    assert api.queue.topics() == []


def test_a_field_may_be_null() -> None:
    assert Api().send({"schedule": {"delay": "1s", "own_id": None, "cron": None}}).status_code == 201


def test_the_due_time_of_a_repeat_is_that_of_its_first_delivery() -> None:
    sent = Api().send({"partition": 0, "schedule": {"cron": "30 9 * * *", "time_zone": "Europe/Berlin"}}).json()
    assert sent["due_at"] == "2026-01-01T08:30:00.000Z"
    assert sent["message_id"] == f"orders.0.0.{NOW_MS + 8 * 3_600_000 + 30 * 60_000}"


def test_an_own_id_is_in_the_answer_also_where_nothing_is_known_yet() -> None:
    answer = Api().send({"schedule": {"delay": "1s", "own_id": "7"}}, "/v1/topics/orders/messages?mode=async")
    assert answer.json() == {"message_id": None, "own_id": "7", "durable": False}


@pytest.mark.parametrize(
    ("schedule", "due_ms"),
    [({"own_id": "7"}, 60_000), ({"own_id": "7", "delay": "1s"}, 1000), ({"every": "1h", "own_id": "7"}, 3_600_000)],
)
def test_a_default_delay_holds_where_a_schedule_has_no_time(schedule: dict[str, Any], due_ms: int) -> None:
    api = Api(rules_for=lambda _: Rules(default_delay_ms=60_000))
    assert api.send({"schedule": schedule}).json()["due_at"] == format_moment(NOW_MS + due_ms)


# --- preview


def test_a_preview_states_when_a_schedule_would_be_due_and_stores_nothing() -> None:
    api = Api()
    answer = api.send({"schedule": {"delay": "1h30m"}}, PREVIEW)
    assert answer.status_code == 200
    assert answer.json() == {
        "accepted_at": "2026-01-01T00:00:00.000Z",
        "immediate": False,
        "due_at": ["2026-01-01T01:30:00.000Z"],
    }
    assert api.queue.topics() == []


def test_a_preview_of_no_delay_is_now() -> None:
    answer = Api().send({"schedule": {"delay": "0s"}, "count": 3}, PREVIEW)
    assert answer.json() == {
        "accepted_at": "2026-01-01T00:00:00.000Z",
        "immediate": True,
        "due_at": ["2026-01-01T00:00:00.000Z"],
    }


@pytest.mark.parametrize(
    ("body", "due_at"),
    [
        ({"schedule": {"cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin"}},
         ["01-01T08:00", "01-02T08:00", "01-05T08:00", "01-06T08:00", "01-07T08:00"]),
        ({"schedule": {"cron": "0 0 * * *", "times": 3}, "count": 2}, ["01-02T00:00", "01-03T00:00"]),
        ({"schedule": {"cron": "0 0 * * *", "times": 3}}, ["01-02T00:00", "01-03T00:00", "01-04T00:00"]),
        ({"schedule": {"every": "10m", "backoff": 2}, "count": 4},
         ["01-01T00:10", "01-01T00:20", "01-01T00:40", "01-01T01:20"]),
        ({"schedule": {"every": "1h", "deliver_at": "2026-01-05T12:30:00+02:00"}, "count": 2},
         ["01-05T10:30", "01-05T11:30"]),
        ({"schedule": {"every": "1h", "deliver_at": "1999-12-31T23:59:00Z"}, "count": 2},
         ["2025-12-31T23:59", "01-01T00:59"]),
        ({"schedule": {"every": "1h", "expire_at": "2026-01-01T02:00:00Z"}}, ["01-01T01:00", "01-01T02:00"]),
    ],
)  # fmt: skip
def test_a_preview_of_a_repeat_shows_the_first_due_times(body: dict[str, Any], due_at: list[str]) -> None:
    answer = Api().send(body, PREVIEW)
    expected = [f"{moment if moment.startswith('2') else '2026-' + moment}:00.000Z" for moment in due_at]
    assert answer.json()["due_at"] == expected


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        ({"schedule": {"delay": "soon"}}, "invalid-schedule"),
        ({"schedule": {"cron": "0 0 30 2 *"}}, "invalid-schedule"),
        ({"schedule": {"delay": "1s"}, "count": 0}, "invalid-body"),
        ({"schedule": {"delay": "1s"}, "count": 101}, "invalid-body"),
        ({}, "invalid-body"),
    ],
)
def test_a_preview_refuses_what_a_send_would_refuse(body: dict[str, Any], type_: str) -> None:
    assert problem(Api().send(body, PREVIEW)) == (400, type_)


def test_a_preview_of_a_first_time_beyond_the_horizon_is_refused() -> None:
    answer = Api(horizon_max_ms=365 * DAY_MS).send({"schedule": {"cron": "0 0 29 2 *"}}, PREVIEW)
    assert problem(answer) == (400, "beyond-horizon")
    assert [pointer for pointer, _ in pointers(answer)] == ["/schedule/cron"]
