"""What a run consists of."""

from dataclasses import dataclass
from enum import Enum


class Habit(Enum):
    """How a client repeats.

    JAVA: what has to be repeated goes one batch at a time, lowest sequence first, each after the answer to the one
    before (RecordAccumulator.shouldStopDrainBatchesForPartition). 45 for a batch that is not next: repeated.
    LIBRDKAFKA: everything again in order, without waiting. 45 for a batch that is not next: what is in flight is
    waited for, and all that is not acknowledged goes out under a new epoch (rd_kafka_idemp_drain_epoch_bump).
    AIOKAFKA: one batch at a time; sequences go on behind a refused one, in the same epoch.

    After a definite refusal Java begins a new epoch at once, without waiting for what is in flight, and numbers that
    anew where it stands: a request whose bytes have not left the client yet leaves with the new numbers
    (TransactionManager.bumpIdempotentProducerEpoch, ProducerBatch.resetProducerState). So a later batch of the new
    epoch may arrive before an earlier one, which has arrived under the old epoch and is to be repeated. librdkafka
    waits for what is in flight.
    """

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    AIOKAFKA = "aiokafka"


class Fault(Enum):
    """What may go wrong. Each costs one of the scope's budget."""

    CRASH = "the proxy of a connection dies; what it has sent may arrive at any later time"
    LEAVE = "the client gives a connection up, and its proxy goes on without noticing"
    REFUSE_TARGET = "T answers that it is not the leader, and has written nothing"
    LAG_TARGET = "T writes without replicating, and answers that it timed out"
    REFUSE_BUFFER = "B has written nothing, and answers so"
    LOSE_REQUEST = "what was sent or asked on B's side is lost, and the proxy gets an unknown result"
    LOSE_ANSWER = "B has written, and the proxy gets an unknown result"
    LAG_BUFFER = "B has written without replicating, and the proxy gets an unknown result"
    FAIL_OVER = "a log's leader is lost, with what it had not replicated"
    RESTART = "a log remembers only the last batch of the producer"
    MOVE = "the client goes on over a new connection, and is still answered on the old one (T has a new leader)"


REFUSED = "!?"
ONE_CONNECTION = frozenset(Fault) - {Fault.MOVE}


@dataclass(frozen=True, slots=True)
class Start:
    """Where the producer stands when the run begins: its next sequence, and what T and B expect (None: unknown to the
    log). The producer is new where all is absent. `epoch` is the client's; what the logs know is of epoch 0."""

    sequence: int = 0
    target: int | None = None
    buffer: int | None = None
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Scope:
    """`script`: one string per batch, one letter per record: `i`mmediate or `d`elayed. A batch that is refused for
    good begins with `!` (by the proxy, before T sees it) or with `?` (by T, whatever its sequence)."""

    script: tuple[str, ...]
    habit: Habit = Habit.JAVA
    in_flight: int = 3
    faults: frozenset[Fault] = ONE_CONNECTION
    budget: int = 1
    start: Start = Start()

    @property
    def refuses(self) -> bool:
        return any(letters[0] in REFUSED for letters in self.script)

    def records(self, number: int) -> str:
        return self.script[number].lstrip(REFUSED)

    def refused(self, number: int) -> str:
        """Who refuses it: an empty string, `!` or `?`."""
        return self.script[number][0].strip("id")

    def __str__(self) -> str:
        start = self.start
        return (
            f"{' '.join(self.script)} {self.habit.value} in flight {self.in_flight} faults {self.budget}"
            f" from {start.sequence} = {start.target} + {start.buffer} in epoch {start.epoch}"
        )
