"""What happens to a gate (events), and what it wants done (outputs)."""

from dataclasses import dataclass
from enum import Enum

from kafkawire.protocol.errors import ErrorCode

SEQUENCES = 1 << 31
"""Sequence numbers run from 0 to 2**31 - 1 and begin again at 0 (DefaultRecordBatch.incrementSequence)."""


class LogRole(Enum):
    """One of the two logs."""

    TARGET = "target"
    BUFFER = "buffer"


# --- what the gate receives


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The batch of one partition in a client's Produce. Each arrival is an object of its own, compared by identity.

    `count` >= 1, 0 <= `delayed` <= `count`. `producer_id`, `epoch` and `base_sequence` are -1 where the producer has
    none. `refusal`: what the relay has found wrong with it already (an invalid directive: 87; too large for B: 10; B
    known to be out of order: 19). `tag` is the caller's own.
    """

    topic: str
    partition: int
    producer_id: int
    epoch: int
    base_sequence: int
    count: int
    delayed: int
    acks: int = -1
    refusal: ErrorCode = ErrorCode.NONE
    tag: object = None

    @property
    def immediate(self) -> int:
        return self.count - self.delayed

    @property
    def sequenced(self) -> bool:
        return self.producer_id >= 0

    @property
    def end(self) -> int:
        """The sequence that follows the batch."""
        return (self.base_sequence + self.count) % SEQUENCES


@dataclass(frozen=True, slots=True)
class TargetAnswered:
    """T's answer to a `SendTarget` or `ProbeTarget`. A lost connection to T is no answer: close the client's."""

    batch: Batch
    code: int


@dataclass(frozen=True, slots=True)
class BufferAnswered:
    """The end of a `SendBuffer`, after whatever repetitions. `code` None: it may or may not have been written, which
    includes that any attempt may have been."""

    batch: Batch
    code: int | None


@dataclass(frozen=True, slots=True)
class AskAnswered:
    """The answer to an `Ask`: the sequence after the last one of this producer id **and epoch** in the log, modulo
    2**31; None where the log knows no such producer, or knows it under another epoch, which is then `other_epoch`.

    To be given only when everything up to it is replicated (log end at that moment <= high watermark): a batch may be
    confirmed on the strength of it.
    """

    batch: Batch
    side: LogRole
    next_sequence: int | None
    other_epoch: int = -1


@dataclass(frozen=True, slots=True)
class AskFailed:
    """An `Ask` found no answer, after whatever repetitions."""

    batch: Batch


Event = Batch | TargetAnswered | BufferAnswered | AskAnswered | AskFailed


# --- what the gate wants done


@dataclass(frozen=True, slots=True)
class SendTarget:
    """Send the immediate records to T, on the client's own connection, in the order of these outputs."""

    batch: Batch
    base_sequence: int


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """Send T a batch header without records, with the transactional bit where the batch has it, in the same order."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class SendBuffer:
    """Send the delayed records to B, acks -1, on the proxy's connection. May be repeated freely if `sequenced`."""

    batch: Batch
    base_sequence: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the leader of one log for the producer's state (DescribeProducers)."""

    batch: Batch
    side: LogRole


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the client. `verbatim`: with T's own answer to the partition; else with `code` and offset -1. The batch
    is done with (for acks=0 nothing is sent)."""

    batch: Batch
    code: int
    verbatim: bool


@dataclass(frozen=True, slots=True)
class Close:
    """Close the client's connection and forget the sequencer; send nothing more of it to either log."""

    batch: Batch
    reason: str


Output = SendTarget | ProbeTarget | SendBuffer | Ask | Answer | Close
