"""Topics that are made and deleted by hand, on the queues that let one."""

from concurrent.futures import Future
from dataclasses import replace

import pytest

from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, Lost
from mq.errors import Fenced, TopicBusy, TopicExists, TopicUnknown
from mq.local.queue import LocalQueue
from tests.contract.drive import append, bodies, buffer, start_worker

SHARD = Shard("orders", "0")


@pytest.fixture
def local(queue: LocalQueue) -> LocalQueue:
    if not isinstance(queue, LocalQueue):
        pytest.skip("topics of users are made and deleted with the brokers' own tools")
    return queue


def test_a_topic_is_made_with_the_partitions_that_were_asked_for(local: LocalQueue) -> None:
    assert local.create_topic("orders", 7).partitions == tuple("0123456")
    assert local.topics() == ["orders"]


def test_a_topic_that_exists_is_not_made_again(local: LocalQueue) -> None:
    local.ensure_topic("orders")
    with pytest.raises(TopicExists, match="'orders' already"):
        local.create_topic("orders", 3)


def test_a_name_of_our_own_is_neither_made_nor_deleted(local: LocalQueue) -> None:
    with pytest.raises(TopicUnknown):
        local.create_topic("delayline.mine", 1)
    with pytest.raises(TopicUnknown):
        local.delete_topic("delayline.audit")


def test_a_deleted_topic_is_gone_with_its_buffer(local: LocalQueue) -> None:
    local.ensure_topic("orders")
    local.ensure_buffer("orders", DEFAULT_RULES)
    append(local, "orders", "0", b"a")
    local.delete_topic("orders")
    assert local.topics() == []
    for name in ("orders", "delayline.buffer.orders"):
        with pytest.raises(TopicUnknown):
            local.topic(name)
        with pytest.raises(TopicUnknown):
            append(local, name, "0", b"b")


def test_a_topic_that_is_not_there_cannot_be_deleted(local: LocalQueue) -> None:
    with pytest.raises(TopicUnknown):
        local.delete_topic("orders")


def test_a_topic_made_again_is_another_one_and_empty(local: LocalQueue) -> None:
    before = local.ensure_topic("orders")
    append(local, "orders", "0", b"a")
    local.delete_topic("orders")
    after = local.ensure_topic("orders")
    assert before.topic_id != after.topic_id
    assert (local.offsets("orders", "0"), bodies(local, "orders")) == ((0, 0), [])


def test_a_topic_for_which_messages_wait_is_not_deleted(local: LocalQueue) -> None:
    worker = start_worker(local)
    append(local, buffer(local), "0", b"a", b"b")
    with pytest.raises(TopicBusy, match="2 records"):
        local.delete_topic("orders")
    worker.cursors[SHARD] = replace(worker.cursors[SHARD], next_offset=2, low_offset=1)
    worker.commit(SHARD)
    with pytest.raises(TopicBusy, match="1 records"):
        local.delete_topic("orders")
    worker.cursors[SHARD] = replace(worker.cursors[SHARD], low_offset=2)
    worker.commit(SHARD)
    local.delete_topic("orders")


def test_an_append_under_way_is_either_deleted_with_notice_or_keeps_the_topic(local: LocalQueue) -> None:
    """Appends and the deletion are placed one after the other: what was acknowledged is never deleted."""
    local.ensure_topic("orders")
    local.ensure_buffer("orders", DEFAULT_RULES)
    appended: list[Future[object]] = [local.append([Append(buffer(local), "0", b"a")]) for _ in range(50)]
    with pytest.raises(TopicBusy):
        local.delete_topic("orders")
    assert all(future.exception(10) is None for future in appended)


def test_the_worker_loses_the_shards_of_a_deleted_topic(local: LocalQueue) -> None:
    worker = start_worker(local)
    local.delete_topic("orders")
    lost = [event for event in worker.source.poll(10, 0) if isinstance(event, Lost)]
    assert {shard.topic for event in lost for shard in event.shards} == {"orders"}
    with pytest.raises(Fenced):
        worker.commit(SHARD)
    assert local.owners() == {}


def test_somebody_who_waits_hears_that_the_topic_is_deleted(local: LocalQueue) -> None:
    local.ensure_topic("orders")
    local.delete_topic("orders")
    with pytest.raises(TopicUnknown):
        local.wait("orders", {"0": 0}, 0)
