"""What is not there, through every route of the OpenAPI document that names it: 404, and no error of the server.

The command line makes exit code 3 of it (`cli.http_client`)."""

from typing import Any

import pytest

from delayline.schedule.rules import DEFAULT_RULES
from tests.unit.api.in_memory import Api, problem

DOCUMENT: dict[str, Any] = Api().get("/openapi.json").json()


def operations(name: str) -> list[Any]:
    """Those whose path names a topic, a partition or a message."""
    return [
        pytest.param(method.upper(), path, operation, id=operation["operationId"])
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if "{" + name + "}" in path
    ]


def asked(api: Api, method: str, path: str, operation: dict[str, Any], **given: str) -> tuple[int, str]:
    """The path with what is `given`, and else with the example of the document; the body is that of an example."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", given.get(parameter["name"], parameter["example"]))
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = [example["value"] for example in content.get("examples", {}).values()]
    query = {
        parameter["name"]: parameter["example"]
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and parameter.get("required")
    }
    answer = api.request(method, path, params=query, **({"json": examples[0]} if examples else {}))
    return problem(answer) if answer.status_code >= 400 else (answer.status_code, "")


@pytest.fixture
def api() -> Api:
    api = Api(topics_on_first_use=False)
    api.queue.ensure_topic("orders")
    api.queue.ensure_buffer("orders", DEFAULT_RULES)
    return api


@pytest.mark.parametrize(("method", "path", "operation"), operations("topic"))
def test_a_topic_that_is_not_there_is_404(api: Api, method: str, path: str, operation: dict[str, Any]) -> None:
    if operation["operationId"] == "deleteTopic":
        api = Api()  # it is refused where topics are made with other tools
    assert asked(api, method, path, operation, topic="nothing")[0] == 404


@pytest.mark.parametrize(("method", "path", "operation"), operations("topic"))
def test_a_topic_of_delaylines_own_is_404_or_forbidden(
    api: Api, method: str, path: str, operation: dict[str, Any]
) -> None:
    if operation["operationId"] == "readRecords":
        pytest.skip("some of them may be read")
    assert asked(api, method, path, operation, topic="delayline.buffer.orders")[0] in (403, 404)


@pytest.mark.parametrize(("method", "path", "operation"), operations("topic"))
def test_a_name_that_no_topic_can_have_is_400(api: Api, method: str, path: str, operation: dict[str, Any]) -> None:
    assert asked(api, method, path, operation, topic="a b")[0] in (400, 404)


@pytest.mark.parametrize("partition", ["99", "-1", "x", "0x0", "00", "9" * 300, "a%20b", "٣"])
@pytest.mark.parametrize(("method", "path", "operation"), operations("partition"))
def test_a_partition_that_is_not_there_is_404(
    api: Api, method: str, path: str, operation: dict[str, Any], partition: str
) -> None:
    assert asked(api, method, path, operation, topic="orders", partition=partition) == (404, "not-found")


@pytest.mark.parametrize(("method", "path", "operation"), operations("partition"))
def test_a_topic_without_shards_has_none(api: Api, method: str, path: str, operation: dict[str, Any]) -> None:
    """No delayed message was ever sent to it."""
    api.queue.ensure_topic("quick")
    assert asked(api, method, path, operation, topic="quick", partition="0") == (404, "not-found")


@pytest.mark.parametrize(("method", "path", "operation"), operations("message_id"))
def test_a_message_that_is_not_there_is_404(api: Api, method: str, path: str, operation: dict[str, Any]) -> None:
    for absent in ("nothing.0.1.2", "orders.99.1.2", "no id"):
        assert asked(api, method, path, operation, message_id=absent, id=absent)[0] == 404, absent


def test_records_of_a_partition_that_is_not_there_are_refused_by_the_name_of_the_parameter(api: Api) -> None:
    for partition in ("99", "-1", "x"):
        answer = api.get("/v1/topics/orders/records", params={"partition": partition, "offset": "0"})
        assert answer.status_code in (400, 404), answer.text
