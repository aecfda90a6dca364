"""Whatever is sent, the answer is an answer: never a 500, and problems are always of one form."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.bodies.requests import ScheduleIn
from tests.tiers import examples
from tests.unit.api.in_memory import MESSAGES, Api, problem

API = Api()

_numbers = st.one_of(st.integers(), st.integers(-(2**70), 2**70), st.floats(allow_nan=True))
_scalars = st.one_of(
    st.none(), st.booleans(), _numbers, st.text(), st.sampled_from(["30s", "PT1H", "2026-01-01T00:00:00Z"])
)
_json = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)

_schedule = st.dictionaries(st.sampled_from([*ScheduleIn.__struct_fields__, "other"]), _scalars, max_size=3)
_headers = st.lists(
    st.dictionaries(st.sampled_from(["name", "value", "value_base64", "other"]), _scalars, max_size=3), max_size=3
)
_message = st.fixed_dictionaries(
    {},
    optional={
        "key": _json,
        "key_base64": _json,
        "value": _json,
        "value_base64": st.sampled_from(["", "AA==", "AP8=", "A", "\u00e9"]),
        "partition": st.one_of(st.none(), st.integers(-1, 5)),
        "headers": _headers,
        "schedule": st.one_of(st.none(), _schedule),
    },
)
_batch = st.fixed_dictionaries(
    {"messages": st.lists(st.one_of(_message, _json), max_size=4)},
    optional={"atomic": st.one_of(st.booleans(), _scalars)},
)
_bodies = st.one_of(_json, _message, _batch).map(lambda body: json.dumps(body).encode())
_damaged = st.tuples(_bodies, st.integers(0, 200), st.binary(max_size=3)).map(
    lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[1] + len(parts[2]) :]
)

_often = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _check(answer: Any) -> None:
    if answer.status_code >= 400:
        status, _ = problem(answer)
        assert status < 500
    elif answer.content:
        assert answer.json() is not None


@pytest.mark.slow
@_often
@given(_bodies, st.sampled_from(["sync", "async", "oneway"]))
def test_any_json_gets_an_answer_and_never_a_500(body: bytes, mode: str) -> None:
    _check(API.send_text(body, f"{MESSAGES}?mode={mode}"))


@pytest.mark.slow
@_often
@given(st.one_of(_damaged, st.binary(max_size=200)))
def test_any_bytes_get_an_answer_and_never_a_500(body: bytes) -> None:
    _check(API.send_text(body))


@_often
@given(st.text(max_size=60))
def test_any_message_id_gets_an_answer(text: str) -> None:
    answer = API.get("/v1/messages/" + "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "replace")))
    assert problem(answer) == (404, "not-found")


@_often
@given(st.text(alphabet=st.characters(max_codepoint=126, min_codepoint=33, exclude_characters="#"), max_size=60))
def test_any_query_gets_an_answer(query: str) -> None:
    _check(API.get(f"/v1/topics/delayline.dead/records?{query}"))


@pytest.mark.slow
@_often
@given(
    st.binary(), st.binary(), st.lists(st.tuples(st.text(min_size=1, max_size=20), st.none() | st.text()), max_size=4)
)
def test_what_is_sent_in_base64_is_read_back_as_it_was(key: bytes, value: bytes, headers: Any) -> None:
    import base64

    api = Api()
    encode = lambda data: base64.b64encode(data).decode()  # noqa: E731
    named = [{"name": f"x-{name}", "value": text} for name, text in headers]
    body = {"key_base64": encode(key), "value_base64": encode(value), "headers": named, "partition": 0}
    assert api.send(body).status_code == 201
    (record,) = api.get("/v1/topics/orders/records").json()["records"]

    def given_back(name: str) -> bytes:
        if f"{name}_base64" in record:
            return base64.b64decode(record[f"{name}_base64"])
        text: str = record[name]
        return text.encode()

    assert (given_back("key"), given_back("value")) == (key, value)
    assert [(h["name"], h["value"]) for h in record["headers"]] == [(h["name"], h["value"]) for h in named]
