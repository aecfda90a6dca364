"""Principal, act, topic: every endpoint is allowed by one act, on one topic, and by nothing else."""

from typing import Any

import pytest

from delayline.access.acts import Act
from tests.unit.api.access.held import HeldAccess, allowing, log_in
from tests.unit.api.in_memory import problem
from tests.unit.api.situations import ENDPOINTS, api, ask, examples

NEEDS = {
    "cancelMessage": "cancel",
    "cancelMessages": "cancel",
    "cancelOwn": "cancel",
    "countDue": "read",
    "createTopic": "topics",
    "deleteTopic": "topics",
    "deliverMessage": "reschedule",
    "getMessage": "read",
    "getMetrics": "metrics",
    "getOwn": "read",
    "getQuotas": "admin",
    "getStall": "control",
    "getTopic": "read",
    "listActs": "admin",
    "listDeadLetters": "payload",
    "listMessages": "read",
    "listUndos": "control",
    "pauseTopic": "control",
    "purgeTopic": "control",
    "readRecords": "payload",
    "redriveDeadLetters": "control",
    "rescheduleMessage": "reschedule",
    "rescheduleOwn": "reschedule",
    "resumeTopic": "control",
    "sendMessages": "send",
    "skipStall": "control",
    "undo": "control",
}
"""As docs/security.md has it, and not as the routes have."""

OF_EVERY_TOPIC = {"getMetrics", "getQuotas", "listActs"}
OF_ALL = {"getHealth", "getLogins", "getReadiness"}
OF_PRINCIPALS = {"beginSession", "getInfo", "getSession", "listTopics", "previewSchedule"}
OF_SESSIONS = {"endSession"}


def asked(id: str, access: HeldAccess, principal: str | None, topic: str = "orders") -> Any:
    """The first example, about another topic where one is given."""
    headers = {} if principal is None else {"authorization": access.header(principal)}
    body = examples(ENDPOINTS[id][2])[0]
    if isinstance(body, dict) and id == "createTopic":
        body = {**body, "name": topic}
    if isinstance(body, dict) and id == "cancelMessages":
        body = {**body, "filter": {**body["filter"], "topic": topic}}
    path = {"topic": topic, "message_id": f"{topic}.3.1041.1767225630000"}
    query = f"?topic={topic}" if id == "listMessages" else ""
    return ask(api(access=access, operation_timeout_s=0.0), id, query, body, path, **headers)


def test_every_endpoint_stands_in_the_table() -> None:
    assert NEEDS.keys() | OF_ALL | OF_PRINCIPALS | OF_SESSIONS == ENDPOINTS.keys()


@pytest.mark.parametrize("id", sorted(NEEDS))
def test_an_endpoint_is_allowed_by_its_act_alone(id: str) -> None:
    topics = "*" if id in OF_EVERY_TOPIC else "orders"
    access = HeldAccess("".join(allowing(act, act, topics=topics) for act in Act), *Act)
    allowed = {str(act) for act in Act if asked(id, access, act).status_code != 403}
    assert allowed == {NEEDS[id]}


@pytest.mark.parametrize("id", sorted(NEEDS.keys() - OF_EVERY_TOPIC))
def test_a_right_to_another_topic_is_none(id: str) -> None:
    access = HeldAccess(allowing("ann", *Act, topics="orders-2"), "ann")
    assert problem(asked(id, access, "ann")) == (403, "not-allowed")
    assert asked(id, access, "ann", "orders-2").status_code != 403


@pytest.mark.parametrize("id", sorted(NEEDS.keys() | OF_PRINCIPALS | OF_SESSIONS))
def test_without_a_key_there_is_no_answer(id: str) -> None:
    access = HeldAccess(allowing("*", *Act, topics="*"), "ann")
    answer = asked(id, access, None)
    assert problem(answer) == (401, "unauthenticated")
    assert answer.headers["www-authenticate"] == 'Bearer realm="delayline"'
    assert asked(id, access, "ann").status_code not in (401, 403)


@pytest.mark.parametrize("id", sorted(OF_ALL))
def test_health_and_how_to_log_in_need_no_key(id: str) -> None:
    assert asked(id, HeldAccess(""), None).status_code == 200


@pytest.mark.parametrize("id", sorted(OF_PRINCIPALS))
def test_what_is_about_no_topic_needs_a_key_and_no_right(id: str) -> None:
    assert asked(id, HeldAccess("", "ann"), "ann").status_code == (201 if id == "beginSession" else 200)


@pytest.mark.parametrize("id", sorted(NEEDS.keys() | OF_PRINCIPALS - {"beginSession"} | OF_SESSIONS))
def test_a_session_does_what_its_key_does_and_changes_nothing_without_its_token(id: str) -> None:
    access = HeldAccess(allowing("ann", *Act, topics="*"), "ann")
    installation = api(access=access, operation_timeout_s=0.0)
    session = log_in(installation, access, "ann")
    without = ask(installation, id, cookie=session.cookie)
    if ENDPOINTS[id][0] == "GET":
        assert without.status_code not in (401, 403)
    else:
        assert problem(without) == (403, "forbidden")
    assert ask(installation, id, **session.headers).status_code not in (401, 403)


@pytest.mark.parametrize("id", sorted(OF_EVERY_TOPIC))
def test_what_is_about_every_topic_needs_a_right_to_all_of_them(id: str) -> None:
    access = HeldAccess(allowing("ann", NEEDS[id], topics="orders"), "ann")
    assert problem(asked(id, access, "ann")) == (403, "not-allowed")


def test_a_refusal_is_the_same_where_there_is_no_such_topic() -> None:
    access = HeldAccess("", "ann")
    details = {
        asked("getTopic", access, "ann", topic).json()["detail"].replace(topic, "T") for topic in ("orders", "x")
    }
    assert len(details) == 1
