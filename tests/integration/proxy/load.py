"""A producer that goes on whatever happens to the proxy or the brokers."""

from collections.abc import Mapping
from random import Random
from typing import Any

from confluent_kafka import Producer

from mq.kafka.librdkafka.bodies import Headers
from tests.integration.proxy.conftest import Proxy

DELAY: Headers = [("delay-ms", b"3600000")]


class Load:
    """An idempotent producer of numbers, three in ten of them delayed, that outlives the proxy."""

    def __init__(
        self, proxy: Proxy, rng: Random, partitions: int = 2, settings: Mapping[str, str] | None = None
    ) -> None:
        self._topic = proxy.place.topic
        self._rng = rng
        self._partitions = partitions
        self.failures: list[Any] = []
        self.sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": proxy.address,
                "enable.idempotence": True,
                "linger.ms": 5,
                "batch.num.messages": 40,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                **(settings or {}),
            }
        )

    def send(self, count: int) -> None:
        for _ in range(count):
            headers = DELAY if self._rng.random() < 0.3 else []
            value, partition = b"%d" % self.sent, self.sent % self._partitions
            self._producer.produce(
                self._topic,
                value=value,
                partition=partition,
                headers=headers,
                on_delivery=self._delivered,
            )
            self.sent += 1
            self._producer.poll(0.0005)

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.failures.append(error)

    def finish(self, timeout_s: float = 60.0) -> None:
        assert self._producer.flush(timeout_s) == 0
        assert self.failures == []
