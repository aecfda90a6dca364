"""Sessions that are listed though their connection has ended: a broker that carries a heartbeat out behind the end of
its connection lists the client until `channelExpiredTimeout`."""

import socket
from threading import Event
from uuid import uuid4

from rocketmq.client.client import Client
from rocketmq.client.connection import parse_address
from rocketmq.wire.bodies import Consumer, Queue, encode_heartbeat
from rocketmq.wire.codes import Request
from rocketmq.wire.command import Command, encode_frame

ROUNDS_MAX, TRIES = 20, 50
"""Of some rounds every fifth try leaves one, of others none."""
WANTED = 5
HANDLED_S = 0.5
"""For the broker to notice the ends of the others."""


def ghosts(client: Client, broker: str, group: str, topic: str) -> set[str]:
    """What a broker lists of clients that were gone at once. `topic` is one that it has."""
    gone: set[str] = set()
    left: set[str] = set()
    address = parse_address(client.names.master(topic, broker))
    for _ in range(ROUNDS_MAX):
        for _ in range(TRIES):
            gone.add(_end_at_heartbeat(address, group))
        Event().wait(HANDLED_S)
        left = gone & set(client.group.consumers(group, Queue(topic, broker, 0)))
        if len(left) >= WANTED:
            break
    return left


def _end_at_heartbeat(address: tuple[str, int], group: str) -> str:
    """The id of a client that has sent its heartbeat, and nothing else."""
    client_id = f"ghost-{uuid4().hex}~1@127.0.0.1:1"
    with socket.create_connection(address) as channel:
        channel.sendall(heartbeat(client_id, group))
    return client_id


def heartbeat(client_id: str, group: str) -> bytes:
    """Of a consumer of the group, as bytes."""
    body = encode_heartbeat(client_id, consumers=[Consumer(group, {})])
    return b"".join(encode_frame(Command(Request.HEART_BEAT, body=body)))
