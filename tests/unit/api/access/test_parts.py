"""What an endpoint shows or does only in part, by the rights of its caller."""

import pytest

from delayline.questions.inquiry import ShardFigures
from delayline.records.message import Shard
from tests.unit.api.access.held import HeldAccess, allowing
from tests.unit.api.in_memory import MESSAGES, Api, problem
from tests.unit.api.situations import ID, api

ANN = "ann"


def with_rights(*acts: str, topics: str = "orders") -> tuple[Api, dict[str, str]]:
    """An installation, and the headers of ann's requests."""
    access = HeldAccess(allowing(ANN, *acts, topics=topics), ANN)
    return api(access=access), {"authorization": access.header(ANN)}


def test_topics_are_listed_that_the_caller_may_read() -> None:
    installation, ann = with_rights("read")
    installation.queue.ensure_topic("secrets")
    names = [row["name"] for row in installation.get("/v1/topics", headers=ann).json()["topics"]]
    assert names == ["orders"]


def test_messages_are_listed_of_topics_that_the_caller_may_read() -> None:
    installation, ann = with_rights("read")
    installation.queue.ensure_topic("secrets")
    installation.owners.shards.append(ShardFigures(Shard("secrets", "0"), ready=True, owner_epoch=1))
    assert installation.get("/v1/messages", headers=ann).status_code == 200
    ((shards, _),) = installation.owners.asked
    assert {shard.topic for shard in shards} == {"orders"}


@pytest.mark.parametrize("path", [f"/v1/messages/{ID}", "/v1/topics/orders/own/order-7"])
def test_what_a_message_holds_needs_a_right_of_its_own(path: str) -> None:
    installation, ann = with_rights("read")
    assert installation.get(path, headers=ann).status_code == 200
    assert problem(installation.get(f"{path}?view=full", headers=ann)) == (403, "not-allowed")
    installation, ann = with_rights("read", "payload")
    assert installation.get(f"{path}?view=full", headers=ann).status_code == 200


REPLACING = {"value": "v", "schedule": {"delay": "1h", "own_id": "order-7", "on_conflict": "replace"}}
RETRYING = {"value": "v", "schedule": {"retry": "billing"}}


def test_a_send_that_replaces_a_message_needs_the_right_to_cancel() -> None:
    installation, ann = with_rights("send")
    assert problem(installation.send(REPLACING, headers=ann)) == (403, "not-allowed")
    installation, ann = with_rights("send", "cancel")
    assert installation.send(REPLACING, MESSAGES + "?mode=async", headers=ann).status_code == 202


def test_a_retry_needs_the_right_to_send_to_the_groups_topic() -> None:
    installation, ann = with_rights("send")
    assert problem(installation.send(RETRYING, headers=ann)) == (403, "not-allowed")
    installation, ann = with_rights("send", topics="*")
    assert installation.send(RETRYING, headers=ann).status_code == 201


def test_a_member_of_a_batch_is_refused_by_itself() -> None:
    installation, ann = with_rights("send")
    batch = {"atomic": False, "messages": [{"value": "v", "schedule": {"delay": "1h"}}, REPLACING]}
    answer = installation.send(batch, headers=ann).json()
    assert [result["status"] for result in answer["results"]] == [201, 403]
    assert len(installation.all_records("delayline.buffer.orders")) == 1
