"""What a caller can ask a local queue for. Each step is placed wholly or refused wholly, by one thread at a time."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import count
from os import urandom
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from delayline.buffer.cursor import Cursor
from delayline.errors import DelaylineError
from delayline.records.message import Shard
from mq.contract import Append, Position
from mq.errors import CommitUnknown, Fenced, QueueUnavailable, TooManyTopics, TopicBusy, TopicExists, TopicUnknown
from mq.local.group import Group, Placed
from mq.local.ledger import Ledger, Worker
from mq.local.storage import Storage
from mq.local.topic import Partition, Topic

T_co = TypeVar("T_co", covariant=True)


class Step(ABC):
    """One request. It ends once, with `finish`, `refuse` or `fail`; it cannot be cancelled, because what has been
    asked for may be under way already."""

    records = 0
    """How many records wait in it, and their bytes: what the backlog of clients' appends is bounded by."""
    bytes = 0

    def __init__(self, ended: Callable[[Any], None]) -> None:
        """`ended` is called with the result, or with the error."""
        self._ended = ended
        self.is_ended = False

    @abstractmethod
    def place(self, ledger: Ledger, group: Group) -> None:
        """Check the step against everything placed before it, then add it. Raises what the caller will get; nothing
        has been added then."""

    @abstractmethod
    def result(self) -> object:
        """What the caller gets, now that the group is durable and visible."""

    def finish(self) -> None:
        """The group is durable and visible."""
        self._end(self.result())

    def refuse(self, error: Exception) -> None:
        """The caller gets the error."""
        self._end(error)

    def _end(self, outcome: object) -> None:
        self.is_ended = True
        self._ended(outcome)

    def fail(self, reason: str) -> None:
        """The queue broke: whether the step was carried out is unknown."""
        self.refuse(QueueUnavailable(reason))


class AwaitedStep(Step, Generic[T_co]):
    """One that a thread may wait for."""

    def __init__(self) -> None:
        self.future: Future[T_co] = Future()
        self.future.set_running_or_notify_cancel()
        super().__init__(partial(complete, self.future))

    @abstractmethod
    def result(self) -> T_co:
        """See `Step.result`."""


def complete(future: "Future[Any]", outcome: object) -> None:
    """With a result, or with an error."""
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class AppendStep(Step):
    """Records of a client; `runs` are the same records by partition, in order. Hot: once per send. Without a future,
    which costs 10 us: who asked hears of the end by a call."""

    def __init__(
        self,
        appends: Sequence[Append],
        runs: dict[tuple[str, str], tuple[Partition, list[bytes]]],
        ended: Callable[[list[Position] | BaseException], None],
    ) -> None:
        super().__init__(ended)
        self.records = len(appends)
        self.bytes = sum(len(body) for _, bodies in runs.values() for body in bodies)
        self._appends = appends
        self._runs = runs
        self._placed: dict[tuple[str, str], Placed] = {}

    def place(self, ledger: Ledger, group: Group) -> None:
        if group.full is not None:
            raise QueueUnavailable(group.full)
        for partition, _ in self._runs.values():
            if partition.topic.deleted:
                raise TopicUnknown(f"there is no topic {partition.topic.name!r}")
        for key, (partition, bodies) in self._runs.items():
            self._placed[key] = group.append(partition, bodies)

    def result(self) -> list[Position]:
        """Hot: about 0.5 us per record."""
        if len(self._placed) == 1:
            ((topic, name), (base, at_ms)) = next(iter(self._placed.items()))
            return [Position(topic, name, offset, at_ms) for offset in range(base, base + self.records)]
        offsets = {key: count(placed.base_offset) for key, placed in self._placed.items()}
        return [
            Position(topic, name, next(offsets[topic, name]), self._placed[topic, name].appended_at_ms)
            for topic, name, _ in self._appends
        ]


class Run(NamedTuple):
    """Records of a worker for one partition; `times_ms` None: all at the moment of the commit."""

    partition: Partition
    bodies: Sequence[bytes]
    times_ms: Sequence[int | None] | None = None


class Progress(NamedTuple):
    """A shard's next cursor. `alone`: nothing else of the shard is in the commit, so that it may be a claim."""

    shard: Shard
    partition: Partition
    cursor: Cursor
    alone: bool


class CommitStep(AwaitedStep[None]):
    """One dispatch batch. Refused wholly where one of its shards has another owner."""

    def __init__(self, worker: Worker, progress: Sequence[Progress], runs: Sequence[Run]) -> None:
        super().__init__()
        self._worker = worker
        self._progress = progress
        self._runs = runs

    def place(self, ledger: Ledger, group: Group) -> None:
        if fenced := [item.shard for item in self._progress if not self._owns(ledger, item)]:
            raise Fenced(fenced)
        for partition, bodies, times_ms in self._runs:
            group.append(partition, bodies, times_ms)
        for item in self._progress:
            ledger.place_cursor(group, item.partition, item.cursor)

    def _owns(self, ledger: Ledger, item: Progress) -> bool:
        if item.partition.topic.deleted:
            return False
        return ledger.worker is self._worker and ledger.accepts(item.partition, item.cursor, claim=item.alone)

    def result(self) -> None:
        return None

    def fail(self, reason: str) -> None:
        self.refuse(CommitUnknown(reason))


