"""Who is listed as a member, and who is one, on a real broker."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from mq.rocketmq.session import Session
from mq.rocketmq.settings import RocketmqSettings
from rocketmq.client.client import Client
from rocketmq.client.connection import parse_address
from rocketmq.wire.bodies import Queue
from tests.fault.rocketmq.ghosts import ghosts, heartbeat
from tests.integration.rocketmq.conftest import made
from tests.integration.rocketmq.waiting import soon

SETTINGS = RocketmqSettings(name_servers="a:1", namespace=f"ns{uuid4().hex[:8]}")
MUTE = "mute~1@127.0.0.1:1"


@pytest.fixture
def sessions(client: Client, queue: Queue) -> Iterator[list[Session]]:
    made(client, SETTINGS.wire_names.marks, 1)
    found = [Session(SETTINGS, client, queue.broker, writer, lambda: None) for writer in ("a", "b")]
    yield found
    for session in found:
        session.leave()


def test_who_was_killed_at_its_heartbeat_is_no_member_and_who_does_not_answer_is(
    client: Client, queue: Queue, sessions: list[Session]
) -> None:
    first, second = sessions
    address = parse_address(client.names.master(queue.topic, queue.broker))
    with ExitStack() as stack:
        channel = stack.enter_context(socket.create_connection(address))
        channel.sendall(heartbeat(MUTE, SETTINGS.group))
        soon(lambda: MUTE in first.members())
        left = soon(lambda: ghosts(client, queue.broker, SETTINGS.group, queue.topic))
        soon(lambda: first.members() == second.members() == {first.id, second.id, MUTE})
        assert left & set(client.group.consumers(SETTINGS.group, queue)), "the broker has cleared up by itself"
    soon(lambda: first.members() == {first.id, second.id})
