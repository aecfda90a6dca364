"""TLS to name servers and brokers, and the errors where one side has it and the other has not."""

import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append
from mq.errors import QueueUnavailable
from mq.rocketmq import RocketmqQueue, RocketmqSettings
from rocketmq.client.client import Client
from tests.brokers.certificates import make_certificate
from tests.brokers.distribution import Unavailable
from tests.brokers.kafka import QUICK_START
from tests.brokers.rocketmq import BROKER, RocketMq, RocketMqAt, started
from tests.integration.rocketmq.waiting import CLOCK, soon

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the server, and another one."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("server", "other"):
        make_certificate(folder, name, name)
    return folder


@pytest.fixture(scope="module")
def encrypted(certificates: Path) -> Iterator[RocketMq]:
    options = {
        "tls.server.mode": "enforcing",
        "tls.test.mode.enable": "false",
        "tls.server.certPath": certificates / "server.crt",
        "tls.server.keyPath": certificates / "server.key",
        "tls.enable": "true",
    }
    tls = ssl.create_default_context(cafile=str(certificates / "server.crt"))
    defined = [f"-D{name}={value}" for name, value in options.items()]
    try:
        with started(java_options=[*QUICK_START, *defined], tls=tls) as server:
            yield server
    except Unavailable as error:
        pytest.skip(f"no RocketMQ: {error}")


def queue_on(server: RocketMqAt, **properties: str) -> RocketmqQueue:
    settings = RocketmqSettings(
        name_servers=server.settings.name_servers[0],
        namespace=f"ns{uuid4().hex[:8]}",
        properties={name.replace("__", "."): value for name, value in properties.items()},
        discovery_interval_s=0.2,
    )
    return RocketmqQueue(settings, CLOCK)


def trusting(folder: Path, name: str) -> dict[str, str]:
    return {"security__protocol": "ssl", "ssl__ca__location": str(folder / f"{name}.crt")}


def error_of(queue: RocketmqQueue) -> str:
    with closing(queue), pytest.raises(QueueUnavailable) as found:
        queue.topics()
    return str(found.value)


def test_over_tls_a_worker_takes_a_shard_and_records_pass(encrypted: RocketMqAt, certificates: Path) -> None:
    topic = f"orders-{uuid4().hex[:8]}"
    with Client(encrypted.settings) as client:
        client.admin.create_topic(topic, BROKER, 1)
    with closing(queue_on(encrypted, **trusting(certificates, "server"))) as queue:
        buffer = queue.ensure_buffer(topic, DEFAULT_RULES)
        source, sink = queue.open_worker("first")
        with closing(source), closing(sink):
            assigned: list[Any] = soon(lambda: source.poll(1, 0.1))
            assert [shard.topic for one in assigned for shard in one.shards] == [topic]
            assert queue.takeover(assigned[0].shards[0]).cursor is None
            body = encode_body(None, bytes(200_000))
            (position,) = queue.append([Append(buffer.name, f"{BROKER}:0", body)]).result(30)
            assert position.offset == 0


def test_a_certificate_of_an_unknown_authority_is_not_trusted(encrypted: RocketMqAt, certificates: Path) -> None:
    assert "its certificate is not trusted" in error_of(queue_on(encrypted, **trusting(certificates, "other")))


def test_without_tls_a_server_that_enforces_it_is_named_with_the_likely_reason(encrypted: RocketMqAt) -> None:
    assert "does it want TLS" in error_of(queue_on(encrypted))


def test_a_server_that_takes_no_tls_is_named(rocketmq: RocketMqAt, certificates: Path) -> None:
    found = error_of(queue_on(rocketmq, **trusting(certificates, "server")))
    assert "not trusted" in found or "no TLS with it" in found  # a server's default is permissive, by itself signed
