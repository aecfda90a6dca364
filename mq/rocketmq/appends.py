"""Appends for the frontends: what waits for a queue goes out together while another batch is on its way.

A batch is stored wholly or not at all. An append for several queues, or for more than a request holds, is several
batches: if one is stored and a later one fails, the future raises QueueUnavailable, and what is stored stays. Unknown
topics and partitions, and records that are too large, are refused before anything is sent.

`accepted_at` is the time at which the broker stored a record. The answer to a send does not contain it, so it is read
from the message in the commit log (`stamps`): one more request for a whole batch.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from threading import Condition, Event
from uuid import uuid4

from delayline.clock import Clock
from delayline.errors import DelaylineError, MalformedRecord
from delayline.process import threads
from mq.contract import Append, Position
from mq.errors import QueueClosed, QueueUnavailable, RecordTooLarge
from mq.rocketmq import trouble
from mq.rocketmq.body import ACCEPTED_BYTES_MAX, BATCH_BYTES_MAX, Identity, chunks, member_bytes, to_member
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.log_ends import LogEnds
from mq.rocketmq.sent import as_sent, sys_flag_of
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.stamps import first_place
from rocketmq.client.broker import BrokerRequests, Sent
from rocketmq.errors import InvalidRequest, RocketmqError
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.bodies import Queue
from rocketmq.wire.codes import Answer
from rocketmq.wire.stored import StoredMessage

BACKLOG_BYTES_MAX = 64 << 20
"""Of records that wait to be sent; more are refused."""
BATCH_RECORDS_MAX = 1000
BUSY_S = 5.0
BUSY_PAUSE_S = 0.02
LEAVE_S = 10.0
IDLE_S = 1.0


@dataclass(slots=True)
class _Wanted:
    """An append, with its future."""

    records: Sequence[Append]
    future: "Future[list[Position]]"
    positions: list[Position | None]
    left: int = 0
    failure: Exception | None = None

    def ended(self, failure: Exception | None) -> None:
        """One of its portions has."""
        self.left -= 1
        self.failure = self.failure or failure
        if self.left:
            return
        if self.failure is not None:
            self.future.set_exception(self.failure)
        else:
            self.future.set_result([position for position in self.positions if position is not None])


@dataclass(slots=True)
class _Portion:
    """Of an append, what goes into one batch of a queue; `indexes` are those of its records."""

    wanted: _Wanted
    members: list[BatchMember]
    indexes: list[int]
    bytes: int
    since_s: float
    is_alone: bool = False

    @property
    def sys_flag(self) -> int:
        """With which its members are delivered."""
        return sys_flag_of(self.members[0])


@dataclass(slots=True)
class _Line:
    """What waits for a queue."""

    queue: Queue
    portions: deque[_Portion] = field(default_factory=deque)
    is_sending: bool = False
    not_before_s: float = 0.0


class Appends:
    """Any thread may append; one thread sends."""

    def __init__(
        self,
        settings: RocketmqSettings,
        cluster: RocketmqCluster,
        requests: BrokerRequests,
        clock: Clock,
        ends: LogEnds,
    ) -> None:
        self._bytes_max = settings.record_bytes_max
        self._names, self._wire_names = settings.names, settings.wire_names
        process = uuid4().hex
        self._unique = (f"{process}.{number}".encode() for number in count())
        self._cluster = cluster
        self._requests = requests
        self._clock = clock
        self._ends = ends
        self._changed = Condition()
        self._new: deque[_Wanted] = deque()  # bounded by BACKLOG_BYTES_MAX
        self._answered: deque[tuple[_Line, list[_Portion], Future[Sent]]] = deque()
        self._lines: dict[Queue, _Line] = {}  # bounded by the queues there are
        self._bytes = 0
        self._closing = Event()
        self._thread = threads.lasting("rocketmq-append", self._run, self._closing)
        self._thread.start()

    def append(self, records: Sequence[Append]) -> "Future[list[Position]]":
        """See `mq.contract.Client.append`. Does not block."""
        future: Future[list[Position]] = Future()
        future.set_running_or_notify_cancel()
        size = sum(len(record.body) for record in records)
        with self._changed:
            if self._closing.is_set():
                future.set_exception(QueueClosed("the queue is closed"))
            elif self._bytes + size > BACKLOG_BYTES_MAX:
                future.set_exception(QueueUnavailable(f"{self._bytes} bytes wait to be appended already"))
            elif not records:
                future.set_result([])
            else:
                self._bytes += size
                self._new.append(_Wanted(records, future, [None] * len(records)))
                self._changed.notify()
        return future

    def close(self) -> None:
        with self._changed:
            self._closing.set()
            self._changed.notify()
        self._thread.join(LEAVE_S)
        while self._new:
            self._end_whole(self._new.popleft(), QueueClosed("the queue is closed"))
        for line in self._lines.values():
            while line.portions:
                self._end(line.portions.popleft(), QueueClosed("the queue is closed"))

    # --- the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._new or self._answered or self._closing.is_set(), self._idle_s())
                new, self._new = list(self._new), deque()
                answered, self._answered = list(self._answered), deque()
            for item in answered:
                self._heed(*item)
            for wanted in new:
                self._place(wanted)
            for line in self._lines.values():
                self._send(line)

    def _idle_s(self) -> float:
        return BUSY_PAUSE_S if any(line.portions and not line.is_sending for line in self._lines.values()) else IDLE_S

    def _place(self, wanted: _Wanted) -> None:
        """Into the lines of its queues; refused wholly where one record cannot be."""
        try:
            placed = self._placed(wanted.records)
        except DelaylineError as error:
            self._end_whole(wanted, error)
            return
        except Exception as error:  # noqa: BLE001 - who waits would wait for ever
            threads.noted("rocketmq-append", error)
            self._end_whole(wanted, QueueUnavailable(repr(error)))
            return
        now_s = self._clock.monotonic_s()
        portions = [
            (queue, _Portion(wanted, members, indexes, sum(len(wanted.records[i].body) for i in indexes), now_s))
            for queue, run in placed.items()
            for members, indexes in _parts(run)
        ]
        wanted.left = len(portions)
        for queue, portion in portions:
            self._lines.setdefault(queue, _Line(queue)).portions.append(portion)

    def _placed(self, records: Sequence[Append]) -> dict[Queue, list[tuple[int, BatchMember]]]:
        """By queue, with their indexes. Hot: once per record. Raises QueueError."""
        placed: dict[Queue, list[tuple[int, BatchMember]]] = {}
        queues: dict[tuple[str, str], Queue] = {}
        now_ms = self._clock.now_ms()
        own = {topic for topic, _, _ in records if self._names.is_own(topic)}
        for index, (topic, partition, body) in enumerate(records):
            if len(body) > self._bytes_max:
                raise RecordTooLarge(f"a record of {len(body)} bytes for {topic}, the limit is {self._bytes_max}")
            queue = queues.get((topic, partition))
            if queue is None:
                queue = queues[topic, partition] = self._writable(topic, partition)
            try:
                identity = None if topic in own else Identity(next(self._unique), now_ms)
                placed.setdefault(queue, []).append((index, to_member(body, identity, ACCEPTED_BYTES_MAX)))
            except (InvalidRequest, MalformedRecord) as error:
                raise RecordTooLarge(f"a record for {topic}: {error}") from error
        return placed

    def _writable(self, topic: str, partition: str) -> Queue:
        """Brokers store what comes for a topic without the right to write: to heed it is their clients' part."""
        queue, held = self._cluster.queue_held(topic, partition)
        if not held.is_writable:
            raise QueueUnavailable(f"topic {topic!r} may not be written on {queue.broker}")
        return queue

    def _send(self, line: _Line) -> None:
        if line.is_sending or not line.portions or self._clock.monotonic_s() < line.not_before_s:
            return
        portions = _together(line.portions)
        members, sys_flag = [member for portion in portions for member in portion.members], 0
        if self._wire_names.is_delivered_to(line.queue.topic):
            members, sys_flag = as_sent(members)
        line.is_sending = True
        try:
            future = self._requests.send_batch_later(line.queue, members, sys_flag=sys_flag)
        except RocketmqError as error:
            future = Future()
            future.set_exception(error)
        future.add_done_callback(partial(self._arrived, line, portions))

    def _arrived(self, line: _Line, portions: list[_Portion], future: "Future[Sent]") -> None:
        """In the connection's thread."""
        with self._changed:
            self._answered.append((line, portions, future))
            self._changed.notify()

    def _heed(self, line: _Line, portions: list[_Portion], future: "Future[Sent]") -> None:
        line.is_sending = False
        try:
            self._look_up(line.queue, portions, future.result())
        except RocketmqError as error:
            self._failed(line, portions, error)

    def _failed(self, line: _Line, portions: list[_Portion], error: RocketmqError) -> None:
        """What was certainly not stored is sent again where that may help: by and by, or each by itself."""
        now_s = self._clock.monotonic_s()
        if trouble.is_busy(error) and now_s - portions[0].since_s < BUSY_S:
            line.portions.extendleft(reversed(portions))
            line.not_before_s = now_s + BUSY_PAUSE_S
        elif trouble.is_refused(error) and len(portions) > 1:
            for portion in portions:
                portion.is_alone = True
            line.portions.extendleft(reversed(portions))
        else:
            for portion in portions:
                self._end(portion, trouble.queue_error(error, f"appending to {line.queue.topic}"))

    def _look_up(self, queue: Queue, portions: list[_Portion], sent: Sent) -> None:
        """When it was stored. Raises RocketmqError."""
        offset = sent.answer.queue_offset
        records = sum(len(portion.members) for portion in portions)
        self._cluster.stored(queue, offset + records)
        if sent.code != Answer.SUCCESS:
            # A replica that becomes the master, or a machine that fails, may lose it, and its sender relied on it.
            safety = f"stored in {queue.topic}, and less safely than its broker is set to: code {sent.code}"
            for portion in portions:
                self._end(portion, QueueUnavailable(safety))
            return
        self._ends.stored(queue, offset, records)

        def seen(future: "Future[StoredMessage]") -> None:
            try:
                stored_ms = future.result().stored_ms
            except RocketmqError as error:
                for portion in portions:
                    self._end(portion, QueueUnavailable(f"stored in {queue.topic}, and it is unknown when: {error}"))
                return
            self._stored(queue, portions, offset, stored_ms)

        self._requests.view_later(queue, first_place(sent)).add_done_callback(seen)

    def _stored(self, queue: Queue, portions: list[_Portion], offset: int, stored_ms: int) -> None:
        for portion in portions:
            for index in portion.indexes:
                topic, partition, _ = portion.wanted.records[index]
                portion.wanted.positions[index] = Position(topic, partition, offset, stored_ms)
                offset += 1
            self._end(portion, None)

    def _end(self, portion: _Portion, failure: Exception | None) -> None:
        with self._changed:
            self._bytes -= portion.bytes
        portion.wanted.ended(failure)

    def _end_whole(self, wanted: _Wanted, failure: Exception) -> None:
        with self._changed:
            self._bytes -= sum(len(record.body) for record in wanted.records)
        wanted.future.set_exception(failure)


def _parts(run: list[tuple[int, BatchMember]]) -> Iterator[tuple[list[BatchMember], list[int]]]:
    """As large as a request may be."""
    indexes = iter([index for index, _ in run])
    for chunk in chunks([member for _, member in run]):
        yield chunk, [next(indexes) for _ in chunk]


def _together(portions: deque[_Portion]) -> list[_Portion]:
    """Taken from the front: what fits into one request."""
    taken = [portions.popleft()]
    room = BATCH_BYTES_MAX // 2 - _bytes(taken[0])
    count = len(taken[0].members)
    while portions and not (taken[0].is_alone or portions[0].is_alone):
        size = _bytes(portions[0])
        count += len(portions[0].members)
        if size > room or count > BATCH_RECORDS_MAX or portions[0].sys_flag != taken[0].sys_flag:
            break
        room -= size
        taken.append(portions.popleft())
    return taken


def _bytes(portion: _Portion) -> int:
    return sum(map(member_bytes, portion.members))
