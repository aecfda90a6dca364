"""The OpenAPI document: valid, complete, and its examples work."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from api.http.endpoint import PATH_PARAMETERS
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Found, Listing, Place, Resolution, Row, StallReport, State
from delayline.records.message import MessageId, Shard
from delayline.schedule.rules import DEFAULT_RULES
from tests.unit.api.in_memory import NOW_MS, Api

DOCUMENT: dict[str, Any] = Api().get("/openapi.json").json()


def _operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            yield method.upper(), path, operation


def _request_examples() -> Iterator[Any]:
    for method, path, operation in _operations():
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        for name, example in content.get("examples", {}).items():
            yield pytest.param(
                method, _filled(path, operation), example["value"], id=f"{operation['operationId']}-{name}"
            )


def _filled(path: str, operation: dict[str, Any]) -> str:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", parameter["example"])
    return path


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, child in node.items():
            if name == "$ref":
                yield child
            else:
                yield from _references(child)
    elif isinstance(node, list):
        for child in node:
            yield from _references(child)


def test_every_reference_in_the_document_leads_somewhere() -> None:
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    found = set(_references(DOCUMENT))
    assert found
    assert found <= known


def test_every_operation_has_what_openapi_requires() -> None:
    seen: set[str] = set()
    for method, path, operation in _operations():
        assert operation["operationId"] not in seen
        seen.add(operation["operationId"])
        assert operation["summary"]
        assert operation["responses"]
        assert all(response["description"] for response in operation["responses"].values())
        placeholders = set(re.findall(r"{(\w+)}", path))
        given = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
        assert given == placeholders, (method, path)
        assert all("schema" in parameter for parameter in operation.get("parameters", ()))
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert DOCUMENT["info"]["title"]
    assert DOCUMENT["info"]["version"] == "1.2.3"


def test_every_schema_is_one_that_json_schema_knows() -> None:
    known = {"title", "description", "type", "properties", "required", "additionalProperties", "examples"}
    for schema in DOCUMENT["components"]["schemas"].values():
        assert set(schema) <= known
        assert schema["type"] == "object"
        assert set(schema.get("required", ())) <= set(schema["properties"])


def test_the_document_names_exactly_the_routes_that_work() -> None:
    api = Api()
    for method, path, operation in _operations():
        answer = api.request(method, _filled(path, operation), json={})
        assert answer.status_code not in (405, 501), (method, path)


def _knowing_api() -> Api:
    """The message of the examples waits."""
    api = Api()
    api.queue.ensure_topic("orders")
    message_id = PATH_PARAMETERS["message_id"].example
    assert message_id is not None
    found = Found(MessageId.parse(message_id), State.PENDING, NOW_MS, NOW_MS + 1)
    api.owners.messages[message_id] = found
    shards = tuple(Shard("orders", str(number)) for number in range(4))
    api.owners.listings = [Listing(shards, (Row(Place(found.due_ms, found.id.shard, 1041), found),), None)]
    api.owners.decide = lambda: Resolution(Outcome.APPLIED)
    api.owners.stalls[shards[0]] = StallReport(shards[0])
    api.queue.ensure_topic("orders")
    api.queue.ensure_buffer("orders", DEFAULT_RULES)
    return api


@pytest.mark.parametrize(("method", "path", "body"), list(_request_examples()))
def test_every_example_is_accepted(method: str, path: str, body: Any) -> None:
    answer = _knowing_api().request(method, path, json=body)
    assert answer.status_code in (200, 201), answer.text


@pytest.mark.parametrize(("method", "path", "body"), list(_request_examples()))
def test_every_answer_to_an_example_has_the_documented_fields(method: str, path: str, body: Any) -> None:
    answer = _knowing_api().request(method, path, json=body)
    operation = next(o for m, p, o in _operations() if m == method and _filled(p, o) == path)
    schema = operation["responses"][str(answer.status_code)]["content"]["application/json"]["schema"]
    names = [ref.rpartition("/")[2] for ref in _references(schema)]
    schemas = [DOCUMENT["components"]["schemas"][name] for name in names]
    assert any(set(schema["required"]) <= set(answer.json()) <= set(schema["properties"]) for schema in schemas)


def test_the_document_needs_nothing_from_elsewhere() -> None:
    assert "http://" not in json.dumps(DOCUMENT)
    assert "https://" not in json.dumps(DOCUMENT)
