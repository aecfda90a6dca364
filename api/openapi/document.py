"""The OpenAPI document, generated: paths and operations from the routes, bodies from their structs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from api.access.cookies import SESSION
from api.http.caller import Open
from api.http.endpoint import (
    ACT,
    APPLIED,
    ETAG,
    LOCATION,
    PATH_PARAMETERS,
    REPLAYED,
    RETRY_AFTER,
    SET_COOKIE,
    Endpoint,
    QueryParameter,
    Reply,
    RequestHeader,
)
from api.http.hosts import HARMLESS
from api.http.problems import Problem
from api.openapi.examples import EXAMPLES

DESCRIPTION = (
    "Send messages with a delay and ask for their state. Times come in as RFC 3339 with an offset or as "
    "epoch milliseconds, and go out as RFC 3339 in UTC. 201 means durable, 202 does not. Unknown fields and "
    "parameters are errors; everything that goes wrong is a problem document (RFC 9457)."
)

_REF = "#/components/schemas/{name}"
_RESPONSE_HEADERS: dict[str, dict[str, Any]] = {
    ETAG: {"description": "The message's version", "schema": {"type": "string"}, "example": '"0"'},
    LOCATION: {"description": "Where to ask about the message, or the operation", "schema": {"type": "string"}},
    REPLAYED: {"description": "`true`: answered before", "schema": {"type": "string"}},
    APPLIED: {"description": "`respond-async`, where the request preferred it", "schema": {"type": "string"}},
    RETRY_AFTER: {"description": "Seconds", "schema": {"type": "integer", "minimum": 0}},
    SET_COOKIE: {"description": "The session's cookie, or that it is dropped", "schema": {"type": "string"}},
}
_PROBLEMS = {
    400: "Invalid, or not supported: see `type` and `errors`",
    401: "No key, or one that is not known or has ended, or a session that is over",
    403: "No rule allows it, it is not for clients, or the token of the session is missing",
    404: "No such thing",
    408: "The body did not arrive in time",
    409: "It has ended: see `outcome`; several messages have this own id; a request with this key is in flight",
    410: "It has ended, and how is not kept any more; or it cannot be undone any more",
    412: "It has another version than the one in `If-Match`",
    413: "Too large",
    415: "Not JSON",
    422: "Another request was accepted with this `Idempotency-Key`",
    429: "As many messages wait for the topic as its rule allows, there are as many topics as there may be, or a "
    "quota of the caller is used up",
    503: "Not now; see `Retry-After`. A send was not stored, or it is unknown whether",
}
_HEADER_OF = {401: SET_COOKIE, 429: RETRY_AFTER, 503: RETRY_AFTER}
"""A session that is over takes its cookie with it."""
_ANY_OTHER = (
    "Any other problem: a wrong method (405), a wrong host (421), too many requests from one address, or of one "
    "caller (429), an error of the server (500)"
)

_SCHEMES = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, where `api.auth` is `keys`, or a token of `access.oidc.issuer`",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION.name,
        "description": f"A session of `POST /v1/session`; over https the cookie is `{SESSION.secure_name}`",
    },
    "certificate": {
        "type": "mutualTLS",
        "description": "A client certificate, where `api.client_certificates` is on; a change by it alone needs the "
        "header `Delayline-Request`",
    },
    "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token", "description": "The session's `csrf_token`"},
}


def document(version: str, routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the routes that were registered with an endpoint. FastAPI's own generator looks
    for pydantic models, of which there are none here. HEAD is left out: it is GET without the body (RFC 9110)."""
    paths: dict[str, dict[str, Any]] = {}
    structs: dict[type, None] = {Problem: None}
    for method, path, endpoint in endpoints(routes):
        paths.setdefault(path, {})[method] = describe(method, path, endpoint)
        bodies = (body for reply in endpoint.replies for body in reply.bodies)
        structs.update(dict.fromkeys((*endpoint.takes, *bodies)))
    _, components = msgspec.json.schema_components(structs, ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Delayline", "version": version, "description": DESCRIPTION},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SCHEMES},
    }


def endpoints(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str, Endpoint]]:
    """(method in lower case, path, endpoint)."""
    for route in routes:
        if isinstance(route, APIRoute) and route.include_in_schema and route.openapi_extra is not None:
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield method.lower(), route.path_format, route.openapi_extra["endpoint"]


