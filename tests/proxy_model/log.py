"""A partition log, with one producer id in it: Kafka's rules on epochs, sequences and repetitions.

Sources: UnifiedLog.analyzeAndValidateProducerState (a repetition is recognised before anything else is checked),
ProducerStateEntry (the last 5 batches of the current epoch, by exact bounds), ProducerAppendInfo.checkProducerEpoch
and checkSequence. DescribeProducers returns the last sequence and the epoch.
"""

from dataclasses import dataclass, replace

from kafkawire.protocol.errors import ErrorCode
from proxy.kafka.produce.sequencer import SEQUENCES

BATCHES_REMEMBERED = 5

Record = tuple[int, int]
"""The batch's number in the script, and the record's within the batch."""


@dataclass(frozen=True, slots=True)
class Appended:
    """One batch as the log holds it."""

    epoch: int
    base: int
    count: int
    records: tuple[Record, ...]

    @property
    def end(self) -> int:
        return (self.base + self.count) % SEQUENCES


@dataclass(frozen=True, slots=True)
class Log:
    """`stable`: how many batches are replicated. `forgotten`: up to which batch the producer's state has expired."""

    batches: tuple[Appended, ...] = ()
    stable: int = 0
    forgotten: int = 0

    def remembered(self) -> tuple[Appended, ...]:
        """The batches of the last epoch that is not forgotten, at most five."""
        known = self.batches[self.forgotten :]
        return tuple(batch for batch in known if batch.epoch == known[-1].epoch)[-BATCHES_REMEMBERED:]

    def check(self, batch: Appended) -> ErrorCode:
        """NONE where it may be appended, DUPLICATE_SEQUENCE_NUMBER where it has been (a broker then answers NONE)."""
        known = self.remembered()
        if not known:
            return ErrorCode.NONE
        last = known[-1]
        if any((one.epoch, one.base, one.count) == (batch.epoch, batch.base, batch.count) for one in known):
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if batch.epoch < last.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        expected = last.end if batch.epoch == last.epoch else 0
        return ErrorCode.NONE if batch.base == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def appended(self, batch: Appended) -> "Log":
        return replace(self, batches=(*self.batches, batch))

    def replicated(self) -> "Log":
        return replace(self, stable=len(self.batches))

    def failed_over(self) -> "Log":
        """The leader is lost with what it had not replicated; the next remembers at least the last batch it has."""
        forgotten = min(self.forgotten, max(self.stable - 1, 0))
        return replace(self, batches=self.batches[: self.stable], forgotten=forgotten)

    def expired(self) -> "Log":
        return replace(self, forgotten=len(self.batches))

    def restarted(self) -> "Log":
        """From a snapshot: only the last batch of each producer is remembered (ProducerStateManager.readSnapshot)."""
        return replace(self, forgotten=max(self.forgotten, len(self.batches) - 1))

    def next_sequence(self, epoch: int) -> int | None:
        """What DescribeProducers leads to."""
        known = self.remembered()
        return known[-1].end if known and known[-1].epoch == epoch else None

    def other_epoch(self, epoch: int) -> int:
        """The one under which the producer is known, where it is not this one; -1 where there is none."""
        known = self.remembered()
        return known[-1].epoch if known and known[-1].epoch != epoch else -1

    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in batch.records]
