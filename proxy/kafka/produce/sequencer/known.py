"""What a gate knows of one epoch, and the arithmetic of sequences."""

from dataclasses import dataclass

from kafkawire.protocol.errors import ErrorCode
from proxy.kafka.produce.sequencer.codes import RETRIABLE
from proxy.kafka.produce.sequencer.events import SEQUENCES, Batch


@dataclass(slots=True)
class Known:
    """What is known of one epoch.

    `next` is the first sequence not yet done with, `buffered` is D there, `ahead` how many records from there on are
    in the logs. From `next` to `chain` all batches are plain. `proven`: T has a state of this epoch, and it agrees.
    `doubt`: the end of a plain batch that the leader of T may lose yet. `refused`: what batches up to `refused_until`
    were answered that will come again; those behind them are answered the same, for 45 is more than they deserve.
    """

    next: int
    chain: int
    buffered: int = 0
    ahead: int = 0
    proven: bool = False
    doubt: int | None = None
    refused: int = ErrorCode.NONE
    refused_until: int = 0

    def advance(self, batch: Batch) -> None:
        """All of the batch is in the logs, and so is everything before it."""
        if distance(self.next, batch.end) > 0:
            self.next = batch.end
            self.extend(batch)
        if distance(self.refused_until, self.next) >= 0:
            self.refused = ErrorCode.NONE
        if self.doubt is not None and distance(self.doubt, batch.end) >= 0:
            self.doubt = None

    def plain_up_to(self, sequence: int) -> bool:
        """Whether D is the same there as at `next`."""
        away = distance(self.next, sequence)
        # rule seq-before: D was smaller before the last delayed record: T would take the batch for new, twice.
        return self.buffered == 0 if away < 0 else away <= distance(self.next, self.chain)

    def extend(self, batch: Batch) -> None:
        """A plain batch goes to T, or all up to its end is in the logs."""
        if distance(self.chain, batch.end) > 0:
            self.chain = batch.end

    def refuse(self, batch: Batch, code: int) -> None:
        """The client is answered an error."""
        if code in RETRIABLE:
            if not self.refused or batch.base_sequence == self.next or distance(self.refused_until, batch.end) > 0:
                self.refused_until = batch.end
            self.refused = code
        elif batch.base_sequence == self.next:
            self.refused = ErrorCode.NONE

    def is_behind_refused(self, batch: Batch) -> bool:
        """Whether the batch came behind one that is to come again. Where it comes a second time before that one,
        that one has gone another way."""
        behind = self.refused and distance(self.next, batch.base_sequence) > 0
        return bool(behind) and distance(self.refused_until, batch.end) > 0

    def distrust(self, batch: Batch) -> None:
        """T has it without being sure of it."""
        if self.doubt is None or distance(self.doubt, batch.end) > 0:
            self.doubt = batch.end


def distance(start: int, end: int) -> int:
    """From `start` forward to `end`; negative where `end` is less than half the circle behind."""
    # rule seq-wrap: sequences begin at 0 again: what is next would count as long past.
    forward = (end - start) % SEQUENCES
    return forward if forward < SEQUENCES // 2 else forward - SEQUENCES
