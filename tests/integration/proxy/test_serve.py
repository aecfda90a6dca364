"""The whole way: a Kafka client's delayed record, delivered when it is due, to a Kafka client."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from mq.kafka.librdkafka.bodies import Headers
from tests.integration.kafka.conftest import CLOCK, soon
from tests.integration.proxy.child import Child
from tests.integration.proxy.conftest import Proxy, consumed
from tests.integration.proxy.test_java_clients import clients, values

DELAY_MS = 1500


def serving(folder: Path) -> dict[str, str]:
    """Settings of `delayline serve`."""
    return {
        "DELAYLINE_API__PORT": "0",
        "DELAYLINE_DATA_DIR": str(folder / "data"),
        "DELAYLINE_DELAY__DISCOVERY_INTERVAL": "200ms",
    }


def test_a_delayed_record_of_a_kafka_client_is_delivered_when_it_is_due(proxy: Proxy, tmp_path: Path) -> None:
    proxy.make_topic(2)
    environ = serving(tmp_path)
    with closing(Child(proxy, tmp_path, ("serve",), environ)) as child:
        child.start()
        producer = Producer({"bootstrap.servers": proxy.address})
        sent_ms = CLOCK.now_ms()
        for n in range(20):
            headers: Headers = [("delay-ms", b"%d" % DELAY_MS), ("trace", b"abc")] if n % 2 else []
            producer.produce(proxy.place.topic, value=b"%d" % n, key=b"k", headers=headers)
        assert producer.flush(20) == 0
        found = consumed(proxy.address, proxy.place.topic, 20, 30)
        assert [int(one.value()) for one in found] == [*range(0, 20, 2), *range(1, 20, 2)]
        for one in found[10:]:
            _check_delivered(one, sent_ms)
        accepted = f'delayline_messages_accepted_total{{topic="{proxy.place.topic}",via="kafka"}} 10.0'
        assert soon(lambda: accepted in httpx.get(f"{child.url}/metrics").text)
        assert child.stop() == 0


@pytest.mark.thorough
def test_what_was_delivered_is_read_whatever_compressed_it(proxy: Proxy, tmp_path: Path) -> None:
    proxy.make_topic(2)
    environ = serving(tmp_path)
    with closing(Child(proxy, tmp_path, ("serve",), environ)) as child:
        child.start()
        for turn, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            producer = Producer({"bootstrap.servers": proxy.address, "compression.type": codec})
            for n in range(8 * turn, 8 * turn + 8):
                headers: Headers = [("delay-ms", b"500")] if n % 2 else []
                producer.produce(proxy.place.topic, value=b"%d" % n, headers=headers)
            assert producer.flush(20) == 0
        everything = list(range(40))
        assert sorted(int(one.value()) for one in consumed(proxy.address, proxy.place.topic, 40, 30)) == everything
        for protocol in ("classic", "consumer"):
            lines = clients("consume", proxy.address, protocol, f"java-{protocol}", proxy.place.topic, "40")
            assert values(lines, proxy.place.topic) == everything
        assert asyncio.run(_by_aiokafka(proxy)) == everything
        assert child.stop() == 0


async def _by_aiokafka(proxy: Proxy) -> list[int]:
    from aiokafka import AIOKafkaConsumer

    settings = {"bootstrap_servers": proxy.address, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(proxy.place.topic, group_id=proxy.place.namespace, **settings) as consumer:
        return sorted([int((await asyncio.wait_for(consumer.getone(), 20)).value) for _ in range(40)])


def _check_delivered(message: Any, sent_ms: int) -> None:
    headers = dict(message.headers())
    assert headers["trace"] == b"abc"
    assert "delay-ms" not in headers
    assert message.timestamp()[1] >= int(headers["delayline-due"]) >= sent_ms + DELAY_MS
    assert headers["delayline-id"].endswith(headers["delayline-due"])
