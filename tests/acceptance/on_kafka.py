"""An installation on a Kafka: its settings, a topic, and questions to it."""

from typing import TYPE_CHECKING
from uuid import uuid4

import httpx

from tests.acceptance.asking import HTTP

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaAt

PARTITIONS = 2


def make_topic(kafka: "KafkaAt", topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    config = {"message.timestamp.type": "LogAppendTime"}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result()


def settings_of(kafka: "KafkaAt") -> dict[str, str]:
    return {
        "mq__kind": "kafka",
        "mq__bootstrap_servers": kafka.bootstrap_servers,
        "namespace": f"ns{uuid4().hex[:8]}",
        "delay__topics": "orders-*",
        "delay__discovery_interval": "200ms",
    }


def asked(url: str, message_id: str) -> httpx.Response:
    return HTTP.get(f"{url}/v1/messages/{message_id}", timeout=20)
