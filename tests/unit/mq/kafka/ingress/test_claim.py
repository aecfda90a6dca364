"""A claim whose commit is not answered with a plain yes: its error, and that it never begins anew by itself."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from delayline.clock import ManualClock
from mq.errors import ClaimLost, QueueUnavailable
from mq.kafka.data_path.finishing import Nobody
from mq.kafka.ingress import claim as module
from mq.kafka.ingress.claim import KafkaClaim
from mq.kafka.settings import KafkaSettings

SETTINGS = KafkaSettings(bootstrap_servers="127.0.0.1:1")


class Answering:
    """A producer whose commits are answered with this error."""

    def __init__(self, code: int) -> None:
        self.code = code

    def begin_transaction(self) -> None:
        pass

    def flush(self, _: float) -> int:
        return 0

    def commit_transaction(self, _: float) -> None:
        raise KafkaException(KafkaError(self.code))


def claimed(monkeypatch: pytest.MonkeyPatch, code: int) -> KafkaClaim:
    producer: Any = Answering(code)
    monkeypatch.setattr(module, "initialised", lambda *_: producer)
    return KafkaClaim(SETTINGS, "delayline-claim-repair", ManualClock(), Nobody())


@pytest.mark.parametrize("code", [KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED])
def test_a_commit_that_is_fenced_reports_that_the_claim_is_lost(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    with pytest.raises(ClaimLost, match="claimed by another process since"):
        claimed(monkeypatch, code).write([])


def test_a_commit_without_an_answer_may_or_may_not_have_been_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka 4.3.1 answers UNKNOWN_SERVER_ERROR to a commit that meets another claim under way."""
    claim = claimed(monkeypatch, KafkaError.UNKNOWN)
    with pytest.raises(QueueUnavailable, match="appending under delayline-claim-repair"):
        claim.write([])
    with pytest.raises(QueueUnavailable, match="claim it again"):
        claim.write([])
