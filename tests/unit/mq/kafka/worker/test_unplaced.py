"""A record that is acknowledged without its offset: sent again, and known to the broker from too long ago."""

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from delayline.clock import ManualClock
from delayline.records.record import encode_body
from mq.contract import Append, Position
from mq.errors import QueueUnavailable
from mq.kafka.ingress.client import KafkaClient
from mq.kafka.librdkafka.renewed import Renewed

BODY = encode_body(b"k", b"v")


class Acknowledging:
    """A producer whose records are all acknowledged at this offset."""

    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def produce(self, topic: str, *_: Any, on_delivery: Callable[..., None], **__: Any) -> None:
        on_delivery(
            None,
            SimpleNamespace(
                topic=lambda: topic, partition=lambda: 2, offset=lambda: self._offset, timestamp=lambda: (1, 1000)
            ),
        )


def appended(offset: int | None) -> "Future[list[Position]]":
    client = object.__new__(KafkaClient)
    producer: Any = Acknowledging(offset)
    client.line = Renewed(lambda: producer, id, 1, ManualClock())
    future: Future[list[Position]] = Future()
    client.append_one(Append("orders", "2", BODY), 2, future)
    return future


def test_an_append_reports_that_the_record_s_place_is_unknown() -> None:
    assert appended(7).result(0) == [Position("orders", "2", 7, 1000)]
    with pytest.raises(QueueUnavailable, match="orders: stored, but its place"):
        appended(None).result(0)
