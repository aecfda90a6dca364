"""Offsets are asked for again while a partition's leader is changing."""

from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException

from delayline.clock import ManualClock
from mq.errors import QueueUnavailable
from mq.kafka import cluster
from mq.kafka.cluster import Cluster
from mq.kafka.settings import KafkaSettings


class Answer(NamedTuple):
    offset: int


class Admin:
    """Says these errors, one at each question, and then offset 7."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)

    def list_offsets(self, question: Any, **_: Any) -> dict[Any, "Future[Answer]"]:
        future: Future[Answer] = Future()
        if self.errors:
            future.set_exception(KafkaException(KafkaError(self.errors.pop(0))))
        else:
            future.set_result(Answer(7))
        return dict.fromkeys(question, future)


def asking(monkeypatch: pytest.MonkeyPatch, *errors: int) -> Cluster:
    monkeypatch.setattr(cluster, "_admin", lambda _: Admin(*errors))
    clock = ManualClock()
    return Cluster(KafkaSettings(bootstrap_servers="127.0.0.1:1"), clock, lambda s: clock.advance(int(s * 1000)))


@pytest.mark.parametrize(
    "error",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    ],
)
def test_a_leader_that_is_changing_is_asked_again(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    assert asking(monkeypatch, error, error).log_range("orders", 0) == (7, 7)
    assert asking(monkeypatch, error).offsets_since("orders", [0], 1) == {0: 7}


def test_what_does_not_pass_is_said_at_once_and_what_does_not_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(QueueUnavailable):
        asking(monkeypatch, *denied).log_range("orders", 0)
    with pytest.raises(QueueUnavailable):
        asking(monkeypatch, *[KafkaError.UNKNOWN_LEADER_EPOCH] * 10_000).log_range("orders", 0)
