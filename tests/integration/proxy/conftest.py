"""A proxy in this process in front of the session's broker, each test with a namespace and a topic of its own."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from delayline.access.ledger import Ledgers
from delayline.access.rules import read_quotas
from delayline.names import Names
from delayline.schedule.rules import DEFAULT_RULES
from kafkawire.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducersTopic,
)
from tests.integration.kafka.conftest import CLOCK, Place, soon
from tests.integration.proxy.wire_client import WireClient
from tests.ports import free_range

if TYPE_CHECKING:
    from confluent_kafka import Consumer

    from cli.proxy_thread import ProxyThread
    from mq.kafka.queue import KafkaQueue
    from proxy.kafka.settings import ProxySettings
    from tests.brokers.kafka import KafkaAt

NODES_MAX = 3


def proxy_settings(place: Place, port: int, servers: str = "") -> "ProxySettings":
    from kafkawire.client.address import parse_servers
    from proxy.kafka.access import Access
    from proxy.kafka.settings import ProxySettings

    names = Names(place.namespace)
    return ProxySettings(
        host="127.0.0.1",
        port=port,
        advertised_host="127.0.0.1",
        bootstrap=parse_servers(servers or place.kafka.bootstrap_servers),
        access=Access(),
        names=names,
        is_delay_enabled=lambda topic: fnmatchcase(topic, "orders-*") and not names.is_own(topic),
        rules_for=lambda _: DEFAULT_RULES,
        horizon_max_ms=3_650 * 86_400_000,
        node_id_base=1,
        nodes_max=NODES_MAX,
    )


class Proxy:
    """A place, and a proxy in front of it."""

    def __init__(self, place: Place, stack: ExitStack) -> None:
        self.place = place
        self.stack = stack
        self.port = free_range(1 + NODES_MAX)
        self.registry = CollectorRegistry()
        self.full: str | None = None
        self.full_of_repeats: str | None = None
        self.pending = 0
        self.ledgers: Ledgers | None = None

    def _why_full(self, topic: str, *, adds: int = 1, repeats: int = 0, pending_max: int | None = None) -> str | None:
        if pending_max is not None:
            return "full" if self.pending + adds > pending_max else None
        return self.full or (self.full_of_repeats if repeats else None)

    def limit(self, *limits: str, principals: str = "*") -> Ledgers:
        """Open it behind this."""
        text = f"[[quota]]\nprincipals = ['{principals}']\n" + "\n".join(limits)
        rules = read_quotas(text.encode(), "rules.toml")
        self.ledgers = Ledgers(lambda: rules, CLOCK, self.registry)
        return self.ledgers

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def make_topic(self, partitions: int = 1, **config: str) -> None:
        """Returns when its leaders know of it: clients repeat until then, single requests do not."""
        self.place.make_topic(partitions, **config)
        self._await_leaders(self.place.topic, partitions)

    def make_buffer(self, partitions: int = 1) -> None:
        """As `make_topic` does, of the buffer beside it: without it the first delayed record makes one."""
        self.place.queue().ensure_buffer(self.place.topic, DEFAULT_RULES)
        self._await_leaders(self.place.buffer, partitions)

    def _await_leaders(self, topic: str, partitions: int) -> None:
        with closing(WireClient(self.place.kafka.bootstrap_servers)) as client:
            soon(lambda: self._is_led(client, topic, partitions))

    def _is_led(self, client: WireClient, topic: str, partitions: int) -> bool:
        request = DescribeProducersRequest([ProducersTopic(topic, list(range(partitions)))])
        answer = client.ask(request, 0, DescribeProducersResponse)
        return not any(one.error_code for one in answer.topics[0].partitions)

    @contextmanager
    def open(
        self, registry: CollectorRegistry | None = None, queue: "KafkaQueue | None" = None, **changes: Any
    ) -> "Iterator[ProxyThread]":
        from cli.proxy_thread import ProxyThread
        from proxy.kafka.frontend.server import Server
        from proxy.kafka.hub import open_hub
        from proxy.kafka.metrics import ProxyMetrics

        settings = replace(proxy_settings(self.place, self.port), **changes)
        admin = queue or self.place.queue()
        metrics = ProxyMetrics(registry or CollectorRegistry())
        ledger = None if self.ledgers is None else self.ledgers.kafka
        thread = ProxyThread(
            lambda: Server(open_hub(settings, admin, metrics, CLOCK, self._why_full, ledger)), "kafka-proxy"
        )
        thread.start()
        try:
            yield thread
        finally:
            thread.stop()
            assert thread.failure is None, thread.failure

    def count(self, name: str) -> float:
        return sum(
            sample.value for metric in self.registry.collect() for sample in metric.samples if sample.name == name
        )


@pytest.fixture
def proxy(kafka: "KafkaAt") -> Iterator[Proxy]:
    """Not open yet."""
    with ExitStack() as stack:
        yield Proxy(Place(kafka, stack), stack)


@pytest.fixture
def opened(proxy: Proxy) -> Proxy:
    proxy.stack.enter_context(proxy.open(proxy.registry))
    return proxy


def _consumer(servers: str, topic: str, **settings: Any) -> "Consumer":
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"of-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **settings,
        }
    )


def held(servers: str, topic: str) -> list[Any]:
    """All messages that a topic holds now, by partition."""
    from confluent_kafka import KafkaError, TopicPartition

    with closing(_consumer(servers, topic, **{"enable.partition.eof": True})) as consumer:
        partitions = consumer.list_topics(topic, 20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: list[Any] = []
        unread = set(partitions)
        until_s = CLOCK.monotonic_s() + 60
        while unread:
            assert CLOCK.monotonic_s() < until_s, f"{topic}: no end of {unread}"
            message = consumer.poll(0.5)
            if message is None:
                continue
            if (error := message.error()) is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
        return sorted(found, key=lambda one: (one.partition(), one.offset()))


def consumed(
    servers: str,
    topic: str,
    count: int,
    timeout_s: float = 60.0,
    quiet_s: float = 20.0,
    settings: Mapping[str, Any] | None = None,
) -> list[Any]:
    """So many messages, from the beginning; fewer when none has come for `quiet_s` after the first."""
    with closing(_consumer(servers, topic, **(settings or {}))) as consumer:
        consumer.subscribe([topic])
        found: list[Any] = []
        until_s = CLOCK.monotonic_s() + timeout_s
        while len(found) < count and CLOCK.monotonic_s() < until_s:
            more = [one for one in consumer.consume(count - len(found), 0.5) if one.error() is None]
            if more:
                found += more
                until_s = CLOCK.monotonic_s() + quiet_s
        return found
