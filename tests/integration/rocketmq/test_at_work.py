"""The client on a real name server and broker."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from rocketmq.client.broker import PullStatus
from rocketmq.client.client import Client
from rocketmq.errors import AnswerLost, GroupMissing, Refused, TopicMissing, Unreachable
from rocketmq.wire.batch import member
from rocketmq.wire.bodies import Consumer, Queue
from rocketmq.wire.codes import Answer, Request
from rocketmq.wire.command import Command, Encoding
from rocketmq.wire.compression import Compression, compress, flags_of
from rocketmq.wire.ids import decode_message_id, decode_recall_handle
from rocketmq.wire.stored import StoredMessage
from tests.brokers.rocketmq import BROKER, RocketMq, RocketMqAt
from tests.conftest import started
from tests.integration.rocketmq.conftest import made
from tests.integration.rocketmq.waiting import CLOCK, soon

GROUP = "shoppers"


def pulled(client: Client, queue: Queue, count: int) -> list[StoredMessage]:
    """So many messages from the beginning: a broker shows a message a moment after it has acknowledged it."""
    found: list[StoredMessage] = []

    def take() -> bool:
        found[:] = client.broker.pull(queue, 0).messages
        return len(found) >= count

    soon(take)
    return found


@pytest.mark.parametrize("encoding", Encoding)
def test_what_is_sent_is_pulled_as_it_was(rocketmq: RocketMqAt, queue: Queue, encoding: Encoding) -> None:
    with Client(replace(rocketmq.settings, encoding=encoding)) as client:
        sent = client.broker.send_later(queue, b"body", {"KEYS": "ä b"}, flag=7, born_ms=5).result()
        (found,) = pulled(client, queue, 1)
        properties = found.properties_map()
        assert (found.body, found.flag, found.born_ms, properties["KEYS"]) == (b"body", 7, 5, "ä b")
        assert found.offset_message_id == sent.answer.msg_id
        port = decode_message_id(sent.answer.msg_id).port
        assert f"127.0.0.1:{port}" == client.admin.brokers()[BROKER]
        assert client.broker.view(queue, found.commit_log_offset).body == b"body"
        client.broker.send_one_way(queue, b"one way")
        assert pulled(client, queue, 2)[1].body == b"one way"


def test_a_batch_is_stored_whole_and_its_delays_are_passed_over(client: Client, queue: Queue) -> None:
    members = [member(b"%d" % n, {"n": str(n), "DELAY": "3"}) for n in range(500)]
    sent = client.broker.send_batch(queue, members)
    assert sent.answer.msg_id.count(",") == 499
    found = pulled(client, queue, 500)
    assert [one.body for one in found] == [b"%d" % n for n in range(500)]
    assert found[9].properties_map() == {"n": "9", "DELAY": "3"}


@pytest.mark.parametrize("compression", Compression)
def test_a_compressed_body_stays_as_it_is(client: Client, queue: Queue, compression: Compression) -> None:
    body = compress(compression, b"plain " * 100)
    client.broker.send(queue, body, sys_flag=flags_of(compression))
    (found,) = pulled(client, queue, 1)
    assert (found.body, found.plain_body()) == (body, b"plain " * 100)


def test_offsets_of_queues_and_groups(client: Client, queue: Queue) -> None:
    for n in range(3):
        client.broker.send(queue, b"%d" % n)
    last = pulled(client, queue, 3)[2]
    assert (client.broker.min_offset(queue), client.broker.max_offset(queue)) == (0, 3)
    assert client.broker.offset_at(queue, last.stored_ms + 1000) == 3
    assert client.broker.offset_at(queue, 1) == 0
    with pytest.raises(GroupMissing):
        client.broker.commit("CID_RMQ_SYS_test", queue, 2)
    client.admin.create_group(GROUP, BROKER)
    assert client.broker.committed(GROUP, queue) is None
    client.broker.commit(GROUP, queue, 2)
    assert client.broker.committed(GROUP, queue) == 2
    moved = client.broker.pull(queue, 100)
    assert (moved.status, moved.next_offset) == (PullStatus.OFFSET_MOVED, 3)
    assert client.broker.pull(queue, 3).status is PullStatus.NOTHING_YET


def test_a_pull_waits_for_a_message_and_holds_up_no_send(client: Client, queue: Queue) -> None:
    waiting = client.broker.pull_later(queue, 0, wait_s=30)
    client.broker.send(Queue(queue.topic, BROKER, 1), b"elsewhere")
    assert not waiting.done()
    client.broker.send(queue, b"here")
    assert [one.body for one in waiting.result().messages] == [b"here"]


def test_a_queue_is_locked_by_one_client_of_a_group_until_it_gives_it_back(client: Client, queue: Queue) -> None:
    assert client.group.lock(GROUP, "first", [queue]) == {queue}
    assert client.group.lock(GROUP, "second", [queue]) == set()
    client.group.unlock(GROUP, "first", [queue])
    assert client.group.lock(GROUP, "second", [queue]) == {queue}


@pytest.mark.thorough  # nothing that Delayline does; each run has its bytes
def test_a_timer_message_that_is_recalled_does_not_arrive(client: Client, queue: Queue) -> None:
    due_ms = CLOCK.now_ms() + 4000
    kept, recalled = (
        client.broker.send(queue, body, {"TIMER_DELIVER_MS": str(due_ms), "UNIQ_KEY": uuid4().hex.upper()})
        for body in (b"kept", b"recalled")
    )
    assert kept.answer.recall_handle is not None
    handle = decode_recall_handle(str(recalled.answer.recall_handle))
    assert (handle.topic, handle.broker) == (queue.topic, BROKER)
    assert client.broker.recall(str(recalled.answer.recall_handle)) == handle.unique_key
    assert [one.body for one in pulled(client, queue, 1)] == [b"kept"]
    with pytest.raises(Refused) as found:
        client.broker.recall(str(kept.answer.recall_handle))
    assert found.value.code == Answer.ILLEGAL_OPERATION


@pytest.mark.thorough  # nothing that Delayline does; each run has its bytes
def test_what_a_consumer_sends_back_is_delayed_and_comes_to_its_retry_topic(client: Client, queue: Queue) -> None:
    group = f"group-{uuid4().hex[:8]}"
    client.broker.send(queue, b"failed")
    (failed,) = pulled(client, queue, 1)
    with pytest.raises(GroupMissing):
        client.group.send_back(group, failed, queue, delay_level=1)
    client.admin.create_group(group, BROKER)
    client.group.heartbeat(queue, "client", ["producers"], [Consumer(group, {queue.topic: "*"})])
    assert client.group.consumers(group, queue) == ["client"]
    client.group.send_back(group, failed, queue, delay_level=1)
    (found,) = pulled(client, Queue(f"%RETRY%{group}", BROKER, 0), 1)
    assert (found.body, found.reconsume_times) == (b"failed", 1)
    client.group.leave(queue, "client", consumer_group=group)
    assert client.group.consumers(group, queue) == []
    client.admin.delete_group(group, BROKER)


def test_a_group_hears_of_its_members(rocketmq: RocketMqAt, client: Client, queue: Queue) -> None:
    group, pushes = f"group-{uuid4().hex[:8]}", []
    client.admin.create_group(group, BROKER)
    with Client(rocketmq.settings, on_push=lambda push: pushes.append(push)) as first:
        first.group.heartbeat(queue, "first", consumers=[Consumer(group, {queue.topic: "*"})])
        client.group.heartbeat(queue, "second", consumers=[Consumer(group, {queue.topic: "*"})])
        soon(lambda: any(push.code == Request.NOTIFY_CONSUMER_IDS_CHANGED for push in pushes))
        assert set(client.group.consumers(group, queue)) == {"first", "second"}


def test_a_topic_is_created_and_deleted(client: Client, queue: Queue) -> None:
    client.admin.create_topic(queue.topic, BROKER, 5, message_type="DELAY")
    assert len(client.names.route(queue.topic).writable_queues(queue.topic)) == 5
    client.admin.delete_topic(queue.topic, BROKER)
    with pytest.raises(Refused):  # 5.5.0 without creation of topics: a NullPointerException, code 1
        client.broker.send(queue, b"")
    with pytest.raises(TopicMissing):
        client.names.route(f"never-{queue.topic}")


def test_refusals_of_a_broker(client: Client, queue: Queue) -> None:
    with pytest.raises(Refused) as found:
        client.broker.send(Queue(queue.topic, BROKER, 99), b"")
    assert found.value.code == Answer.SYSTEM_ERROR
    connection = client._links.to(client.admin.brokers()[BROKER])
    assert connection.ask(Command(9999)).code == Answer.REQUEST_CODE_NOT_SUPPORTED


def test_thousands_of_requests_at_once_on_one_connection(client: Client, queue: Queue) -> None:
    futures: list[Future[Any]] = [client.broker.send_later(queue, b"%d" % n) for n in range(2000)]
    offsets = [one.result().answer.queue_offset for one in futures]
    assert sorted(offsets) == list(range(2000))


@pytest.fixture
def own() -> Iterator[RocketMq]:
    with started(RocketMq) as server:
        yield server


@pytest.mark.thorough  # two starts of both; each run has the client's answers to such failures in its units
def test_a_name_server_and_a_broker_that_go_and_come_back(own: RocketMq) -> None:
    with Client(replace(own.settings, route_s=0.0, backoff_max_s=0.5, request_timeout_s=5)) as client:
        queue = made(client, "orders", 1)
        client.broker.send(queue, b"before")
        own.name_server.kill()
        client.broker.send(queue, b"without a name server")
        assert client.names.stale_answers > 0
        waiting = client.broker.pull_later(queue, 2, wait_s=30)
        own.broker.kill()
        with pytest.raises(AnswerLost):
            waiting.result()
        with pytest.raises(Unreachable):
            client.broker.send(queue, b"to nobody")
        own.name_server.start()
        own.broker.start()
        own.wait_ready()
        soon(lambda: _sent(client, queue))
        bodies = [one.body for one in pulled(client, queue, 3)]
        assert bodies[-1] == b"after"


def _sent(client: Client, queue: Queue) -> bool:
    try:
        client.broker.send(queue, b"after")
    except (Unreachable, AnswerLost, Refused):
        return False
    return True


def test_a_brokers_settings_and_all_topics_are_listed(client: Client, queue: Queue) -> None:
    assert client.admin.configuration(BROKER)["diskMaxUsedSpaceRatio"] == "95"
    assert queue.topic in client.admin.topics()


def test_a_lock_is_one_clients_until_it_gives_it_back(client: Client) -> None:
    name = uuid4().hex
    assert client.admin.lock(BROKER, name, "a")
    assert not client.admin.lock(BROKER, name, "b")
    client.admin.unlock(BROKER, name, "a")
    assert client.admin.lock(BROKER, name, "b")


def test_a_pinned_connection_is_not_made_again(client: Client, queue: Queue) -> None:
    pinned = client.pinned(BROKER)
    pinned.broker.send(queue, b"a")
    pinned.close()
    assert not pinned.is_open
    with pytest.raises(Unreachable):
        pinned.broker.send(queue, b"b")
    assert [one.body for one in soon(lambda: client.broker.pull(queue, 0).messages)] == [b"a"]
