"""One table of what senders get wrong, through every entrance: JSON fields, headers of Kafka records, CLI options.

The error names the field, header or option as it was sent and what is wrong with it; nothing ends in a 500."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from cli.failure import Failure
from cli.main import app
from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.batch.head import read_batch
from proxy.kafka.produce.screen import Screen
from tests.unit.api.in_memory import NOW_MS, Api, pointers
from tests.unit.mq.kafka.batches import Sent, batch_of

FIELDS = {
    "delay": ("delay", "--delay"),
    "delay_ms": ("delay-ms", None),
    "deliver_at": ("deliver-at", "--at"),
    "level": ("delay-level", None),  # the option takes integers only
    "cron": ("delay-cron", "--cron"),
    "time_zone": ("delay-time-zone", "--time-zone"),
    "every": ("delay-every", "--every"),
    "times": ("delay-times", "--times"),
    "backoff": ("delay-backoff", "--backoff"),
    "missed": ("delay-missed", "--missed"),
    "ttl": ("delay-ttl", "--ttl"),
    "expire_at": ("delay-expire-at", "--expire-at"),
    "own_id": ("delay-id", "--own-id"),
    "on_conflict": ("delay-on-conflict", "--on-conflict"),
}
"""A field of `schedule`, and the directive and the option of the same meaning."""

WRONG: list[tuple[str, Any, dict[str, Any], str]] = [
    ("delay", "-5s", {}, "it cannot be negative"),
    ("delay", "5 sec", {}, "`sec` is no unit, the units are ms s m h d w"),
    ("delay", "5S", {}, "`S` is no unit"),
    ("delay", "1y", {}, "years and months have no fixed length"),
    ("delay", "2 months", {}, "years and months have no fixed length"),
    ("delay", "P1Y", {}, "years and months have no fixed length"),
    ("delay", "P1M", {}, "years and months have no fixed length"),
    ("delay", "5", {}, "the unit is missing"),
    ("delay", "5 s", {}, "write it without blanks"),
    ("delay", "soon", {}, "expected a duration such as 90s, 1h30m or PT1H"),
    ("delay", "NaN", {}, "expected a duration"),
    ("delay", "9" * 65, {}, "longer than 64 characters"),
    ("delay", "", {}, "empty"),
    ("delay", "4000d", {}, "due later than 3650d from now"),
    ("delay_ms", -1, {}, "it cannot be negative"),
    ("deliver_at", "tomorrow", {}, "expected epoch milliseconds or RFC 3339 with an offset"),
    ("deliver_at", "2027-01-01T00:00:00", {}, "the offset is missing"),
    ("deliver_at", "-5", {}, "nothing is due before 1970"),
    ("deliver_at", 1767225605, {}, "looks like seconds"),
    ("every", "-1h", {}, "it cannot be negative"),
    ("every", "100ms", {}, "expected at least 1s between deliveries"),
    ("cron", "* * *", {}, "expected a cron expression of 5 fields"),
    ("time_zone", "Berlin", {"cron": "0 9 * * *"}, "expected an IANA time zone"),
    ("times", -1, {"every": "1h"}, "it cannot be negative"),
    ("times", 0, {"every": "1h"}, "expected at least 1"),
    ("backoff", 0.5, {"every": "1h"}, "expected a factor above 1"),
    ("missed", "some", {"every": "1h"}, "expected all or latest or none"),
    ("ttl", "1 year", {"delay": "1s"}, "years and months have no fixed length"),
    ("expire_at", "2020-01-01T00:00:00Z", {"delay": "1s"}, "not after the due time"),
    ("own_id", "x" * 257, {"delay": "1s"}, "longer than 256 bytes"),
    ("on_conflict", "merge", {"delay": "1s", "own_id": "7"}, "expected keep or replace"),
]


@pytest.mark.parametrize(("field", "value", "beside", "sentence"), WRONG)
def test_json_is_answered_with_the_name_of_the_field(
    field: str, value: Any, beside: dict[str, Any], sentence: str
) -> None:
    answer = Api().send({"value": "x", "schedule": {field: value, **beside}})
    assert answer.status_code == 400
    assert pointers(answer)[0][0] == f"/schedule/{field}"
    assert answer.json()["detail"].startswith(f"`{field}`: ")
    assert sentence in answer.json()["detail"]


@pytest.mark.parametrize(("field", "value", "beside", "sentence"), WRONG)
def test_a_kafka_record_is_refused_with_the_name_of_the_header(
    field: str, value: Any, beside: dict[str, Any], sentence: str
) -> None:
    headers: list[tuple[str, bytes | None]] = [
        (FIELDS[name][0], str(given).encode()) for name, given in {field: value, **beside}.items()
    ]
    screen = Screen(lambda _: DEFAULT_RULES, horizon_max_ms=3650 * 86_400_000)
    refusal = screen.look("orders", read_batch(batch_of([Sent(NOW_MS, b"k", b"v", headers)])), NOW_MS).refusal
    assert refusal is not None
    assert refusal.message.startswith(f"record 0: {FIELDS[field][0]}: ")
    assert sentence in refusal.message


@pytest.mark.parametrize(("field", "value", "beside", "sentence"), [row for row in WRONG if FIELDS[row[0]][1]])
def test_a_command_is_refused_with_the_name_of_the_option(
    field: str, value: Any, beside: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = _run(monkeypatch, {field: value, **beside})
    assert f"`{FIELDS[field][1]}`: " in ran
    assert sentence in ran


def test_what_stands_together_is_named_as_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Api().send({"schedule": {"delay": "1s", "time_zone": "UTC"}})
    assert answer.json()["detail"] == "`time_zone`: means nothing without `cron`"
    assert "`--time-zone`: means nothing without `--cron`" in _run(monkeypatch, {"delay": "1s", "time_zone": "UTC"})
    both = {"delay": "1s", "deliver_at": NOW_MS + 5000}
    assert Api().send({"schedule": both}).json()["detail"] == "`deliver_at`: means another time than `delay`"
    assert "`--at`: means another time than `--delay`" in _run(monkeypatch, both)


def _run(monkeypatch: pytest.MonkeyPatch, schedule: Mapping[str, Any]) -> str:
    """What a command reports about it, with a server in the same process."""
    api = Api()

    class Client(httpx.Client):
        def request(self, method: str, url: Any, **options: Any) -> httpx.Response:
            return api.request(method, str(url), json=options["json"])

    monkeypatch.setattr(httpx, "Client", Client)
    options = [f"{FIELDS[name][1]}={given}" for name, given in schedule.items()]
    try:
        CliRunner().invoke(app, ["send", "orders", "x", *options], catch_exceptions=False, standalone_mode=False)
    except Failure as failure:
        return str(failure)
    raise AssertionError("it was taken")


KINDS = [
    ({"schedule": {"delay": 5}}, "`delay`: expected a string, not an integer"),
    ({"schedule": {"delay": True}}, "`delay`: expected a string, not a boolean"),
    ({"schedule": {"delay_ms": "5"}}, "`delay_ms`: expected an integer, not a string"),
    ({"schedule": {"delay_ms": 1.5}}, "`delay_ms`: expected an integer, not a number with a fraction"),
    ({"schedule": {"delay_ms": True}}, "`delay_ms`: expected an integer, not a boolean"),
    ({"schedule": {"delay_ms": 10**30}}, "`delay_ms`: expected an integer of at most 9223372036854775807"),
    ({"schedule": {"deliver_at": []}}, "`deliver_at`: expected an integer or a string, not an array"),
    ({"schedule": {"dely": "1s"}}, "no field `dely` is known here"),
    ({"schedule": 5}, "`schedule`: expected an object, not an integer"),
    ({"headers": [{"name": "a", "value": 5}]}, "`value`: expected a string, not an integer"),
    ({"headers": [{"value": "5"}]}, "the field `name` is missing"),
    ({"partition": -1}, "`partition`: expected an integer of at least 0"),
    ([1], "expected an object, not an array"),
]


@pytest.mark.parametrize(("body", "sentence"), KINDS)
def test_a_value_of_another_kind_is_described_in_words_of_json(body: Any, sentence: str) -> None:
    answer = Api().send(body)
    assert (answer.status_code, answer.json()["detail"]) == (400, sentence)


QUERIES = [
    ("bucket=soon", "bucket", "expected a duration such as 90s, 1h30m or PT1H"),
    ("bucket=5", "bucket", "the unit is missing"),
    ("bucket=", "bucket", "expected a duration such as 90s"),
    ("bucket=-1h", "bucket", "it cannot be negative"),
    ("bucket=0s", "bucket", "expected whole minutes up to 1d, or whole days up to 3650d, not 0s"),
    ("bucket=90s", "bucket", "expected whole minutes up to 1d, or whole days up to 3650d, not 90s"),
    ("bucket=25h", "bucket", "expected whole minutes up to 1d, or whole days up to 3650d, not 25h"),
    ("bucket=3651d", "bucket", "expected whole minutes up to 1d, or whole days up to 3650d, not 3651d"),
    ("from=tomorrow", "from", "expected epoch milliseconds or RFC 3339 with an offset"),
    ("to=-5", "to", "nothing is due before 1970"),
    ("from=1767225605", "from", "looks like seconds"),
    ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to", "it is not later than `from`"),
    ("to=2025-01-01T00:00:00Z", "to", "it is not later than now, where `from` is not given"),
    (
        "from=2026-01-01T00:00:00Z&to=2026-01-03T00:00:00Z",
        "to",
        "from `from` on these are 2880 buckets of 1m, at most 1440 are possible; take a larger `bucket`",
    ),
]


@pytest.mark.parametrize(("query", "name", "sentence"), QUERIES)
def test_a_histogram_is_refused_with_the_name_of_the_parameter(query: str, name: str, sentence: str) -> None:
    answer = Api().get(f"/v1/topics/orders/histogram?{query}")
    assert answer.status_code == 400
    assert pointers(answer)[0][0] == f"?{name}"
    assert answer.json()["detail"].startswith(f"`{name}`: ")
    assert sentence in answer.json()["detail"]


@pytest.mark.parametrize(
    "query", ["from=253402300799999", "from=9223372036854775807", "from=2026-01-01T00:00:00Z&bucket=3650d"]
)
def test_a_histogram_of_a_far_future_is_empty_or_refused(query: str) -> None:
    api = Api()
    api.queue.ensure_topic("orders")
    assert api.get(f"/v1/topics/orders/histogram?{query}").status_code in (200, 400)


@pytest.mark.parametrize(
    "body",
    [
        {"value": "{}"},
        {"key": "{}"},
        {"value": {"deep": ["{}"]}},
        {"headers": [{"name": "{}", "value": "x"}]},
        {"headers": [{"name": "x", "value": "{}"}]},
        {"schedule": {"delay": "{}"}},
        {"schedule": {"delay": "1s", "own_id": "{}"}},
        {"schedule": {"cron": "{}"}},
        {"{}": 1},
    ],
)
def test_half_of_a_surrogate_pair_is_refused_and_named(body: Any) -> None:
    api = Api()
    for half in ("\ud800", "\udc00", "a\udfffb", "\ud83d\ud83d\ude00"):
        answer = api.send_text(json.dumps(body).replace("{}", json.dumps(half)[1:-1]))
        assert answer.status_code == 400
        assert "surrogate pair" in answer.json()["detail"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_in_json_is_named(number: str) -> None:
    answer = Api().send_text('{"value": 1, "schedule": {"delay_ms": ' + number + "}}")
    assert (answer.status_code, answer.json()["detail"]) == (400, f"`{number}` is no number in JSON")
