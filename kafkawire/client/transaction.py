"""The life of a transactional producer, as a pure state machine: no sockets, no clock, no records.

          Open                Begin
    SHUT ─────▶ OPENING ───────────▶ READY ──┬──────────▶ WRITING ──┬─────────▶ OFFSETS ─▶ ENDING ─▶ READY
     ▲             │                   ▲     └▶ ADDING ──▶┘   │      └▶ JOINING ─▶┘  │        │  committed
     │             ▼                   │           │          ▼                     │        │ no answer
     ├─────────────┴───── aborted ─────┼───────────┴──────────┴─────────────────────┴────────┤
     │                                 └─────────────── committed ─────────────── IN_DOUBT ◀─┘
     └───────────────────────────────────────────────────── unknown ─────────────────┘

ADDING and JOINING are there where brokers do not add partitions and offsets to a transaction by themselves (before
KIP-890's second part, transaction.version 2: "implicit" here).

Rules, each of which a test breaks:

1. EndTxn(commit) is sent once everything that was written, and then the offsets, have been acknowledged. Before it is
   sent for the first time an epoch's transaction is *aborted for certain* as soon as we let go of the epoch: nothing
   else can commit it. Beside unacknowledged writes the offsets are not sent either: brokers that add them to the
   transaction implicitly answer 14, 19 and 51 then.
2. A write or offsets whose answer is lost are never sent again into the same epoch: the outcome of them cannot be
   known, and they may still arrive. We let go of the epoch, and InitProducerId, which comes before everything else,
   aborts what is open and makes brokers refuse what arrives late.
3. A write that was *refused* for the moment is sent again under the same sequence. Where it had been appended all the
   same (the leader changed while replicas were waited for), the sequence shows that to the next leader.
4. EndTxn(commit) without an answer, or with one that may be given after the coordinator has logged the end, is
   repeated under the same id and epoch until an answer decides it: "no error" is given for a commit that is
   complete, CONCURRENT_TRANSACTIONS for one that is being completed, and with implicit partitions the epoch has gone
   up by then, so that no later transaction can be meant. Any other answer means only that the epoch is not ours any
   more (`TransactionCoordinator.endTransaction`): the fate is unknown.
5. Sequences begin at 0 with every epoch, which goes up with each InitProducerId, and with each commit where
   partitions are implicit. Elsewhere an epoch outlives a commit, so an EndTxn that is still on its way could commit
   the next transaction: after a doubt the epoch is let go of there, whatever came out.
"""

from dataclasses import dataclass
from enum import Enum

from delayline.errors import Bug
from kafkawire.client.steps import (
    NO_ANSWER,
    OUT_OF_TIME,
    Aborted,
    AddOffsets,
    AddPartitions,
    Begin,
    CommitOffsets,
    Committed,
    Done,
    End,
    Event,
    Expired,
    Identity,
    Initialise,
    Lost,
    Open,
    Opened,
    Outcome,
    Place,
    Refused,
    Request,
    Step,
    Unknown,
    Unsent,
    Write,
)
from kafkawire.client.transaction_codes import AGAIN, ELSEWHERE, NOT_ENDED, OF_PLACE
from kafkawire.protocol.errors import ErrorCode

SEQUENCES = 1 << 31
"""Sequences go up to 2^31 - 1 and begin at 0 again (`DefaultRecordBatch.incrementSequence`)."""


class State(Enum):
    """Where the producer stands. Transitions are those of the module's graph."""

    SHUT = "there is no epoch to write under; -> OPENING"
    OPENING = "InitProducerId is under way; -> READY, SHUT"
    READY = "nothing is open under this epoch; -> ADDING, WRITING, JOINING, OFFSETS, OPENING"
    ADDING = "AddPartitionsToTxn is under way; -> WRITING, SHUT"
    WRITING = "Produces are under way; -> JOINING, OFFSETS, ENDING, SHUT"
    JOINING = "AddOffsetsToTxn is under way; -> OFFSETS, SHUT"
    OFFSETS = "TxnOffsetCommit is under way; -> ENDING, SHUT"
    ENDING = "EndTxn(commit) is under way, and was refused whenever it was answered; -> READY, IN_DOUBT, SHUT"
    IN_DOUBT = "EndTxn(commit) may have been carried out; -> READY, SHUT"


@dataclass(slots=True)
class _Running:
    """The transaction that is under way."""

    writes: tuple[Write, ...]
    offsets: bool
    waiting: dict[int, int]  # numbers of writes that are not acknowledged -> the last error, 0 where there was none
    in_flight: set[int]
    refused: dict[Place, int]
    last: int = 0  # the last error that has made us wait in this state


