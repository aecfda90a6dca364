"""What the operations of the OpenAPI document are made of."""

from typing import Any

from api.problems import Problem

REF = "#/components/schemas/{name}"


def ref(struct: type) -> dict[str, str]:
    """Where the schema of the struct stands."""
    return {"$ref": REF.format(name=struct.__name__)}


def content(description: str, struct: type, **rest: Any) -> dict[str, Any]:
    """A response whose body is the struct."""
    return {"description": description, "content": {"application/json": {"schema": ref(struct)}}, **rest}


def problems(*statuses: int) -> dict[str, Any]:
    """Responses that are problem documents."""
    body = {"application/problem+json": {"schema": ref(Problem)}}
    meanings = {
        400: "Invalid, or not supported: see `type` and `errors`",
        403: "Not for clients",
        404: "No such thing",
        409: "It has ended: see `outcome`; several messages have this own id; a request with this key is in flight",
        410: "It has ended, and how is not kept any more",
        412: "It has another version than `If-Match` says",
        413: "Too large",
        415: "Not JSON",
        422: "Another request was accepted with this `Idempotency-Key`",
        429: "As many messages wait for the topic as its rule allows; see `Retry-After`",
        503: "Not now; see `Retry-After`. A send was not stored, or it is unknown whether",
    }
    return {str(status): {"description": meanings[status], "content": body} for status in statuses}


def parameter(name: str, where: str, description: str, schema: dict[str, Any], example: Any = None) -> dict[str, Any]:
    """A Parameter Object; `where` is path, query or header."""
    found = {"name": name, "in": where, "required": where == "path", "description": description, "schema": schema}
    return found if example is None else {**found, "example": example}


TOPIC = parameter(
    "topic", "path", "The topic's name", {"type": "string", "pattern": "^[a-zA-Z0-9._-]{1,249}$"}, "orders"
)
