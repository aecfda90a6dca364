"""A limit on what waits, kept by processes that deliver nothing themselves."""

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.asking import HTTP, send, wait_for
from tests.acceptance.conftest import MakeServer
from tests.acceptance.on_kafka import settings_of
from tests.fault.server import Server

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

LIMIT = 6


@pytest.fixture
def limited(kafka: "KafkaAt", make_server: MakeServer) -> dict[str, Server]:
    """An API and two workers, each a process, ready."""
    rule = f'[{{"topics": "orders-*", "pending_max": {LIMIT}}}]'
    settings = settings_of(kafka) | {"delay__rule": rule}
    servers = {
        name: make_server(name, command=name.rstrip("12"), **settings) for name in ("api", "worker1", "worker2")
    }
    for server in servers.values():
        server.start()
    for server in servers.values():
        server.wait_ready()
    return servers


def status(server: Server, topic: str, **schedule: str) -> int:
    body = {"value": "x", "schedule": schedule} if schedule else {"value": "x"}
    return HTTP.post(f"{server.url}/v1/topics/{topic}/messages", json=body, timeout=20).status_code


@pytest.mark.thorough
def test_an_api_without_a_worker_counts_what_waits_with_all_workers(limited: dict[str, Server], topic: str) -> None:
    api = limited["api"]
    sent = send(api.url, topic, ["x"] * LIMIT, delay="1h")
    assert wait_for(lambda: status(api, topic, delay="20ms"), lambda found: found == 429) == 429
    assert status(api, topic) == 201
    HTTP.delete(f"{api.url}/v1/messages/{sent[0]['message_id']}", timeout=20).raise_for_status()
    assert wait_for(lambda: status(api, topic, delay="20ms"), lambda found: found == 201) == 201
