"""Situations in which each endpoint of the OpenAPI document is asked, and what it answers then."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import httpx

from api.http.endpoint import PATH_PARAMETERS
from delayline.access.acts import Act
from delayline.access.source import AccessSource
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import Found, Gone, Listing, Place, Resolution, Row, ShardFigures, StallReport, State
from delayline.records.message import MessageId, Shard
from delayline.schedule.rules import DAY_MS, DEFAULT_RULES
from mq.contract import Admin, Client
from mq.errors import QueueUnavailable, TopicBusy
from tests.unit.api.access.held import HeldAccess, allowing, log_in
from tests.unit.api.in_memory import NOW_MS, Api

DOCUMENT: dict[str, Any] = Api().get("/openapi.json").json()
ENDPOINTS = {
    endpoint["operationId"]: (method.upper(), path, endpoint)
    for path, methods in DOCUMENT["paths"].items()
    for method, endpoint in methods.items()
}

WITHOUT_RIGHTS = HeldAccess("", "eve")

ID = MessageId.parse(str(PATH_PARAMETERS["message_id"].example))
SHARDS = tuple(Shard("orders", str(number)) for number in range(4))


def api(access: AccessSource | None = None, **settings: Any) -> Api:
    """The topic and the message of the examples are there."""
    made = Api(access=access, **settings)
    made.queue.ensure_topic("orders")
    made.queue.ensure_buffer("orders", DEFAULT_RULES)
    found = Found(ID, State.PENDING, NOW_MS, NOW_MS + 1)
    made.owners.messages[str(ID)] = found
    made.owners.listings = [Listing(SHARDS, (Row(Place(found.due_ms, found.id.shard, 1041), found),), None)]
    made.owners.is_idle = True
    made.owners.stalls[SHARDS[0]] = StallReport(SHARDS[0])
    made.owners.shards = [ShardFigures(shard, ready=True, owner_epoch=1) for shard in SHARDS]
    return made


def examples(endpoint: dict[str, Any]) -> list[Any]:
    """Bodies; one that is not there where the endpoint takes none."""
    content = endpoint.get("requestBody", {}).get("content", {}).get("application/json", {})
    return [one["value"] for one in content.get("examples", {}).values()] or [None]


def filled(path: str, **instead: str) -> str:
    for name, parameter in PATH_PARAMETERS.items():
        path = path.replace("{" + name + "}", instead.get(name, str(parameter.example)))
    return path


def ask(
    of: Api, id: str, query: str = "", body: Any = ..., path: dict[str, str] | None = None, **headers: str
) -> Any:
    """The first example, but for what is given."""
    method, template, endpoint = ENDPOINTS[id]
    body = examples(endpoint)[0] if body is ... else body
    options = {} if body is None else {"json": body}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return of.request(method, filled(template, **(path or {})) + query, headers=named, **options)


# --- situations: each gives the answers of one endpoint


def as_in_the_examples(id: str) -> Iterator[httpx.Response]:
    for body in examples(ENDPOINTS[id][2]):
        yield ask(api(), id, body=body)


def with_an_unknown_parameter(id: str) -> Iterator[httpx.Response]:
    yield ask(api(), id, "?nonsense=1")


def with_a_body_that_is_no_json(id: str) -> Iterator[httpx.Response]:
    method, path, endpoint = ENDPOINTS[id]
    if "requestBody" in endpoint:
        yield api().request(method, filled(path), content=b"x", headers={"content-type": "text/plain"})
        yield api().request(method, filled(path), content=b"x", headers={"content-type": "application/json"})


def with_a_body_too_large(id: str) -> Iterator[httpx.Response]:
    if "requestBody" in ENDPOINTS[id][2]:
        yield ask(api(body_bytes_max=1), id)


def with_a_body_that_does_not_come(id: str) -> Iterator[httpx.Response]:
    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    method, path, endpoint = ENDPOINTS[id]
    if "requestBody" in endpoint:
        kind = {"content-type": "application/json"}
        yield api(body_timeout_s=0.01).request(method, filled(path), content=never(), headers=kind)


def as_a_form_could_send_it(id: str) -> Iterator[httpx.Response]:
    async def work(http: httpx.AsyncClient) -> httpx.Response:
        del http.headers["delayline-request"]
        method, path, _ = ENDPOINTS[id]
        return await http.request(method, filled(path))

    yield api().run(work)


def where_nothing_is_there(id: str) -> Iterator[httpx.Response]:
    yield ask(Api(topics_on_first_use=False), id)
    yield ask(Api(), id, body={"filter": {"topic": "nowhere"}} if id == "cancelMessages" else ...)
    if id == "listMessages":
        yield ask(Api(), id, "?topic=nowhere")


def where_the_message_has_ended(id: str) -> Iterator[httpx.Response]:
    for known in (Gone(), Found(ID, State.DELIVERED, NOW_MS, NOW_MS + 1)):
        ended = api()
        ended.owners.messages[str(ID)] = known
        ended.owners.decide = lambda: Resolution(Outcome.UNMATCHED)
        yield ask(ended, id)


def where_several_have_the_own_id(id: str) -> Iterator[httpx.Response]:
    several = api()
    (listing,) = several.owners.listings
    several.owners.listings = [replace(listing, rows=listing.rows * 2)]
    yield ask(several, id)


def on_another_version(id: str) -> Iterator[httpx.Response]:
    other = api()
    other.owners.decide = lambda: Resolution(Outcome.UNMATCHED, "version-mismatch")
    yield ask(other, id, If_Match='W/"7"') if "If-Match" in headers_of(id) else ask(other, id)


def where_nobody_waits(id: str) -> Iterator[httpx.Response]:
    undecided = api(operation_timeout_s=0.01)
    undecided.owners.decide = lambda: None
    yield ask(undecided, id, Prefer="respond-async") if "Prefer" in headers_of(id) else ask(undecided, id)


def where_owners_are_silent(id: str) -> Iterator[httpx.Response]:
    silent = api(owner_timeout_s=0.01, operation_timeout_s=0.0)
    silent.owners.silent, silent.owners.decide = True, lambda: None
    yield ask(silent, id)


def where_the_queue_is_away(id: str) -> Iterator[httpx.Response]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise QueueUnavailable("away")

    away = api()
    for name in {*vars(Client), *vars(Admin)}:
        if not name.startswith("_"):
            setattr(away.queue, name, refuse)
    yield ask(away, id)


def where_appends_fail(id: str) -> Iterator[httpx.Response]:
    failing = api()
    failing.queue.failure = QueueUnavailable("away")
    yield ask(failing, id)


def where_too_much_is_in_flight(id: str) -> Iterator[httpx.Response]:
    yield ask(api(requests_max=0), id)


def where_it_is_not_ready(id: str) -> Iterator[httpx.Response]:
    starting = api()
    starting.readiness = (False, "starting")
    yield ask(starting, id)


def where_it_is_not_for_clients(id: str) -> Iterator[httpx.Response]:
    body = {"createTopic": {"name": "delayline.x"}}.get(id, ...)
    yield ask(api(), id, body=body, path={"topic": "delayline.dead"})


def without_a_key(id: str) -> Iterator[httpx.Response]:
    if ENDPOINTS[id][2]["security"] != [{}]:
        yield ask(api(access=WITHOUT_RIGHTS), id)


def without_the_right(id: str) -> Iterator[httpx.Response]:
    if ENDPOINTS[id][2]["security"] != [{}]:
        for query in ("", "?topic=orders") if id == "listMessages" else ("",):
            yield ask(api(access=WITHOUT_RIGHTS), id, query, authorization=WITHOUT_RIGHTS.header("eve"))


def by_a_session(id: str) -> Iterator[httpx.Response]:
    """With its token, without it, and after its end."""
    installation = api(access=WITHOUT_RIGHTS)
    session = log_in(installation, WITHOUT_RIGHTS, "eve")
    if ENDPOINTS[id][2]["security"] != [{}]:
        yield ask(installation, id, cookie=session.cookie)
        yield ask(installation, id, **session.headers)
        installation.clock.advance(DAY_MS)
        yield ask(installation, id, **session.headers)


def over_a_quota(id: str) -> Iterator[httpx.Response]:
    """The second request; one that is due too late, one that makes a topic too many."""
    if ENDPOINTS[id][2]["security"] == [{}]:
        return
    for limits in ("requests_per_second = 1\nrequests_burst = 1", "topics_per_hour = 1", 'horizon_max = "1ms"'):
        rules = allowing("ann", *Act, topics="*")
        access = HeldAccess(f"{rules}[[quota]]\nprincipals = ['ann']\n{limits}\n", "ann")
        limited = api(access=access, operation_timeout_s=0.0)
        for number in range(2):
            body = {"name": f"t{number}"} if id == "createTopic" else ...
            yield ask(limited, id, body=body, authorization=access.header("ann"))


def where_there_is_no_room(id: str) -> Iterator[httpx.Response]:
    crowded = api(topics_max=6)
    crowded.full.add("orders")
    messages = {"value": 1, "schedule": {"delay": "1h"}}
    for number in range(3):
        yield ask(crowded, id, body={"createTopic": {"name": f"t{number}"}, "sendMessages": messages}.get(id, ...))


def where_it_is_there_already(id: str) -> Iterator[httpx.Response]:
    if id == "createTopic":
        yield ask(api(), id, body={"name": "orders"})


def where_the_shard_is_healthy(id: str) -> Iterator[httpx.Response]:
    healthy = api()
    healthy.owners.stalls.clear()
    yield ask(healthy, id)


def where_the_topic_is_busy(id: str) -> Iterator[httpx.Response]:
    def refuse(name: str) -> None:
        raise TopicBusy("busy")

    if id == "deleteTopic":
        busy = api(operation_timeout_s=0.0)
        busy.queue.delete_topic = refuse
        yield ask(busy, id, "?force=true")


def where_something_was_purged(id: str) -> Iterator[httpx.Response]:
    """Asked twice, by another id, while the queue is away, and when its time is over."""
    if id == "undo":
        purged = api(undo_ms=DAY_MS)
        purged.owners.decide = lambda: Resolution(Outcome.APPLIED, count=1)
        undo = ask(purged, "purgeTopic").json()["undo"]["id"]
        for query in (f"?id={undo}", f"?id={undo}", "?id=0.99"):
            yield ask(purged, id, query)
        purged.queue.is_stable = lambda topic, partition, timeout_s: False
        yield ask(purged, id, f"?id={undo}")
        purged.clock.advance(DAY_MS + 1)
        yield ask(purged, id, f"?id={undo}")
    if id == "listUndos":
        purged = api(undo_ms=DAY_MS)
        for _ in range(2):
            ask(purged, "purgeTopic")
        yield from (ask(purged, id, query) for query in ("", "?limit=1", "?before=x"))


def with_an_idempotency_key(id: str) -> Iterator[httpx.Response]:
    if "Idempotency-Key" in headers_of(id):
        body = {"value": 1, "schedule": {"delay": "30s"}}
        for reason in ("idempotency", "idempotency-reused"):
            again = api()
            again.owners.decide = lambda reason=reason: Resolution(Outcome.DUPLICATE, reason, str(ID))
            yield ask(again, id, body=body, Idempotency_Key="k")
        yield from _at_once(id, body)


def _at_once(id: str, body: Any) -> Sequence[httpx.Response]:
    slow = api(append_timeout_s=0.05)
    slow.queue.silent = True
    method, path, _ = ENDPOINTS[id]

    async def work(http: httpx.AsyncClient) -> list[httpx.Response]:
        sends = [http.request(method, filled(path), json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
        return await asyncio.gather(*sends)

    return slow.run(work)


def in_every_mode(id: str) -> Iterator[httpx.Response]:
    endpoint = ENDPOINTS[id][2]
    for parameter in endpoint.get("parameters", ()):
        for value in parameter["schema"].get("enum", ()) if parameter["in"] == "query" else ():
            if value != "sse":
                for body in examples(endpoint):
                    yield ask(api(operation_timeout_s=0.0), id, f"?{parameter['name']}={value}", body=body)


SITUATIONS: Sequence[Callable[[str], Iterator[httpx.Response]]] = [
    as_in_the_examples,
    with_an_unknown_parameter,
    with_a_body_that_is_no_json,
    with_a_body_too_large,
    with_a_body_that_does_not_come,
    as_a_form_could_send_it,
    where_nothing_is_there,
    where_the_message_has_ended,
    where_several_have_the_own_id,
    on_another_version,
    where_nobody_waits,
    where_owners_are_silent,
    where_the_queue_is_away,
    where_appends_fail,
    where_too_much_is_in_flight,
    where_it_is_not_ready,
    where_it_is_not_for_clients,
    without_a_key,
    without_the_right,
    by_a_session,
    over_a_quota,
    where_there_is_no_room,
    where_it_is_there_already,
    where_the_shard_is_healthy,
    where_the_topic_is_busy,
    where_something_was_purged,
    with_an_idempotency_key,
    in_every_mode,
]


def headers_of(id: str) -> set[str]:
    return {one["name"] for one in ENDPOINTS[id][2].get("parameters", ()) if one["in"] == "header"}
