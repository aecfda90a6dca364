"""A partition that the library has not seen yet, on the way of records into a transaction."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from delayline.records.record import encode_body
from mq.kafka.librdkafka.producers import Outgoing

BODY = encode_body(None, b"x", [])


class Library:
    """Takes records for the partitions that it has seen of a topic that has four."""

    def __init__(self, *, sees: int = 4, away: bool = False) -> None:
        self.seen, self.sees, self.away = 2, sees, away
        self.looks: list[str] = []
        self.taken: list[int] = []

    def list_topics(self, topic: str, timeout_s: float) -> None:
        self.looks.append(topic)
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        self.seen = self.sees

    def produce(self, topic: str, value: Any, key: Any, partition: int, **_: Any) -> None:
        if partition >= self.seen:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        self.taken.append(partition)


def sent(library: Any, *partitions: int) -> list[int]:
    """The partitions whose records were refused."""
    outgoing = Outgoing()
    for partition in partitions:
        outgoing.send(library, "orders", partition, BODY)
    return [failure.partition for failure in outgoing.failures]


def test_the_library_is_made_to_look_once_and_takes_the_record() -> None:
    library = Library()
    assert sent(library, 0, 3, 2) == []
    assert (library.taken, library.looks) == ([0, 3, 2], ["orders"])


def test_what_is_not_there_either_is_refused_without_looking_for_each_record() -> None:
    library = Library(sees=3)
    assert sent(library, 3, 3, 2) == [3, 3]
    assert (library.taken, library.looks) == ([2], ["orders"])


def test_where_the_broker_is_away_the_record_is_refused() -> None:
    library = Library(away=True)
    assert sent(library, 3, 1, 3) == [3, 3]
    assert (library.taken, library.looks) == ([1], ["orders"])