class Machine:
    """One transactional producer. `advance` takes what happens and gives what to send; `outcome` is what the last
    Open or Begin has come to, None while it is under way (and where an Open went well). Raises Bug for an event that
    the state does not know."""

    def __init__(self) -> None:
        self.state = State.SHUT
        self.outcome: Outcome | None = None
        self.identity: Identity | None = None
        self.implicit = False
        self._sequences: dict[Place, int] = {}  # bounded by the cluster's partitions
        self._running = _Running((), False, {}, set(), {})

    def advance(self, event: Event) -> list[Step]:
        match self.state, event:
            case ((State.SHUT | State.READY), Open()):
                return self._opens()
            case State.OPENING, Opened(identity, implicit):
                return self._opened(identity, implicit)
            case State.OPENING, Lost(Initialise()):  # whatever became of it, the next one fences it
                return [Step(Initialise(), again=True, elsewhere=True)]
            case State.READY, Begin():
                return self._begins(event)
            case State.ADDING, Done(AddPartitions()):
                return self._writes()
            case State.ADDING, Refused(AddPartitions(), _, of_places) if of_places:
                return self._refused_to_add(event)
            case State.WRITING, (Done(Write()) | Refused(Write()) | Unsent(Write())):
                return self._heard_of_a_write(event)
            case State.JOINING, Done(AddOffsets()):
                return self._to(State.OFFSETS, CommitOffsets(self._own))
            case State.OFFSETS, Done(CommitOffsets()):
                return self._to(State.ENDING, End(self._own))
            case ((State.ENDING | State.IN_DOUBT), _):
                return self._ending(event)
            case _, (Refused() | Unsent()) if self._is_under_way(event.request):
                return self._refused(event)
            # rule txn-lost: what is lost may still arrive: sent again it is there twice, taken for written it is
            # lost.
            case _, Lost(request) if self._is_under_way(request):
                return self._aborts(NO_ANSWER)
            case ((State.OPENING | State.ADDING | State.WRITING | State.JOINING | State.OFFSETS), Expired()):
                return self._expired()
        raise Bug(f"{event} in {self.state}")

    # --- an identity

    @property
    def _own(self) -> Identity:
        if self.identity is None:
            raise Bug(f"no producer id in {self.state}")
        return self.identity

    def _opens(self) -> list[Step]:
        self._let_go()
        self.outcome = None
        self._running = _Running((), False, {}, set(), {})
        return self._to(State.OPENING, Initialise())

    def _opened(self, identity: Identity, implicit: bool) -> list[Step]:
        self._takes(identity)
        self.implicit = implicit
        self.state = State.READY
        return []

    def _takes(self, identity: Identity) -> None:
        self.identity = identity
        # rule txn-sequences: sequences begin at 0 with an epoch: brokers would refuse every write.
        self._sequences.clear()

    def _let_go(self) -> None:
        self.identity = None
        self._sequences.clear()
        self.state = State.SHUT

    # --- a transaction

    def _begins(self, event: Begin) -> list[Step]:
        self.outcome = None
        writes = tuple(self._numbered(number, place, count) for number, (place, count) in enumerate(event.batches))
        self._running = _Running(writes, event.offsets, dict.fromkeys(range(len(writes)), 0), set(), {})
        if not writes:
            return self._written()
        if self.implicit:
            return self._writes()
        places = tuple(dict.fromkeys(write.place for write in writes))
        return self._to(State.ADDING, AddPartitions(self._own, places))

    def _numbered(self, number: int, place: Place, count: int) -> Write:
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = (sequence + count) % SEQUENCES
        return Write(self._own, place, sequence, number)

    def _writes(self) -> list[Step]:
        self.state, self._running.last = State.WRITING, 0
        self._running.waiting = dict.fromkeys(self._running.waiting, 0)
        self._running.in_flight.update(self._running.waiting)
        # rule txn-offsets-after: beside unacknowledged writes brokers refuse the offsets.
        return [Step(write) for write in self._running.writes]

    def _heard_of_a_write(self, event: "Done | Refused | Unsent") -> list[Step]:
        running, write = self._running, event.request
        if not isinstance(write, Write) or write.number not in running.in_flight:
            raise Bug(f"{event}, which is not under way")
        running.in_flight.remove(write.number)
        # rule txn-gap: a gap in the sequence means that nothing was written: lost.
        if isinstance(event, Done):
            del running.waiting[write.number]
            return self._written_or_again()
        code = event.code if isinstance(event, Refused) else NO_ANSWER
        if code in OF_PLACE:
            # rule txn-refused: the rest would be committed without what was refused for good: lost.
            running.refused.setdefault(write.place, code)
        elif not (code in AGAIN or code in ELSEWHERE or code == NO_ANSWER or self._is_behind_another(write, code)):
            return self._aborts(code)
        running.waiting[write.number] = code
        return self._written_or_again()

    def _is_behind_another(self, write: Write, code: int) -> bool:
        """Refused only because one before it was, with which it is sent again."""
        before = (self._running.writes[number] for number in self._running.waiting if number < write.number)
        return code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and any(one.place == write.place for one in before)

    def _written_or_again(self) -> list[Step]:
        """Once every partition has answered: the next thing, or what was not taken once more, and in order."""
        running = self._running
        # rule txn-acknowledged: the commit would not wait for the last write: lost.
        if running.in_flight:
            return []
        if running.refused:
            refused = tuple(running.refused.items())
            return self._aborts(refused[0][1], refused)
        if not running.waiting:
            return self._written()
        running.in_flight.update(running.waiting)
        return [
            # rule txn-same-number: where it had been appended all the same, another number writes it twice.
            Step(running.writes[number], again=True, elsewhere=code not in AGAIN)
            for number, code in sorted(running.waiting.items())
        ]

    def _written(self) -> list[Step]:
        if self._running.offsets:
            request = CommitOffsets(self._own) if self.implicit else AddOffsets(self._own)
            return self._to(State.OFFSETS if self.implicit else State.JOINING, request)
        if self._running.writes:
            return self._to(State.ENDING, End(self._own))
        self.state, self.outcome = State.READY, Committed()  # nothing was asked for
        return []

    def _refused_to_add(self, event: Refused) -> list[Step]:
        """A refusal of one partition leaves the others' unattempted."""
        of_place = tuple((place, code) for place, code in event.of_places if code in OF_PLACE)
        if of_place:
            return self._aborts(of_place[0][1], of_place)
        for number, write in enumerate(self._running.writes):
            self._running.waiting[number] = dict(event.of_places).get(write.place, 0)
        return self._refused(event)

    def _refused(self, event: "Refused | Unsent") -> list[Step]:
        code = event.code if isinstance(event, Refused) else NO_ANSWER
        if isinstance(event, Unsent) or code in ELSEWHERE or code in AGAIN:
            self._running.last = code
            return [Step(event.request, again=True, elsewhere=code not in AGAIN)]
        return self._aborts(code)

    # --- its end

    def _ending(self, event: Event) -> list[Step]:
        """See the module's fourth rule."""
        match event:
            case Done(End(), identity):
                return self._ends(identity)
            case Refused(End(), code) if code in NOT_ENDED:
                # rule txn-not-ended: the epoch is over and nothing was committed: lost.
                return self._gives_up(code)
            # rule txn-concurrent: the coordinator may be ending the transaction before: its answer is no commit.
            case Refused(End() as request, code):
                self._running.last = code
                # rule txn-doubt: the end may have been logged: called aborted later, it would be delivered twice.
                return self._doubts(request, elsewhere=code not in AGAIN)
            case Lost(End() as request):
                # rule txn-end-lost: nobody knows what has become of it: lost if it counts as committed, twice if as
                # aborted.
                return self._doubts(request, elsewhere=True)
            case Unsent(End() as request):
                return [Step(request, again=True, elsewhere=True)]
            case Expired():
                return self._gives_up(self._running.last or OUT_OF_TIME)
        raise Bug(f"{event} in {self.state}")

    def _doubts(self, request: End, *, elsewhere: bool) -> list[Step]:
        self.state = State.IN_DOUBT
        return [Step(request, again=True, elsewhere=elsewhere)]

    def _ends(self, identity: Identity | None) -> list[Step]:
        """See the module's fifth rule."""
        doubted, self.state = self.state is State.IN_DOUBT, State.READY
        if identity is not None:
            # rule txn-raised: the next transaction would be written under an epoch that is over.
            self._takes(identity)
        # rule txn-doubted: an end that is still on its way would commit the next transaction.
        elif doubted or self.implicit:
            self._let_go()
        self.outcome = Committed()
        return []

    def _gives_up(self, code: int) -> list[Step]:
        if self.state is not State.IN_DOUBT:
            return self._aborts(code)
        self._let_go()
        # rule txn-unknown: what may be committed would be sent again: delivered twice.
        self.outcome = Unknown(code)
        return []

    def _aborts(self, code: int, refused: tuple[tuple[Place, int], ...] = ()) -> list[Step]:
        # rule txn-let-go: what arrives late would become part of the next transaction: delivered twice.
        self._let_go()
        self.outcome = Aborted(code, refused)
        return []

    def _expired(self) -> list[Step]:
        """Who has kept us waiting: the transaction before, or partitions, each with the reason that it gave last."""
        running = self._running
        of_places = self.state in (State.ADDING, State.WRITING)
        codes = dict(running.waiting) if of_places else {}
        if ErrorCode.CONCURRENT_TRANSACTIONS in (running.last, *codes.values()):
            return self._aborts(ErrorCode.CONCURRENT_TRANSACTIONS)
        unheard = {running.writes[number].place: _reported(code) for number, code in codes.items()}
        return self._aborts(next(iter(unheard.values()), OUT_OF_TIME), tuple(unheard.items()))

    # --- small things

    def _to(self, state: State, request: Request) -> list[Step]:
        self.state, self._running.last = state, 0
        return [Step(request)]

    def _is_under_way(self, request: Request) -> bool:
        return isinstance(request, _UNDER_WAY.get(self.state, ()))


_UNDER_WAY: dict[State, type[Request]] = {
    State.OPENING: Initialise,
    State.ADDING: AddPartitions,
    State.WRITING: Write,
    State.JOINING: AddOffsets,
    State.OFFSETS: CommitOffsets,
}


def _reported(code: int) -> int:
    """The code to report for a partition that took nothing in time. A missing topic and damaged batches keep their
    code; any other code is reported as a partition that did not answer."""
    return code if code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.CORRUPT_MESSAGE) else OUT_OF_TIME
