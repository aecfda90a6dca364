"""Offsets are asked for again while a partition's leader is changing, and what is none is not taken for one."""

from concurrent.futures import Future
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException

from delayline.clock import ManualClock
from mq.errors import QueueUnavailable
from mq.kafka.admin import cluster
from mq.kafka.admin.cluster import Cluster
from mq.kafka.settings import KafkaSettings


class Answer(NamedTuple):
    offset: int


class Admin:
    """Answers with these errors, one at each question, and then this offset."""

    def __init__(self, *errors: int, offset: int = 7) -> None:
        self.errors = list(errors)
        self.offset = offset

    def list_offsets(self, question: Any, **_: Any) -> dict[Any, "Future[Answer]"]:
        future: Future[Answer] = Future()
        if self.errors:
            future.set_exception(KafkaException(KafkaError(self.errors.pop(0))))
        else:
            future.set_result(Answer(self.offset))
        return dict.fromkeys(question, future)


def asking(monkeypatch: pytest.MonkeyPatch, *errors: int, offset: int = 7) -> Cluster:
    monkeypatch.setattr(cluster, "admin_client", lambda _: Admin(*errors, offset=offset))
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


def test_what_does_not_pass_is_reported_at_once_and_what_does_not_end_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    denied = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(QueueUnavailable):
        asking(monkeypatch, *denied).log_range("orders", 0)
    with pytest.raises(QueueUnavailable):
        asking(monkeypatch, *[KafkaError.UNKNOWN_LEADER_EPOCH] * 10_000).log_range("orders", 0)


def test_an_answer_without_offset_or_error_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library answers of a partition whose leader died while it was asked."""
    nothing = asking(monkeypatch, offset=OFFSET_INVALID)
    for question in (
        lambda: nothing.log_range("orders", 0),
        lambda: nothing.log_ends("orders", [0]),
        lambda: nothing.offsets_since("orders", [0], 1),
        lambda: nothing.is_stable("orders", 0, 0.0),
    ):
        with pytest.raises(QueueUnavailable):
            question()


def test_that_no_record_is_so_late_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asking(monkeypatch, offset=-1).offsets_since("orders", [0], 1) == {0: -1}
