"""What brokers know of one transactional id, and what they answer.

Everything that is answered is replicated: a coordinator or leader that moves takes its state along, and is somebody
else only for the one who asks (the network's business: `tests.wire_model.play`).
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from kafkawire.protocol.errors import ErrorCode

Place = tuple[str, int]
OFFSETS: Place = ("offsets of the group", 0)

CACHED_BATCHES = 5
"""Of a producer, by which a partition recognises what it has already (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""

OK = ErrorCode.NONE


class Kind(Enum):
    """Generations of brokers."""

    UNVERIFIED = auto()  # before 3.6: partitions take what is written under an epoch that they have not seen end
    VERIFIED = auto()  # KIP-890, part 1: the leader asks the coordinator whether the partition is in the transaction
    IMPLICIT = auto()  # part 2: the leader adds it, and every end raises the epoch


class Phase(Enum):
    """Of the last transaction (TransactionState)."""

    EMPTY = auto()
    ONGOING = auto()
    PREPARE_COMMIT = auto()
    PREPARE_ABORT = auto()
    COMPLETE_COMMIT = auto()
    COMPLETE_ABORT = auto()


_COMPLETED = {Phase.PREPARE_COMMIT: Phase.COMPLETE_COMMIT, Phase.PREPARE_ABORT: Phase.COMPLETE_ABORT}


@dataclass
class Written:
    """Something in a partition. `tag` names the transaction, and the part of it."""

    tag: tuple[int, int]
    producer_id: int
    committed: bool | None = None  # None while its transaction is open


@dataclass
class _Producer:
    """What a partition remembers of a producer."""

    epoch: int
    next_sequence: int = 0
    open: bool = False
    cached: deque[int] = field(default_factory=lambda: deque(maxlen=CACHED_BATCHES))


class Partition:
    """A log, or the group's offsets, which have no sequences."""

    def __init__(self, sequenced: bool) -> None:
        self.log: list[Written] = []
        self._sequenced = sequenced
        self._producers: dict[int, _Producer] = {}

    def is_open(self, producer_id: int, epoch: int) -> bool:
        known = self._producers.get(producer_id)
        return known is not None and known.open and known.epoch == epoch

    @property
    def hangs(self) -> bool:
        return any(one.committed is None for one in self.log)

    @property
    def visible(self) -> list[tuple[int, int]]:
        return [one.tag for one in self.log if one.committed]

    def write(self, producer_id: int, epoch: int, sequence: int, count: int, tag: tuple[int, int]) -> ErrorCode:
        """Appended, or there already."""
        known = self._producers.setdefault(producer_id, _Producer(epoch))
        if epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self._sequenced:
            if epoch > known.epoch:
                known.next_sequence = 0
                known.cached.clear()
            if sequence in known.cached:
                return OK
            if sequence != known.next_sequence:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            known.next_sequence += count
            known.cached.append(sequence)
        elif any(one.tag == tag and one.committed is None for one in self.log):
            return OK
        known.epoch, known.open = epoch, True
        self.log.append(Written(tag, producer_id))
        return OK

    def mark(self, producer_id: int, epoch: int, commit: bool) -> None:
        """A marker: ends what is open, and lets nothing of an older epoch in any more."""
        known = self._producers.setdefault(producer_id, _Producer(epoch))
        if epoch > known.epoch:
            known.epoch, known.next_sequence = epoch, 0
            known.cached.clear()
        known.open = False
        for one in self.log:
            if one.producer_id == producer_id and one.committed is None:
                one.committed = commit


class Cluster:
    """`epoch_max` is where a producer id has no more epochs: 32,767, or few, so that a run gets there."""

    def __init__(self, kind: Kind, places: tuple[Place, ...], epoch_max: int) -> None:
        self.kind = kind
        self.epoch_max = epoch_max
        self.phase = Phase.EMPTY
        self.partitions = {place: Partition(True) for place in places} | {OFFSETS: Partition(False)}
        self.producer_id, self.epoch = 1, -1
        self._ended: tuple[int, int] | None = None  # whose end the last transaction was, where ends raise the epoch
        self._members: set[Place] = set()
        self._markers: list[tuple[Place, int, int, bool]] = []
        self._fencing = False  # a timeout's abort is being logged

    # --- the coordinator

    def initialise(self) -> tuple[ErrorCode, tuple[int, int]]:
        if self._fencing or self.phase in _COMPLETED:
            return ErrorCode.CONCURRENT_TRANSACTIONS, (-1, -1)
        if self.phase is Phase.ONGOING:
            self.epoch += 1
            self._prepare(commit=False)
            return ErrorCode.CONCURRENT_TRANSACTIONS, (-1, -1)
        self._raise_epoch()
        self.phase, self._ended = Phase.EMPTY, None
        return OK, (self.producer_id, self.epoch)

    def add(self, producer_id: int, epoch: int, places: tuple[Place, ...]) -> ErrorCode:
        code = self._checked(producer_id, epoch)
        if code is OK:
            if self.phase is not Phase.ONGOING:
                self._members.clear()
            self._members.update(places)
            self.phase = Phase.ONGOING
        return code

    def _checked(self, producer_id: int, epoch: int) -> ErrorCode:
        if producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED
        if self._fencing or self.phase in _COMPLETED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return OK

    def end(self, producer_id: int, epoch: int) -> ErrorCode:
        """EndTxn(commit). A repetition is known by the epoch that it raised, elsewhere by what it led to."""
        implicit = self.kind is Kind.IMPLICIT
        again = implicit and self.phase is not Phase.ONGOING and (producer_id, epoch) == self._ended
        if producer_id != self.producer_id and not again:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if epoch != self.epoch and not again:
            return ErrorCode.PRODUCER_FENCED
        if self._fencing:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if self.phase is Phase.ONGOING:
            self._ended = (producer_id, epoch)
            if implicit:
                self._raise_epoch(markers_first=True)
            self._prepare(commit=True, marker_of=(producer_id, epoch + implicit))
            return OK
        if self.phase is Phase.PREPARE_COMMIT:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if self.phase is Phase.COMPLETE_COMMIT and (again or not implicit):
            return OK
        return ErrorCode.INVALID_TXN_STATE

    def _prepare(self, *, commit: bool, marker_of: tuple[int, int] | None = None) -> None:
        producer_id, epoch = marker_of or (self.producer_id, self.epoch)
        self.phase = Phase.PREPARE_COMMIT if commit else Phase.PREPARE_ABORT
        self._markers = [(place, producer_id, epoch, commit) for place in sorted(self._members)]
        if not commit:
            self._ended = None
        if not self._markers:
            self.phase = _COMPLETED[self.phase]

    def _raise_epoch(self, *, markers_first: bool = False) -> None:
        """The last epoch of an id is kept for fencing."""
        if self.epoch >= self.epoch_max - 1:
            self.producer_id, self.epoch = self.producer_id + 1, -1
            if markers_first:  # the one who ends is given an id to go on with
                self.epoch = 0
                return
        self.epoch += 1

    # --- time

    def run_out(self) -> bool:
        """The transaction's timeout. Whether there was one to run out."""
        if self.phase is not Phase.ONGOING or self._fencing:
            return False
        self._fencing = True
        return True

    def tick(self) -> bool:
        """The next thing that brokers do among themselves. Whether there was one."""
        if self._fencing:
            self._fencing = False
            self.epoch += 1
            self._prepare(commit=False)
        elif self._markers:
            place, producer_id, epoch, commit = self._markers.pop(0)
            self.partitions[place].mark(producer_id, epoch, commit)
            if not self._markers:
                self.phase = _COMPLETED[self.phase]
        else:
            return False
        return True

    # --- leaders and the group's coordinator

    def write(
        self, place: Place, producer_id: int, epoch: int, sequence: int, count: int, tag: tuple[int, int]
    ) -> ErrorCode:
        partition = self.partitions[place]
        if not partition.is_open(producer_id, epoch):
            code = self._admitted(place, producer_id, epoch)
            if code is not OK:
                return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED else code
        return partition.write(producer_id, epoch, sequence, count, tag)

    def _admitted(self, place: Place, producer_id: int, epoch: int) -> ErrorCode:
        if self.kind is Kind.IMPLICIT:
            return self.add(producer_id, epoch, (place,))
        if self.kind is Kind.VERIFIED:
            code = self._checked(producer_id, epoch)
            if code is OK and not (self.phase is Phase.ONGOING and place in self._members):
                return ErrorCode.INVALID_TXN_STATE
            return code
        return OK
