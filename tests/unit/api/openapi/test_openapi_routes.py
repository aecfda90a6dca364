"""The OpenAPI document and the routes agree. Each endpoint is asked in each situation; what it reads and answers then
is what is documented, all of it and no more."""

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import httpx
import jsonschema
import pytest

from api.http.routing import PlainRoute
from api.http.sending_path import SendingPath
from tests.unit.api.in_memory import Api
from tests.unit.api.situations import DOCUMENT, ENDPOINTS, SITUATIONS, api, ask, examples, filled, headers_of

pytestmark = pytest.mark.slow

UNREAD = {"/healthz", "/readyz", "/metrics"}
"""Probes may ask with whatever query they like."""
OF_HTTP = {b"content-type", b"content-length", b"content-encoding", b"transfer-encoding"}
"""Headers of every request with a body; the document describes the body instead."""
ANSWERED = ("etag", "location", "idempotency-replayed", "preference-applied", "retry-after", "set-cookie")


class _Listening(dict[bytes, bytes]):
    def __init__(self, headers: dict[bytes, bytes], seen: set[str]) -> None:
        super().__init__(headers)
        self._seen = seen

    def get(self, name: bytes, default: Any = None) -> Any:
        self._note(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        assert isinstance(name, bytes)
        self._note(name)
        return super().__contains__(name)

    def __getitem__(self, name: bytes) -> bytes:
        self._note(name)
        return super().__getitem__(name)

    def _note(self, name: bytes) -> None:
        if name not in OF_HTTP:
            self._seen.add(name.decode())


def listen(of: Api) -> set[str]:
    """Names of the request headers that routes look at from now on."""
    seen: set[str] = set()
    for route in of.app.routes:
        if isinstance(route, PlainRoute):
            route.app = _listening(route.app, seen)
    layer: Any = of.app.build_middleware_stack()
    of.app.middleware_stack = layer
    while layer := getattr(layer, "app", None):
        if isinstance(layer, SendingPath):  # sends do not come to their route
            layer.send = _listening(layer.send, seen)
    return seen


def _listening(app: Any, seen: set[str]) -> Any:
    async def listening(scope: Any, receive: Any, send: Any) -> None:
        scope["delayline.headers"] = _Listening(scope["delayline.headers"], seen)
        await app(scope, receive, send)

    return listening


def faults(answer: httpx.Response) -> list[tuple[str, str]]:
    """(pointer, code) of what is wrong; nothing where the answer is no problem, or is none of the request's."""
    if answer.status_code < 400 or not answer.content:
        return []
    return [(fault["pointer"], fault["code"]) for fault in answer.json().get("errors", ())]


def refused_values(schema: dict[str, Any]) -> list[str]:
    """Just outside of what the schema allows."""
    if "enum" in schema:
        return ["nonsense"]
    if "minimum" in schema:
        return [str(schema["minimum"] - 1), str(schema["maximum"] + 1)]
    return ["nonsense"] if schema.get("anyOf") else []


def taken_values(schema: dict[str, Any]) -> list[str]:
    """The ends of what it allows; a stream is not begun."""
    if "enum" in schema:
        return [value for value in schema["enum"] if value != "sse"]
    return [str(schema["minimum"]), str(schema["maximum"])] if "minimum" in schema else []


@cache
def answers_of(id: str) -> Sequence[tuple[str, httpx.Response]]:
    """(situation, answer)."""
    return [(situation.__name__, answer) for situation in SITUATIONS for answer in situation(id)]


every_endpoint = pytest.mark.parametrize("id", sorted(ENDPOINTS))


@every_endpoint
def test_an_endpoint_answers_the_statuses_of_the_document_and_no_others(id: str) -> None:
    seen = defaultdict(set)
    for situation, answer in answers_of(id):
        seen[str(answer.status_code)].add(situation)
    documented = set(ENDPOINTS[id][2]["responses"]) - {"default"}
    assert set(seen) == documented, {status: seen[status] for status in set(seen) ^ documented}


@every_endpoint
def test_an_endpoint_looks_at_the_request_headers_of_the_document_and_no_others(id: str) -> None:
    method, path, endpoint = ENDPOINTS[id]
    asked = api(operation_timeout_s=0.0)
    seen = listen(asked)
    options = {"json": body} if (body := examples(endpoint)[0]) is not None else {}
    asked.request(method, filled(path), **options)
    if id == "readRecords":
        asked.request("HEAD", filled(path) + "?follow=sse")
    of_all_posts = {"delayline-request"} if "requestBody" in endpoint else set()
    assert seen - of_all_posts == {name.lower() for name in headers_of(id)}


@every_endpoint
def test_an_endpoint_takes_the_query_parameters_of_the_document_and_no_others(id: str) -> None:
    documented = [one for one in ENDPOINTS[id][2].get("parameters", ()) if one["in"] == "query"]
    if ENDPOINTS[id][1] in UNREAD:
        assert documented == []
        return
    (fault,) = ask(api(), id, "?nonsense=1").json()["errors"]
    named = fault["detail"].removeprefix("parameters here: ").split(", ") if documented else []
    assert named == [one["name"] for one in documented]
    for one in documented:
        for value in refused_values(one["schema"]):
            answer = ask(api(operation_timeout_s=0.0), id, f"?{one['name']}={value}")
            assert faults(answer) == [(f"?{one['name']}", "invalid-value")]
        for value in taken_values(one["schema"]):
            answer = ask(api(operation_timeout_s=0.0), id, f"?{one['name']}={value}")
            assert (f"?{one['name']}", "invalid-value") not in faults(answer)


@every_endpoint
def test_an_endpoint_takes_the_members_of_a_body_in_the_document_and_no_others(id: str) -> None:
    endpoint = ENDPOINTS[id][2]
    if "requestBody" not in endpoint:
        return
    schema = endpoint["requestBody"]["content"]["application/json"]["schema"]
    refs = [one["$ref"].rpartition("/")[2] for one in schema.get("anyOf", [schema])]
    documented = {name for ref in refs for name in DOCUMENT["components"]["schemas"][ref]["properties"]}
    every = {name for one in DOCUMENT["components"]["schemas"].values() for name in one["properties"]}
    taken, asked = set(), api()
    for name in sorted(every):
        answer = ask(asked, id, body={name: ["neither"]})
        taken |= set() if (f"/{name}", "unknown-field") in faults(answer) else {name}
    assert taken == documented


@every_endpoint
def test_every_answer_is_of_the_schema_and_has_the_headers_of_the_document(id: str) -> None:
    seen: dict[str, set[str]] = defaultdict(set)
    for situation, answer in answers_of(id):
        response = ENDPOINTS[id][2]["responses"][str(answer.status_code)]
        seen[str(answer.status_code)] |= set(answer.headers) & set(ANSWERED)
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if kind.endswith("json"):
            schema = {**response["content"][kind]["schema"], "components": DOCUMENT["components"]}
            jsonschema.Draft202012Validator(schema).validate(json.loads(answer.text))
        elif answer.content:
            assert kind in response["content"], situation
    for status, names in seen.items():
        response = ENDPOINTS[id][2]["responses"][status]
        assert names == {name.lower() for name in response.get("headers", {})}, status
