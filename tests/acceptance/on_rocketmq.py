"""Servers and messages on the session's RocketMQ."""

from pathlib import Path
from typing import Any
from uuid import uuid4

from rocketmq.client.client import Client
from tests.acceptance.asking import HTTP
from tests.brokers.rocketmq import BROKER, RocketMqAt
from tests.fault.server import Server


def server_on(rocketmq: RocketMqAt, data_dir: Path, **settings: str) -> Server:
    """With a namespace of its own and `settings`, ready."""
    server = server_for(rocketmq, data_dir, **settings)
    server.start()
    server.wait_ready()
    return server


def server_for(rocketmq: RocketMqAt, data_dir: Path, **settings: str) -> Server:
    """The same, not started."""
    usual = {
        "mq__kind": "rocketmq",
        "mq__bootstrap_servers": rocketmq.settings.name_servers[0],
        "namespace": f"ns{uuid4().hex[:8]}",
        "delay__topics": "orders-*",
        "delay__discovery_interval": "200ms",
    }
    return Server(data_dir, **usual | settings)


def send(server: Server, topic: str, **message: Any) -> dict[str, Any]:
    """Acknowledged, as the server describes it."""
    answer = HTTP.post(f"{server.url}/v1/topics/{topic}/messages", json=message, timeout=20)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def headers_of(properties: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in properties.items()]


def new_topic(client: Client, queues: int) -> str:
    name = f"orders-{uuid4().hex[:8]}"
    client.admin.create_topic(name, BROKER, queues)
    return name


def new_group(client: Client) -> str:
    """With its topic for retries: a consumer that does not find that looks for it half a minute later."""
    name = f"group-{uuid4().hex[:8]}"
    client.admin.create_group(name, BROKER)
    client.admin.create_topic(f"%RETRY%{name}", BROKER, 1)
    return name
