"""Transactions over the protocol itself: the I/O around `kafkawire.client.transaction`.

One thread, which waits: for all leaders at once while records are written, and else for one answer at a time. With
implicit partitions a commit takes three round trips: the records, the offsets, the end.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import KafkaError, TopicPartition

from delayline.clock import Clock
from delayline.process import logs
from kafkawire.batch.head import Codec
from kafkawire.client import steps
from kafkawire.client.blocking import Connection
from kafkawire.client.metadata import GROUP, TRANSACTION, Nodes
from kafkawire.client.steps import (
    NO_ANSWER,
    OUT_OF_TIME,
    Begin,
    CommitOffsets,
    Done,
    Event,
    Expired,
    Initialise,
    Lost,
    Open,
    Place,
    Refused,
    Request,
    Step,
    Unsent,
    Write,
)
from kafkawire.client.transaction import Machine, State
from kafkawire.protocol.errors import (
    AnswerLost,
    ErrorCode,
    Malformed,
    PeerError,
    TopicMissing,
    Unreachable,
    UnsupportedVersion,
)
from kafkawire.protocol.message import Message
from kafkawire.protocol.messages.produce import ProducedPartition, ProduceResponse
from mq.errors import CommitUnknown, QueueUnavailable
from mq.kafka.admin.limits import Limits
from mq.kafka.data_path.exchange import (
    SPOKEN,
    Member,
    Terms,
    event_of,
    message_of,
    produce,
    produced,
    speaks_implicit,
)
from mq.kafka.data_path.finishing import OFFSETS_TOPIC, Finisher
from mq.kafka.data_path.outgoing import OutgoingBatch, batches_of, rounds_of
from mq.kafka.data_path.patience import Patience
from mq.kafka.data_path.sends import Aborted, Bulk, Send
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.producers import Failure
from mq.kafka.settings import KafkaSettings

LATE_S = 1.0
"""What an answer may take beyond the time that the broker was given for it."""

log = logs.get(__name__)


class WireTransactions:
    """One transaction after the other, under one transactional id. One thread at a time. `pause` waits for so many
    seconds; true means that nothing is to be waited for any more, as `Event.wait` does of an event that is set when
    the process stops."""

    def __init__(
        self,
        settings: KafkaSettings,
        transactional_id: str,
        nodes: Nodes,
        codec: Codec,
        limits: Limits,
        clock: Clock,
        pause: Callable[[float], object],
        finisher: Finisher,
    ) -> None:
        self._settings = settings
        self._nodes = nodes
        self._codec = codec
        self._limits = limits
        self._clock = clock
        self._pause = pause
        self._finisher = finisher
        self._machine = Machine()
        self._connections: dict[int, Connection] = {}  # bounded by the cluster's nodes
        self._nothing = Terms(transactional_id, int(settings.transaction_timeout_s * 1000))
        self._terms = self._nothing
        self._batches: Sequence[OutgoingBatch] = ()
        self._patience = Patience(settings, clock)
        self._detail = ""  # what went wrong last, in words
        self._lacking = ""  # which broker does not speak what is needed
        self._lost_sight = False  # of a broker, or of who leads what, since our last transaction was looked for

    def open(self) -> None:
        """Be ready: aborts what an earlier producer of this id has left open. Raises Aborted."""
        self._open(self._settings.request_timeout_s)

    def close(self) -> None:
        """Let go; what is open is left to its timeout, or to the next producer of this id."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._machine = Machine()

    def run(
        self, sends: Iterable[Send | Bulk], offsets: Sequence[TopicPartition] = (), metadata: bytes | None = None
    ) -> None:
        """Write the records and commit the group's offsets, all or nothing; `metadata` is the group's member as
        librdkafka describes it. Raises Aborted, CommitUnknown."""
        self._detail = self._lacking = ""
        self.open()
        if self._has_lost_sight():
            self._recover()
        self._batches = batches_of(sends, self._clock.now_ms(), self._limits, self._codec)
        self._terms = self._nothing._replace(batches=[batch.records for batch in self._batches], offsets=offsets)
        if offsets and metadata is not None:
            self._terms = self._terms._replace(member=Member.of(metadata))
        begin = Begin([(batch.place, batch.records.record_count) for batch in self._batches], bool(offsets))
        try:
            self._require_heard()
            outcome = self._drive(begin)
        finally:
            self._batches, self._terms = (), self._nothing
        match outcome:
            case steps.Aborted(code):
                aborted = self._aborted(outcome)
                if code not in (NO_ANSWER, OUT_OF_TIME, ErrorCode.CONCURRENT_TRANSACTIONS):
                    self._end(aborted.error)
                raise aborted
            case steps.Unknown(code):
                unknown = CommitUnknown(f"the transaction's end is not known: {self._error(code).str()}")
                self._end(None)
                raise unknown

    def _open(self, within_s: float) -> None:
        if self._machine.state is State.READY:
            return
        self._detail = self._lacking = ""
        self._patience.begin()
        self._recover()
        outcome = self._drive(Open(), within_s)
        if isinstance(outcome, steps.Aborted):
            raise self._aborted(outcome)

    def _has_lost_sight(self) -> bool:
        """Whether markers of the last transaction may be lost: then they are written before anything else is, for
        another transaction would end what stands open there in its own way."""
        alive = [connection.is_alive() for connection in self._connections.values()]
        return self._lost_sight or not all(alive)

    def _recover(self) -> None:
        """Raises Aborted."""
        try:
            is_fenced = self._finisher.recover(self._nothing.transactional_id)
        except QueueUnavailable as error:
            raise Aborted(KafkaError(NO_ANSWER, str(error))) from error
        self._lost_sight = False
        if is_fenced and self._machine.state is State.READY:
            self._machine = Machine()
            self._open(self._settings.request_timeout_s)

    def _require_heard(self) -> None:
        """Nothing is written where a partition has not heard of an earlier transaction's end: that one would share
        this one's. Raises Aborted."""
        if self._unheard():
            self._recover()
        if unheard := self._unheard():
            error = KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, "it has not heard yet how an earlier transaction ended"
            )
            raise Aborted(error, [Failure(*place, error) for place in sorted(unheard)])

    def _unheard(self) -> set[Place]:
        group = self._terms.member.group if self._terms.offsets else None
        found = self._finisher.unheard(self._terms.transactional_id, group)
        return {
            place
            for place in found
            if place[0] == OFFSETS_TOPIC or any(batch.place == place for batch in self._batches)
        }

    def _end(self, why: KafkaError | None) -> None:
        """End what is open now, if the brokers can be reached: until then readers wait for it, and offsets cannot be
        read. Else it ends by its timeout, or with the next open. A fenced producer leaves it to the new owner."""
        if why is None or not trouble.fenced(why):
            try:
                self._open(self._settings.request_timeout_s / 2)
            except Aborted as aborted:
                log.debug("what was cut off is still open", detail=str(aborted))

    # --- the machine and its requests

    def _drive(self, event: Event, within_s: float = 0.0) -> steps.Outcome | None:
        """Until the machine has come to something. Whatever is left unanswered then must not be heard any more."""
        todo = self._machine.advance(event)
        try:
            while todo:
                events = self._carry_out(todo, within_s)
                todo = []
                for one in events:
                    todo += self._machine.advance(one)
                    if self._machine.outcome is not None:
                        return self._machine.outcome
        finally:
            self._hang_up()
        return self._machine.outcome

    def _hang_up(self) -> None:
        for node, connection in list(self._connections.items()):
            if connection.in_flight or not connection.is_open:
                connection.close()
                del self._connections[node]
                self._lost_sight = True

    def _carry_out(self, todo: Sequence[Step], within_s: float) -> list[Event]:
        self._patience.enter(self._machine.state, within_s)
        if any(step.again for step in todo):
            if self._patience.left_s() <= 0:
                return [Expired()]
            for step in todo:
                if step.elsewhere:
                    self._forget(step.request)
            if self._pause(self._patience.next_wait_s()):
                return [Expired()]
        requests = [step.request for step in todo]
        writes = [request for request in requests if isinstance(request, Write)]
        return self._write(writes) if writes else [self._ask(request) for request in requests]

    def _forget(self, request: Request) -> None:
        if isinstance(request, Write):
            self._nodes.forget(request.place[0])
            self._lost_sight = True
        else:
            self._nodes.forget_coordinator(*self._coordinated_by(request))

    def _coordinated_by(self, request: Request) -> tuple[int, str]:
        if isinstance(request, CommitOffsets):
            return GROUP, self._terms.member.group
        return TRANSACTION, self._terms.transactional_id

    # --- brokers

    def _node(self, request: Request) -> int:
        """Who serves it. Raises PeerError, but not AnswerLost: it has not been sent yet."""
        with _only_looking():
            if isinstance(request, Write):
                return self._nodes.leader(*request.place)
            return self._nodes.coordinator(*self._coordinated_by(request))

    def _connection(self, node: int) -> Connection:
        """Raises PeerError, but not AnswerLost."""
        found = self._connections.get(node)
        if found is not None and not found.in_flight and found.use_until_s < self._clock.monotonic_s():
            found.close()
        if found is None or not found.is_open:
            with _only_looking():
                found = self._connections[node] = self._nodes.connect(node)
        return found

    def _send(self, node: int, request: type[Request], message: Message) -> Connection:
        """The connection on which it was sent. A broker closes what is idle; that is noticed before anything leaves.
        Raises AnswerLost where it may have arrived, another PeerError where it has not left."""
        spoken = SPOKEN[request]
        oldest, newest = spoken.implicit if self._machine.implicit else spoken.explicit
        for is_new in (False, True):
            connection = self._connection(node)
            try:
                connection.send(message, connection.version(spoken.api, newest, oldest))
                break
            except Unreachable:
                if is_new:
                    raise
        return connection

    def _answer_within_s(self) -> float:
        return max(0.0, min(self._patience.left_s(), self._settings.request_timeout_s)) + LATE_S

    def _unsent(self, request: Request, error: PeerError) -> Event:
        """A broker that is too old is not waited for: it refuses, though the error is ours."""
        if isinstance(error, UnsupportedVersion):
            self._lacking = f"{error}; a worker needs brokers from Kafka 3.0 on"
            return Refused(request, ErrorCode.UNSUPPORTED_VERSION)
        self._detail = str(error)
        return Unsent(request)

    def _lost(self, request: Request, error: PeerError) -> Event:
        """Of what changes nothing for good before the end, the time that was given counts more than a lost answer."""
        self._detail = str(error)
        return Expired() if self._patience.is_before_end and self._patience.left_s() <= 0 else Lost(request)

    # --- a request to a coordinator

    def _ask(self, request: Request) -> Event:
        try:
            connection = self._send(self._node(request), type(request), message_of(request, self._terms))
        except AnswerLost as error:
            return self._lost(request, error)
        except PeerError as error:
            return self._unsent(request, error)
        try:
            answer = connection.receive(SPOKEN[type(request)].answer, self._answer_within_s())
        except AnswerLost as error:
            return self._lost(request, error)
        implicit = isinstance(request, Initialise) and speaks_implicit(connection)
        event = event_of(request, answer, self._terms, implicit)
        if isinstance(event, Refused):
            self._note(request, event.code, "")
        return event

    # --- batches, to their leaders

    def _write(self, writes: Sequence[Write]) -> list[Event]:
        """One message for each leader, with a batch of each of its partitions, and another one where partitions have
        several; all are sent before the first answer is waited for."""
        events: list[Event] = []
        sent: list[tuple[Connection, list[Write]]] = []
        for node, group in self._by_leader(writes, events).items():
            for together in rounds_of(group, self._batches):
                try:
                    timeout_ms = int(1000 * max(0.0, min(self._patience.left_s(), self._settings.request_timeout_s)))
                    sent.append((self._send(node, Write, produce(together, self._terms, timeout_ms)), together))
                except AnswerLost as error:
                    return [*events, self._lost(together[0], error)]
                except PeerError as error:
                    events += [self._unsent(write, error) for write in together]
        for connection, together in sent:
            try:
                answer = connection.receive(ProduceResponse, self._answer_within_s())
                events += [self._heard(write, found) for write, found in produced(together, answer)]
            except (AnswerLost, Malformed) as error:
                return [*events, self._lost(together[0], error)]
        return events

    def _by_leader(self, writes: Iterable[Write], events: list[Event]) -> dict[int, list[Write]]:
        groups: dict[int, list[Write]] = {}
        for write in writes:
            try:
                groups.setdefault(self._node(write), []).append(write)
            except TopicMissing as error:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                self._note(write, code, str(error))
                events.append(Refused(write, code))
            except PeerError as error:
                events.append(self._unsent(write, error))
        return groups

    def _heard(self, write: Write, found: ProducedPartition) -> Event:
        if found.error_code:
            self._note(write, found.error_code, found.error_message or "")
            return Refused(write, found.error_code)
        by_broker_ms = found.log_append_time_ms
        for at, stamp_ms, notify in self._batches[write.number].heard:
            notify(found.base_offset + at, stamp_ms if by_broker_ms < 0 else by_broker_ms)
        return Done(write)

    def _note(self, request: Request, code: int, detail: str) -> None:
        """The text of a refusal beside its number."""
        self._detail = detail
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._patience.misses_topic()
        if code == ErrorCode.MESSAGE_TOO_LARGE and isinstance(request, Write):
            self._limits.refused(request.place[0])

    # --- how it is reported in the end

    def _aborted(self, outcome: steps.Aborted) -> Aborted:
        failures = [Failure(*place, self._error(code, of_place=True)) for place, code in outcome.refused]
        return Aborted(failures[0].error if failures else self._error(outcome.code), failures)

    def _error(self, code: int, *, of_place: bool = False) -> KafkaError:
        """A record without an answer is librdkafka's _MSG_TIMED_OUT, which shows nothing about whose fault it is."""
        if of_place and code == OUT_OF_TIME:
            code = KafkaError._MSG_TIMED_OUT
        text, detail = KafkaError(code).str(), self._detail
        if code == ErrorCode.UNSUPPORTED_VERSION:
            detail = self._lacking or detail
        return KafkaError(code, f"{text} ({detail})" if detail else text)


@contextmanager
def _only_looking() -> Iterator[None]:
    """An answer that is lost here concerns no record. Raises Unreachable instead."""
    try:
        yield
    except AnswerLost as error:
        raise Unreachable(str(error)) from error
