"""A record that is acknowledged without its offset: sent again, and known to the broker from too long ago."""

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from delayline.clock import ManualClock
from delayline.record import encode_body
from mq.contract import Append, Position
from mq.errors import QueueUnavailable
from mq.kafka.client import KafkaClient
from mq.kafka.producers import Outgoing, Send
from mq.kafka.renewed import Renewed

BODY = encode_body(b"k", b"v")


class Acknowledging:
    """A producer whose records are all acknowledged at this offset."""

    def __init__(self, offset: int | None) -> None:
        self._offset = offset

    def produce(self, topic: str, *given: Any, on_delivery: Callable[..., None] | None = None, **_: Any) -> None:
        heard = on_delivery or given[3]
        heard(
            None,
            SimpleNamespace(
                topic=lambda: topic, partition=lambda: 2, offset=lambda: self._offset, timestamp=lambda: (1, 1000)
            ),
        )


def appended(offset: int | None) -> "Future[list[Position]]":
    client = object.__new__(KafkaClient)
    client._line = Renewed(lambda: Acknowledging(offset), id, 1, ManualClock())  # type: ignore[assignment,arg-type]
    future: Future[list[Position]] = Future()
    client._append_one(Append("orders", "2", BODY), 2, future)
    return future


def test_an_append_says_that_it_does_not_know_where_the_record_stands() -> None:
    assert appended(7).result(0) == [Position("orders", "2", 7, 1000)]
    with pytest.raises(QueueUnavailable, match="orders: stored, but where"):
        appended(None).result(0)


@pytest.mark.parametrize(("offset", "failures"), [(7, 0), (None, 1)])
def test_a_transaction_whose_records_must_be_known_by_place_is_refused(offset: int | None, failures: int) -> None:
    outgoing, placed = Outgoing(), []
    send = Send("orders", 2, BODY, None, lambda at, stamped_ms: placed.append((at, stamped_ms)))
    outgoing.send(Acknowledging(offset), send)  # type: ignore[arg-type]
    outgoing.send(Acknowledging(offset), Send("audit", 0, BODY))  # type: ignore[arg-type]
    assert len(outgoing.failures) == failures
    assert placed == ([] if failures else [(7, 1000)])
