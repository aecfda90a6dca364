"""What the brokers have of a topic and its buffer."""

from collections.abc import Sequence

from mq.rocketmq.naming import Place
from rocketmq.client.client import Client
from tests.fault.rocketmq.judge import Delivered, delivered, messages, rows_of
from tests.fault.rocketmq_proxy.judge import Buffered, Direct, Found

OPERATION, SEALED, OURS, SENT = "delay-op", "delayline-id", "delayline-", "delayline-sent"
"""Properties: of a cancel; of what Delayline has delivered; of what workers write into buffers; but not the one of a
message that was sent in another way than usual."""


def found(client: Client, brokers: Sequence[str], topic: str, namespace: str) -> Found:
    """Raises RocketmqError."""
    there = targets(client, brokers, topic)
    there.buffered = buffered(client, brokers, topic, namespace)
    there.rows = list(rows_of(client, brokers, topic, namespace))
    return there


def targets(client: Client, brokers: Sequence[str], topic: str) -> Found:
    """What has come to the topic. Raises RocketmqError."""
    direct: list[Direct] = []
    due: list[Delivered] = []
    for message in messages(client, brokers, topic):
        if SEALED in message.properties_map():
            due.append(delivered(message))
        else:
            direct.append(Direct(message.body.decode(), message.stored_ms))
    return Found([], direct, due)


def buffered(client: Client, brokers: Sequence[str], topic: str, namespace: str) -> list[Buffered]:
    """Those of clients. Raises RocketmqError."""
    return [
        Buffered(message.body.decode(), Place(broker, message.queue_id).name, message.queue_offset, message.stored_ms)
        for broker in brokers
        for message in messages(client, [broker], f"{namespace}%buffer%{topic}")
        if not any(map(_is_ours, message.properties_map()))
    ]


def _is_ours(name: str) -> bool:
    return name == OPERATION or (name.startswith(OURS) and name != SENT)
