"""Installations on Kafka for the job."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from reconcile.readers.kafka import KafkaReader
    from tests.brokers.kafka import KafkaAt
    from tests.reconcile.on_kafka import Place


@pytest.fixture
def place(kafka: "KafkaAt") -> "Place":
    from tests.reconcile.on_kafka import Place

    return Place(kafka)


@pytest.fixture
def reader(place: "Place") -> "Iterator[KafkaReader]":
    from reconcile.readers.kafka import KafkaReader
    from tests.reconcile.on_kafka import CLOCK

    opened = KafkaReader(place.settings(), CLOCK)
    yield opened
    opened.close()