def describe(method: str, path: str, endpoint: Endpoint) -> dict[str, Any]:
    """The Operation Object."""
    in_path = [_parameter(PATH_PARAMETERS[name], "path") for name in re.findall(r"{(\w+)}", path)]
    in_query = [_parameter(one, "query") for one in endpoint.query]
    headers = [*endpoint.headers, *([ACT] if method == "post" and not endpoint.takes else [])]
    parameters = [*in_path, *in_query, *map(_header, headers)]
    return {
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "description": _right(endpoint),
        "security": [{}] if endpoint.act is Open.TO_ALL else _security(method),
        **({"parameters": parameters} if parameters else {}),
        **({"requestBody": _request_body(endpoint.takes)} if endpoint.takes else {}),
        "responses": {
            **{str(reply.status): _response(reply) for reply in endpoint.replies},
            **{str(status): _problem(status) for status in sorted(refused(method, endpoint))},
            "default": {"description": _ANY_OTHER, "content": _PROBLEM},
        },
    }


def _security(method: str) -> list[dict[str, list[str]]]:
    """A key, or a session, with its token where something changes, or a certificate. Nothing, where none of them is
    needed."""
    session: dict[str, list[str]] = {"session": []}
    shown = session if method.upper() in HARMLESS else {**session, "csrf": []}
    return [{"key": []}, shown, {"certificate": []}, {}]


def refused(method: str, endpoint: Endpoint) -> set[int]:
    """Statuses of its problems: its own, those of reading a body, of missing rights, of quotas, and a POST that a
    page's form could have sent."""
    of_body = {400, 408, 413, 415} if endpoint.takes else set()
    of_key = set() if endpoint.act is Open.TO_ALL else {401}
    of_rights = set() if isinstance(endpoint.act, Open) and method != "post" else {403}
    of_quota = {429} if endpoint.counts else set()
    return {*endpoint.refuses, *of_body, *of_key, *of_rights, *of_quota}


def _right(endpoint: Endpoint) -> str:
    """Which right it takes, where the installation has rules."""
    match endpoint.act:
        case Open.TO_ALL:
            return "Needs no key."
        case Open.TO_PRINCIPALS:
            return "Needs a key, and no right."
        case act:
            return f"Needs the right to `{act}`."


def _parameter(one: QueryParameter, where: str) -> dict[str, Any]:
    """The Parameter Object; `where` is path or query."""
    found = {
        "name": one.name,
        "in": where,
        "required": where == "path",
        "description": one.meaning,
        "schema": one.schema,
    }
    return found if one.example is None else {**found, "example": one.example}


def _header(one: RequestHeader) -> dict[str, Any]:
    return {
        "name": one.name,
        "in": "header",
        "required": one.required,
        "description": one.meaning,
        "schema": one.schema,
    }


def _request_body(takes: Sequence[type]) -> dict[str, Any]:
    examples = {
        name: {"summary": summary, "value": value}
        for struct in takes
        for name, (summary, value) in EXAMPLES[struct].items()
    }
    return {"required": True, "content": {"application/json": {"schema": _any_of(takes), "examples": examples}}}


def _response(reply: Reply) -> dict[str, Any]:
    """The Response Object of an answer that is no problem."""
    content: dict[str, Any] = {"application/json": {"schema": _any_of(reply.bodies)}} if reply.bodies else {}
    content |= {media_type: {"schema": {"type": "string"}} for media_type in reply.texts}
    return {
        "description": reply.meaning,
        **({"headers": {name: _RESPONSE_HEADERS[name] for name in reply.headers}} if reply.headers else {}),
        **({"content": content} if content else {}),
    }


def _problem(status: int) -> dict[str, Any]:
    name = _HEADER_OF.get(status)
    headers = {"headers": {name: _RESPONSE_HEADERS[name]}} if name else {}
    return {"description": _PROBLEMS[status], **headers, "content": _PROBLEM}


def _any_of(structs: Sequence[type]) -> dict[str, Any]:
    refs = [{"$ref": _REF.format(name=struct.__name__)} for struct in structs]
    return refs[0] if len(refs) == 1 else {"anyOf": refs}


_PROBLEM = {"application/problem+json": {"schema": _any_of([Problem])}}
