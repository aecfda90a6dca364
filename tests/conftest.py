"""Fixtures that more than one room's tests need."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.brokers.distribution import Unavailable

if TYPE_CHECKING:
    from tests.brokers.kafka import Kafka


@contextmanager
def started(make: "Callable[[], Kafka]") -> "Iterator[Kafka]":
    """The Kafka that `make` makes. Skips where there can be none, and fails instead where CI is set."""
    try:
        kafka = make()
        with closing(kafka):
            kafka.start()
            yield kafka
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"no Kafka: {error}")
        pytest.skip(f"no Kafka: {error}")


@pytest.fixture(scope="session")
def kafka() -> "Iterator[Kafka]":
    """One Kafka node for the whole session."""
    from tests.brokers.kafka import Kafka

    with started(Kafka) as broker:
        yield broker
