"""What a transaction writes, and the error that means that nothing of it was committed."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError

from mq.kafka.librdkafka.producers import Failure
from mq.kafka.librdkafka.trouble import timed_out

Delivered = Callable[[int, int], None]
"""Hears where a record stands, and its time there (epoch ms)."""


class Send(NamedTuple):
    """A body for a partition; `timestamp_ms` None is now. `delivered` hears where it stands, before the commit."""

    topic: str
    partition: int
    body: bytes
    timestamp_ms: int | None = None
    delivered: Delivered | None = None


class Bulk(NamedTuple):
    """Many records for one partition."""

    topic: str
    partition: int
    deliveries: Sequence[tuple[bytes, int | None]]


class Aborted(Exception):
    """For certain nothing was committed. `failures` are the records that were refused, if that is why."""

    def __init__(self, error: KafkaError, failures: Sequence[Failure] = ()) -> None:
        super().__init__(error.str())
        self.error = error
        self.failures = failures

    @property
    def silent(self) -> bool:
        """Nothing shows who is at fault: there was no answer in time (too few replicas are waited for, too)."""
        return all(timed_out(error) for error in [failure.error for failure in self.failures] or [self.error])
