"""A claim is a transactional id of its own: the producer that initialises it last fences those before.

Brokers end an earlier producer's transaction before they answer `InitProducerId`: one that was open is aborted, and
of one that was being committed the markers are in every partition (KIP-98; CONCURRENT_TRANSACTIONS until then). So
a process that claims first and reads to the end of a partition afterwards, committed records only, has seen
everything that an earlier claim can ever have stored. That holds from any machine, and needs no lock that a process
which was killed would leave behind.

A commit that meets the `InitProducerId` of the next claim is mostly refused as fenced. Kafka 4.3.1 may answer
UNKNOWN_SERVER_ERROR instead: the coordinator is about to abort the transaction (pending PREPARE_EPOCH_FENCE), takes
the commit for its own request to do so, and throws (`TransactionMetadata.prepareTransitionTo`, called by
`TransactionCoordinator.endTransactionWithTV1`). That code has other causes as well, so that such a commit counts as
one of unknown fate: QueueUnavailable.
"""

from collections.abc import Iterable
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Producer

from delayline.clock import Clock
from mq.errors import ClaimLost, QueueError, QueueUnavailable
from mq.kafka.data_path.finishing import Finisher
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.producers import COMMIT_TIMEOUTS, RAISED, Outgoing, initialised, insist
from mq.kafka.settings import KafkaSettings


class KafkaClaim:
    """One transaction after the other. It never begins anew by itself: that would fence who has claimed since."""

    def __init__(self, settings: KafkaSettings, transactional_id: str, clock: Clock, finisher: Finisher) -> None:
        """Raises QueueUnavailable."""
        self._settings, self._id, self._clock = settings, transactional_id, clock
        finisher.recover(transactional_id)
        with trouble.translated_errors(f"claiming {transactional_id}"):
            self._producer: Producer | None = initialised(settings, transactional_id, settings.request_timeout_s)

    def close(self) -> None:
        self._producer = None

    def write(self, records: Iterable[tuple[str, int, bytes]]) -> None:
        """Bodies for partitions of topics: all of it or nothing. Raises as `Claim.append` does."""
        if self._producer is None:
            raise QueueUnavailable(f"{self._id} has failed, or is closed: claim it again")
        producer, self._producer = self._producer, None
        outgoing = Outgoing()
        try:
            producer.begin_transaction()
            for topic, partition, body in records:
                outgoing.send(producer, topic, partition, body)
            left = producer.flush(self._settings.transaction_timeout_s)
            if outgoing.failures or left:
                raise self._refused(producer, outgoing)
            insist(producer.commit_transaction, COMMIT_TIMEOUTS, self._settings, self._clock)
        except RAISED as error:
            raise self._error(error) from error
        self._producer = producer

    def _refused(self, producer: Producer, outgoing: Outgoing) -> QueueError:
        with suppress(*RAISED):
            producer.abort_transaction(self._settings.request_timeout_s)
        errors = [failure.error for failure in outgoing.culprits] or [KafkaError(KafkaError._TIMED_OUT)]
        return next((self._lost() for error in errors if trouble.fenced(error)), None) or trouble.queue_error(
            errors[0], f"appending under {self._id}"
        )

    def _error(self, error: KafkaException | SystemError) -> QueueError:
        if isinstance(error, SystemError) or trouble.fenced(trouble.cause(error)):
            return self._lost()
        return trouble.queue_error(trouble.cause(error), f"appending under {self._id}")

    def _lost(self) -> ClaimLost:
        return ClaimLost(f"{self._id} has been claimed by another process since")
