"""Java's consumers of both protocols, and its Admin, through the proxy."""

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from delayline.records.message import Shard
from tests.integration.proxy.conftest import Proxy
from tests.integration.proxy.java import compiled, java
from tests.tiers import sample

SOURCE = Path(__file__).with_name("Clients.java")


def clients(*arguments: str) -> list[str]:
    """The lines that the program prints, without the library's log."""
    lines = java(SOURCE.stem, arguments, classes=compiled(SOURCE)).splitlines()
    return [line for line in lines if not line[:4].isdigit()]


def filled(proxy: Proxy) -> None:
    """Twelve records at once and four that wait."""
    proxy.make_topic(2)
    producer = Producer({"bootstrap.servers": proxy.address, "enable.idempotence": True})
    for n in range(16):
        producer.produce(proxy.place.topic, value=b"%d" % n, headers=[("delay", b"1h")] if n % 4 == 3 else [])
    assert producer.flush(20) == 0


def values(lines: list[str], topic: str) -> list[int]:
    """Of the records; there must be none of another topic."""
    records = [line.split() for line in lines if line.startswith("record ")]
    assert {name for _, name, _ in records} == {topic}
    return sorted(int(value) for _, _, value in records)


def committed(proxy: Proxy, partitions: int) -> int:
    """Records that the group has done with."""
    settings = {"bootstrap.servers": proxy.place.kafka.bootstrap_servers, "group.id": proxy.place.namespace}
    with closing(Consumer(settings)) as consumer:
        at = [TopicPartition(proxy.place.topic, number) for number in range(partitions)]
        return sum(max(0, one.offset) for one in consumer.committed(at, 10))


AT_ONCE = [n for n in range(16) if n % 4 != 3]


@pytest.mark.thorough
@pytest.mark.parametrize("protocol", sample(["classic", "consumer"], every=2))
def test_javas_consumers_of_either_protocol_read_what_was_not_delayed(opened: Proxy, protocol: str) -> None:
    filled(opened)
    found = clients("consume", opened.address, protocol, opened.place.namespace, opened.place.topic, "12")
    assert values(found, opened.place.topic) == AT_ONCE
    assert committed(opened, 2) == 12


@pytest.mark.parametrize(
    ("protocol", "sign"), sample([("consumer", "^"), ("consumer", "~"), ("classic", "~")], every=3)
)
def test_consumers_of_all_topics_get_no_buffer_of_ours(opened: Proxy, protocol: str, sign: str) -> None:
    """The pattern fits the buffer too. It is the client that looks at names (~), or the broker (^)."""
    filled(opened)
    pattern = f"{sign}.*{opened.place.topic}"
    found = clients("consume", opened.address, protocol, opened.place.namespace, pattern, "12")
    assert values(found, opened.place.topic) == AT_ONCE
    assert found[-1] == f"owned {opened.place.topic}"


@pytest.mark.thorough
def test_javas_admin_does_everything_to_users_topics_and_nothing_to_ours(opened: Proxy) -> None:
    opened.make_topic(1)
    opened.make_buffer()
    found = clients("admin", opened.address, f"new-{opened.place.namespace}", opened.place.buffer)
    assert found == [
        f"node 1 127.0.0.1:{opened.port + 1}",
        "partitions 4",
        "cleanup.policy delete",
        "end 0",
        "listed true",
        "listed hidden false",
        "describe UnknownTopicOrPartitionException",
        "delete records TimeoutException",
        "delete TopicAuthorizationException",
        "widen TopicAuthorizationException",
        "done",
    ]
    assert opened.place.queue().log_range(Shard(opened.place.topic, "0")) == (0, 0)
