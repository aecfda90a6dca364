"""Header names over HTTP that were most likely meant as directives."""

import pytest

from delayline.schedule.unheeded import OTHER, PAIRS_MAX
from tests.unit.api.in_memory import Api, pointers, problem

PLAIN = "/v1/topics/plain/messages"


def with_header(name: str) -> dict[str, object]:
    return {"value": "x", "headers": [{"name": "trace", "value": "1"}, {"name": name, "value": "5s"}]}


@pytest.mark.parametrize(("name", "meant"), [("Delay", "delay"), ("dely", "delay"), ("delay_ms", "delay-ms")])
def test_a_name_that_is_like_a_directive_is_refused_and_both_are_named(name: str, meant: str) -> None:
    answer = Api().send(with_header(name))
    assert problem(answer) == (400, "invalid-body")
    assert pointers(answer) == [("/headers/1/name", "misspelt")]
    assert f"`{name}` is no directive; `{meant}` is one" in answer.json()["detail"]


def test_a_users_own_header_under_delay_passes_and_is_counted() -> None:
    api = Api()
    assert api.send(with_header("delay-reason")).status_code == 201
    assert (b"delay-reason", b"5s") in api.all_records("orders")[0].headers
    labels = {"topic": "orders", "header": "delay-reason", "why": "unknown-name"}
    assert api.metric("delayline_unheeded_headers_total", **labels) == 1


def test_it_is_counted_for_each_message_that_has_it() -> None:
    api = Api()
    assert api.send({"messages": [with_header("delay-reason")] * 3}).status_code == 201
    labels = {"topic": "orders", "header": "delay-reason", "why": "unknown-name"}
    assert api.metric("delayline_unheeded_headers_total", **labels) == 3


def test_it_is_refused_where_unknown_names_are() -> None:
    answer = Api(refuse_unknown=True).send(with_header("delay-reason"))
    assert problem(answer) == (400, "invalid-body")
    assert pointers(answer) == [("/headers/1/name", "unknown")]


def test_in_a_topic_without_delays_what_is_like_a_directive_is_counted() -> None:
    api = Api()
    assert api.send(with_header("Delay"), path=PLAIN).status_code == 201
    labels = {"topic": "plain", "header": "Delay", "why": "topic-not-enabled"}
    assert api.metric("delayline_unheeded_headers_total", **labels) == 1
    assert problem(Api(refuse_unknown=True).send(with_header("Delay"), path=PLAIN)) == (400, "invalid-body")


def test_the_topic_shows_what_was_seen_in_it() -> None:
    api = Api()
    api.send(with_header("delay-reason"))
    [seen] = api.get("/v1/topics/orders").json()["unheeded"]
    assert (seen["header"], seen["why"], seen["seen"]) == ("delay-reason", "unknown-name", 1)
    assert "docs/directives.md" in seen["detail"]


def test_names_that_a_sender_invents_make_no_more_series_than_their_bound() -> None:
    api = Api()
    for first in range(0, 3 * PAIRS_MAX, 50):
        messages = [with_header(f"delay-{number}-x") for number in range(first, first + 50)]
        assert api.send({"messages": messages}).status_code == 201
    (family,) = [one for one in api.registry.collect() if one.name == "delayline_unheeded_headers"]
    counts = {sample.labels["header"]: sample.value for sample in family.samples if sample.name.endswith("_total")}
    assert len(counts) == PAIRS_MAX + 1
    assert counts[OTHER] == 2 * PAIRS_MAX