class CreateStep(AwaitedStep[Topic]):
    """Make a topic where there is none of that name, with `first_body` as the first record of every partition.

    A full disk does not refuse it: topics are few and small, and what waits needs its dead-letter topic."""

    def __init__(
        self, name: str, partitions: int, topics_max: int, first_body: bytes | None = None, *, new: bool = False
    ) -> None:
        """`new`: one that is there already is refused."""
        super().__init__()
        self._new = new
        self._name = name
        self._partitions = partitions
        self._topics_max = topics_max
        self._first_body = first_body
        self._topic: Topic | None = None

    def place(self, ledger: Ledger, group: Group) -> None:
        self._topic = current(ledger, group, self._name)
        if self._topic is not None and self._new:
            raise TopicExists(f"there is a topic {self._name!r} already")
        if self._topic is None:
            self._topic = self._make(ledger, group)

    def _make(self, ledger: Ledger, group: Group) -> Topic:
        if len(ledger.topics) + len(group.topics) - len(group.deletes) >= self._topics_max:
            raise TooManyTopics(
                f"topic {self._name!r} is not made: the queue has {self._topics_max} topics, its limit (topics.max)"
            )
        topic = group.topics[self._name] = ledger.new_topic(self._name, urandom(16), self._partitions)
        if self._first_body is not None:
            for partition in topic.partitions:
                group.append(partition, [self._first_body])
        return topic

    def result(self) -> Topic:
        assert self._topic is not None  # placed
        return self._topic


class DeleteStep(AwaitedStep[None]):
    """Delete a topic and its buffer, where nothing waits in it. Appends and commits are placed by the same thread, so
    nothing can come in between."""

    def __init__(self, name: str, buffer: str) -> None:
        super().__init__()
        self._name = name
        self._buffer = buffer

    def place(self, ledger: Ledger, group: Group) -> None:
        topic, buffer = current(ledger, group, self._name), current(ledger, group, self._buffer)
        if topic is None:
            raise TopicUnknown(f"there is no topic {self._name!r}")
        if self._name in group.topics or self._buffer in group.topics:
            raise TopicBusy(f"topic {self._name!r} is only just being made")
        if buffer is not None and (waiting := sum(_open(ledger, group, part) for part in buffer.partitions)):
            raise TopicBusy(f"topic {self._name!r}: {waiting} records of its buffer are not done with")
        for gone in (topic, buffer):
            if gone is not None:
                gone.deleted = True
                group.deletes.append(gone)

    def result(self) -> None:
        return None


def current(ledger: Ledger, group: Group, name: str) -> Topic | None:
    """The topic as it will be behind what is placed."""
    found = group.topics.get(name) or ledger.topics.get(name)
    return None if found is None or found.deleted else found


def _open(ledger: Ledger, group: Group, partition: Partition) -> int:
    """How many records of a buffer may still wait: those that the cursor's low offset has not passed."""
    data = group.cursors.get(partition) or ledger.cursors.get(partition)
    done = partition.start if data is None else Cursor.decode(data).low_offset
    return max(0, partition.next_offset - done)


class TrimStep(AwaitedStep[None]):
    """Give back the room below an offset that readers cannot reach any more."""

    def __init__(self, partition: Partition, low_offset: int) -> None:
        super().__init__()
        self._partition = partition
        self._low_offset = low_offset

    def place(self, ledger: Ledger, group: Group) -> None:
        if not self._partition.topic.deleted:
            group.trims[self._partition] = max(self._low_offset, group.trims.get(self._partition, 0))

    def result(self) -> None:
        return None


class Barrier(AwaitedStep[None]):
    """Nothing: done when everything asked for before it is done."""

    def place(self, ledger: Ledger, group: Group) -> None:
        return None

    def result(self) -> None:
        return None


class Committer(Protocol):
    """Carries out steps, in the order in which they are handed in."""

    def submit(self, step: AwaitedStep[T_co]) -> "Future[T_co]":
        """The step's future. Where the queue has failed, it has failed already."""

    def submit_all(self, steps: Sequence[Step]) -> None:
        """Several at once. Where the queue has failed or its backlog is full, they have ended when this returns."""

    def close(self) -> None:
        """Finish what was handed in; refuse what comes later."""


def carry_out(steps: Sequence[Step], ledger: Ledger, storage: Storage, now_ms: int) -> list[Step]:
    """Place the steps, make them durable, show them; those to `finish` now. Refused ones have their answer.

    Any exception means that the disk's state is unknown (`Storage.write`)."""
    group = Group(now_ms, storage.full())
    placed = [step for step in steps if _placed(step, ledger, group)]
    if group:
        storage.write(group)
        ledger.publish(group)
    return placed


def _placed(step: Step, ledger: Ledger, group: Group) -> bool:
    try:
        step.place(ledger, group)
    except DelaylineError as error:
        step.refuse(error)
        return False
    return True
