"""What a run consists of."""

from dataclasses import dataclass
from enum import Enum


class Habit(Enum):
    """How a client repeats.

    JAVA: what has to be repeated goes one batch at a time, lowest sequence first, each after the answer to the one
    before (RecordAccumulator.shouldStopDrainBatchesForPartition). 45 for a batch that is not next: repeated.
    LIBRDKAFKA: everything again in order, without waiting. 45 for a batch that is not next: what is in flight is
    waited for, and all that is not acknowledged goes out under a new epoch (rd_kafka_idemp_drain_epoch_bump).
    """

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"


class Fault(Enum):
    """What may go wrong. Each costs one of the scope's budget."""

    CRASH = "the proxy of a connection dies; what it has sent may arrive at any later time"
    LEAVE = "the client gives a connection up, and its proxy goes on without noticing"
    REFUSE_TARGET = "T answers that it is not the leader, and has written nothing"
    LAG_TARGET = "T writes without replicating, and answers that it timed out"
    REFUSE_BUFFER = "B has written nothing, and says so"
    LOSE_REQUEST = "what was sent or asked on B's side is lost, and the proxy is told that it does not know"
    LOSE_ANSWER = "B has written, and the proxy is told that it does not know"
    LAG_BUFFER = "B has written without replicating, and the proxy is told that it does not know"
    FAIL_OVER = "a log's leader is lost, with what it had not replicated"
    RESTART = "a log remembers only the last batch of the producer"


@dataclass(frozen=True, slots=True)
class Start:
    """Where the producer stands when the run begins: its next sequence, and what T and B expect (None: unknown to the
    log). The producer is new where all is absent."""

    sequence: int = 0
    target: int | None = None
    buffer: int | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """`script`: one string per batch, one letter per record: `i`mmediate or `d`elayed."""

    script: tuple[str, ...]
    habit: Habit = Habit.JAVA
    in_flight: int = 3
    faults: frozenset[Fault] = frozenset(Fault)
    budget: int = 1
    start: Start = Start()

    def __str__(self) -> str:
        start = self.start
        return (
            f"{' '.join(self.script)} {self.habit.value} in flight {self.in_flight} faults {self.budget}"
            f" from {start.sequence} = {start.target} + {start.buffer}"
        )
