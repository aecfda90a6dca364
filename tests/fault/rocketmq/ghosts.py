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

TRIES = 100
"""Of which about every fifth leaves one."""
HANDLED_S = 1.0
"""For the broker to notice the ends of the others."""


def ghosts(client: Client, broker: str, group: str, topic: str) -> set[str]:
    """What a broker lists of clients that were gone at once. `topic` is one that it has."""
    left = {f"ghost-{uuid4().hex}~1@127.0.0.1:1" for _ in range(TRIES)}
    address = parse_address(client.names.master(topic, broker))
    for client_id in left:
        body = encode_heartbeat(client_id, consumers=[Consumer(group, {})])
        with socket.create_connection(address) as channel:
            channel.sendall(b"".join(encode_frame(Command(Request.HEART_BEAT, body=body))))
    Event().wait(HANDLED_S)
    return left & set(client.group.consumers(group, Queue(topic, broker, 0)))
