"""The producer of single sends fails for good: each waiting caller gets the error, and another one takes its
place."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from delayline.clock import ManualClock
from delayline.process import threads
from delayline.records.record import encode_body
from mq.contract import Append, Position
from mq.errors import QueueUnavailable
from mq.kafka.ingress.client import KafkaClient
from mq.kafka.librdkafka.producers import flush
from mq.kafka.librdkafka.renewed import AGAIN_S, Renewed

FATAL = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no producer id", fatal=True)
REFUSED = KafkaError(KafkaError._FATAL, "fatal")
APPEND = Append("orders", "2", encode_body(b"k", b"v"))


class Scripted:
    """A producer whose next polls raise `errors`, which refuses records once one was fatal."""

    def __init__(self, *errors: KafkaError) -> None:
        self.errors = list(errors)
        self.is_dead = False
        self.waiting: list[Callable[..., None]] = []
        self.polled = Event()

    def __len__(self) -> int:
        return len(self.waiting)

    def produce(self, *_: Any, on_delivery: Callable[..., None], **__: Any) -> None:
        if self.is_dead:
            raise KafkaException(REFUSED)
        self.waiting.append(on_delivery)

    def poll(self, _: float) -> int:
        if self.errors:
            self.is_dead = self.errors[0].fatal()
            raise KafkaException(self.errors.pop(0))
        self.polled.set()
        return 0

    def flush(self, _: float) -> int:
        self.poll(0)
        for heard in self.waiting:
            heard(REFUSED, None)
        self.waiting.clear()
        return 0


class Bench:
    """A client over these producers, one after the other; `turn` is one of its thread's."""

    def __init__(self, *producers: Scripted) -> None:
        self.clock = ManualClock()
        made = iter(producers)
        self.client = object.__new__(KafkaClient)
        self.client.cluster = type("Cluster", (), {"forget": lambda *_: None})()
        self.client.closing = Event()
        self.client.line = Renewed(
            lambda: next(made),  # type: ignore[arg-type,return-value]
            lambda old: flush(old, 1, self.clock),
            30,
            self.clock,
        )

    def turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        closing = self.client.closing
        mend = self.client.line.mend
        monkeypatch.setattr(self.client.line, "mend", lambda: (mend(), closing.set()))
        try:
            self.client.serve()
        finally:
            closing.clear()
            monkeypatch.undo()

    def send(self) -> "Future[list[Position]]":
        future: Future[list[Position]] = Future()
        try:
            self.client.append_one(APPEND, 2, future)
        except QueueUnavailable as error:
            future.set_exception(error)
        return future


def test_a_send_in_flight_fails_and_later_ones_go_by_the_next_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    dead, next_one = Scripted(FATAL), Scripted()
    bench = Bench(dead, next_one)
    in_flight = bench.send()
    bench.turn(monkeypatch)
    assert bench.client.trouble() == "nothing can be sent: no producer id"
    with pytest.raises(QueueUnavailable, match="orders: fatal"):
        bench.send().result(0)
    bench.clock.advance(int(AGAIN_S * 1000))
    bench.turn(monkeypatch)
    with pytest.raises(QueueUnavailable, match="orders: fatal"):
        in_flight.result(30)
    bench.send()
    assert (len(dead), len(next_one)) == (0, 1)


@pytest.mark.parametrize("source", ["delivery", "produce"])
def test_a_fatal_error_is_noticed_wherever_it_shows(source: str) -> None:
    producer = Scripted()
    bench = Bench(producer, Scripted())
    future = bench.send()
    if source == "delivery":
        producer.waiting.pop()(FATAL, None)
        assert isinstance(future.exception(0), QueueUnavailable)
    else:
        producer.is_dead = True
        bench.send()
    assert bench.client.trouble() is not None


def test_records_of_a_producer_that_fails_while_it_is_flushed_are_heard_of() -> None:
    producer, heard = Scripted(FATAL, FATAL), []
    producer.waiting.append(lambda *outcome: heard.append(outcome))
    assert flush(producer, 1, ManualClock()) == 0  # type: ignore[arg-type]
    assert heard == [(REFUSED, None)]


def test_the_thread_of_single_sends_survives_any_exception() -> None:
    producer = Scripted()
    producer.errors = [KafkaError(KafkaError._FAIL, "who knows")]
    bench = Bench(producer, Scripted())
    thread = threads.lasting("kafka-send", bench.client.serve, bench.client.closing)
    thread.start()
    assert producer.polled.wait(30)
    bench.client.closing.set()
    thread.join(30)
    assert not thread.is_alive()
