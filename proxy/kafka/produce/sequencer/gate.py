"""One producer id in one partition on one connection: the rule of the package's docstring, as a state machine."""

from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import ClassVar

from delayline.errors import Bug
from kafkawire.protocol.errors import ErrorCode
from proxy.kafka.produce.sequencer.codes import AMBIGUOUS, LOST_TRACK, MAY_PROBE, OF_THE_PRODUCER, RETRIABLE, TAKEN
from proxy.kafka.produce.sequencer.events import (
    SEQUENCES,
    Answer,
    Ask,
    AskAnswered,
    AskFailed,
    Batch,
    BufferAnswered,
    Close,
    Event,
    LogRole,
    Output,
    ProbeTarget,
    SendBuffer,
    SendTarget,
    TargetAnswered,
)
from proxy.kafka.produce.sequencer.known import Known, distance

ASK_ROUNDS_MAX = 8
"""How often T and B are asked again because B moved meanwhile: writes of a dead connection are five at most."""


class _Step(Enum):
    """What the head waits for."""

    ASK_BUFFER = auto()  # begin -> B's state
    ASK_TARGET = auto()  # -> T's state
    ASK_AGAIN = auto()  # -> B's state once more; -> ASK_TARGET if it moved, else judged
    PROBE_TO_WRITE = auto()  # judged, all delayed: T's word -> BUFFER
    PROBE_TO_CONFIRM = auto()  # judged, all there: T's word -> done
    PROBE_TO_REFUSE = auto()  # judged, refused: T's word -> done
    TARGET = auto()  # judged: T's answer to its part -> BUFFER, or done if there is no other part
    BUFFER = auto()  # B's answer to its part -> done


class Gate:
    """The batches of one producer id in one partition, on one connection."""

    def __init__(self) -> None:
        self._epoch = -1
        self._known: Known | None = None
        self._waiting: deque[Batch] = deque()
        self._flying: dict[Batch, None] = {}
        self._head: Batch | None = None
        self._step = _Step.ASK_BUFFER
        self._thorough = False
        self._rounds = 0
        self._answers: dict[LogRole, AskAnswered] = {}
        self._succeeds = False
        self._start: int | None = None
        self._first: int | None = None
        self._passed: int | None = None
        self._refusal: int = ErrorCode.NONE
        self._closed = False
        self._out: list[Output] = []

    @property
    def idle(self) -> bool:
        """Whether nothing of it is under way: then it may be forgotten."""
        return not (self._waiting or self._flying or self._head)

    def handle(self, event: Event) -> list[Output]:
        """What is to be done now. Raises Bug on an answer to no question."""
        if self._closed:
            return []
        if isinstance(event, Batch):
            self._waiting.append(event)
        elif isinstance(event, TargetAnswered) and event.batch in self._flying:
            self._flown(event)
        else:
            self._resume(event)
        while self._waiting and self._head is None and not self._closed and self._admit(self._waiting[0]):
            pass
        out, self._out = self._out, []
        return out

    # --- plain batches, in flight together

    def _admit(self, batch: Batch) -> bool:
        """Whether the batch at the head of the queue could leave it."""
        flies = self._flies(batch)
        # rule seq-head: a batch would be judged before what T still has to answer: out of order.
        if not flies and self._flying:
            return False
        self._waiting.popleft()
        if flies:
            self._flying[batch] = None
            if self._known is not None:
                self._known.extend(batch)
            self._out.append(SendTarget(batch, self._target_sequence(batch)))
        else:
            self._begin(batch)
        return True

    def _flies(self, batch: Batch) -> bool:
        """Whether T alone can judge it: with D the same before and behind it, T's order is the client's."""
        if batch.delayed or batch.refusal:
            return False
        if not batch.sequenced:
            return True
        known = self._known
        # rule seq-proven: T would judge by a state that it does not have, or that does not hold D: lost.
        if batch.epoch != self._epoch or known is None or not known.proven or known.ahead:
            return False
        # rule seq-plain: behind a delayed record D is another: T would take the batch twice, or refuse it.
        return known.plain_up_to(batch.base_sequence)

    def _flown(self, event: TargetAnswered) -> None:
        batch, known = event.batch, self._known
        del self._flying[batch]
        if batch.sequenced and known is not None:
            if event.code in TAKEN:
                known.advance(batch)
                known.proven = True
            elif event.code in AMBIGUOUS:
                known.distrust(batch)
            elif event.code in LOST_TRACK and known.is_behind_refused(batch):
                self._answer(batch, known.refused)  # and not 45, which moves librdkafka to a new epoch
                return
            elif event.code in LOST_TRACK and known.refused and not self._flying:
                self._begin(batch)
                return
            elif event.code in LOST_TRACK and batch.base_sequence == known.next and not self._flying:
                self._known = None
        self._answer(batch, event.code, verbatim=True)

    # --- the head

    def _begin(self, batch: Batch) -> None:
        self._head, self._thorough = batch, False
        if not batch.sequenced:
            self._write(batch, 0)
        elif batch.base_sequence < 0:
            self._refuse(ErrorCode.INVALID_RECORD)
        elif batch.epoch < self._epoch:
            self._refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
        else:
            self._judge_in_epoch(batch)

    def _judge_in_epoch(self, batch: Batch) -> None:
        if batch.epoch != self._epoch:
            self._succeeds = self._epoch >= 0
            # rule seq-zero: a log may hold what was sent before the connection: D = 0 would be a guess.
            begins = self._succeeds and batch.base_sequence == 0
            self._epoch, self._known = batch.epoch, Known(0, 0) if begins else None
            self._start, self._first, self._passed = None, batch.base_sequence, None
        if self._known is None:
            self._ask(batch)
        else:
            self._judge(batch, self._known)

    def _judge(self, batch: Batch, known: Known) -> None:
        known.chain = known.next
        away = distance(known.next, batch.base_sequence)
        if known.is_behind_refused(batch):
            self._refuse(known.refused)
        # rule seq-order: a batch that is out of order would be taken: lost, or there twice.
        elif away or known.doubt is not None:
            self._ask(batch, thorough=True)
        elif batch.refusal and not batch.delayed:
            self._refuse(batch.refusal)  # its records cannot be split, so none of them was ever sent
        # rule seq-there: what is written already would be written again: twice.
        elif known.ahead > batch.count and self._may_be_there(batch, known):
            self._probe(batch, _Step.PROBE_TO_CONFIRM)
        # rule seq-half: a batch of which only T has its part would be confirmed: lost.
        elif known.ahead == batch.count and self._may_be_there(batch, known):
            self._write_again(batch, known)
        # rule seq-rest: a batch of which T has its part would be refused for ever: its rest lost.
        elif batch.refusal or known.ahead in (0, batch.immediate):
            self._write(batch, known.ahead)
        else:
            self._known = None
            self._refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def _may_be_there(self, batch: Batch, known: Known) -> bool:
        """Whether each log that would hold a part of it knows the producer at all."""
        return (known.proven or not batch.immediate) and (
            not batch.delayed or self._next_of(LogRole.BUFFER) is not None
        )

    def _write_again(self, batch: Batch, known: Known) -> None:
        """If it is there, it is the last batch in both logs, which each of them recognises by its bounds; else they
        refuse it, for it does not begin at the sequence that they expect."""
        # rule seq-again: under later sequences the logs would not recognise it: there twice.
        known.buffered = (known.buffered - batch.delayed) % SEQUENCES
        known.ahead = batch.immediate
        if batch.immediate:
            self._send_target(batch)
        else:
            self._probe(batch, _Step.PROBE_TO_WRITE)

    def _write(self, batch: Batch, ahead: int) -> None:
        if batch.refusal and ahead:
            self._close(batch, "a batch half written is refused now")
        elif batch.refusal:
            self._refuse(batch.refusal)
        elif batch.immediate:
            self._send_target(batch)
        else:
            self._probe(batch, _Step.PROBE_TO_WRITE)

    def _send_target(self, batch: Batch) -> None:
        self._step = _Step.TARGET
        self._out.append(SendTarget(batch, self._target_sequence(batch)))

    def _target_sequence(self, batch: Batch) -> int:
        if not batch.sequenced or self._known is None:
            return batch.base_sequence
        # rule seq-shift: T never sees the delayed records, and would refuse the gap.
        return (batch.base_sequence - self._known.buffered) % SEQUENCES

    def _write_buffer(self, batch: Batch) -> None:
        self._step = _Step.BUFFER
        base_sequence = self._known.buffered if batch.sequenced and self._known else batch.base_sequence
        self._out.append(SendBuffer(batch, base_sequence))

    # --- what the head is answered

    def _resume(self, event: Event) -> None:
        if event.batch is not self._head:  # type: ignore[union-attr]  # a Batch never comes here
            raise Bug(f"an answer to nothing: {event}")
        if isinstance(event, AskFailed) and self._step in self._ASKING:
            self._close(event.batch, "the producer's state could not be asked for")
        elif isinstance(event, AskAnswered) and self._ASKING.get(self._step) is event.side:
            self._hear(event)
        elif isinstance(event, TargetAnswered) and self._step in self._ON_TARGET:
            self._ON_TARGET[self._step](self, event.batch, event.code)
        elif isinstance(event, BufferAnswered) and self._step is _Step.BUFFER:
            self._buffer_answered(event.batch, event.code)
        else:
            raise Bug(f"{event} while waiting for {self._step.name}")

    def _target_answered(self, batch: Batch, code: int) -> None:
        known = self._known
        if code in TAKEN:
            self._target_taken(batch, known)
        elif known is None:
            self._answer(batch, code, verbatim=True)
        elif code in LOST_TRACK and not self._thorough:
            self._ask(batch, thorough=True)
        elif (known.ahead and code in RETRIABLE) or (batch.delayed and code in AMBIGUOUS):
            self._close(batch, f"the target answered {code} to a batch that may be half written")
        else:
            self._target_refused(batch, code, known)

    def _target_taken(self, batch: Batch, known: Known | None) -> None:
        if known is not None:
            known.ahead, known.proven = batch.immediate, True
        if batch.delayed:
            self._write_buffer(batch)
        else:
            self._done(batch, verbatim=True)

    def _target_refused(self, batch: Batch, code: int, known: Known) -> None:
        if code in LOST_TRACK:
            self._known = None
        elif code in AMBIGUOUS:
            known.distrust(batch)
        self._answer(batch, code, verbatim=True)

    def _probed_to_write(self, batch: Batch, code: int) -> None:
        if code in MAY_PROBE:
            self._write_buffer(batch)
        else:
            self._answer(batch, code, verbatim=True)

    def _probed_to_confirm(self, batch: Batch, code: int) -> None:
        known = self._known
        if known is None:
            raise Bug("nothing known of a batch to be confirmed")
        if code in MAY_PROBE:
            known.ahead -= batch.count
            known.advance(batch)
            self._answer(batch, ErrorCode.NONE)
        elif code in RETRIABLE:
            self._close(batch, f"the target answered {code} about a batch that is written")
        else:
            self._answer(batch, code, verbatim=True)

    def _probed_to_refuse(self, batch: Batch, code: int) -> None:
        if code in MAY_PROBE:
            self._answer(batch, self._refusal)
        else:
            self._answer(batch, code, verbatim=True)

    def _buffer_answered(self, batch: Batch, code: int | None) -> None:
        if code in TAKEN:
            self._done(batch, verbatim=batch.immediate > 0)
        elif not batch.sequenced:
            self._answer(batch, _code_for_client(code))
        elif code in LOST_TRACK:
            self._buffer_lost_track(batch)
        elif batch.immediate or code is None or code in AMBIGUOUS:
            self._close(batch, f"the buffer answered {code} to a batch that may be half written")
        else:
            self._answer(batch, _code_for_client(code))

    def _buffer_lost_track(self, batch: Batch) -> None:
        if self._thorough:
            self._known = None
            self._answer(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        else:
            self._ask(batch, thorough=True)

    # --- what the brokers know

    def _ask(self, batch: Batch, *, thorough: bool = False) -> None:
        """`thorough` when what was known has been contradicted: then T is asked whatever B answers."""
        self._known, self._thorough, self._rounds, self._answers = None, thorough, 0, {}
        self._put(batch, _Step.ASK_BUFFER)

    def _put(self, batch: Batch, step: _Step) -> None:
        self._step = step
        self._out.append(Ask(batch, self._ASKING[step]))

    def _hear(self, event: AskAnswered) -> None:
        batch, before = event.batch, self._answers.get(event.side)
        self._answers[event.side] = event
        if event.other_epoch > batch.epoch:
            self._refuse(ErrorCode.INVALID_PRODUCER_EPOCH)
        elif self._step is _Step.ASK_TARGET and self._target_judges(batch) and not self._is_early(batch):
            self._conclude(batch)
        elif self._step is _Step.ASK_TARGET:
            self._put(batch, _Step.ASK_AGAIN)
        # rule seq-rest-state: B may have moved while T was asked: D would be too small, and a batch there twice.
        elif self._step is _Step.ASK_AGAIN and before is not None and event.next_sequence == before.next_sequence:
            self._conclude(batch)
        elif self._step is _Step.ASK_BUFFER and batch.base_sequence == 0 and self._target_judges(batch):
            self._known = Known(0, 0)
            self._judge(batch, self._known)
        else:
            self._ask_target(batch)

    def _target_judges(self, batch: Batch) -> bool:
        """Whether T itself will answer if the batch is there: it gets a part, and D is 0."""
        # rule seq-target: T gets no part of it and cannot know if it is there: twice.
        return not self._thorough and batch.immediate > 0 and self._next_of(LogRole.BUFFER) is None

    def _is_early(self, batch: Batch) -> bool:
        """Whether T lacks what is before the batch, if D is 0. It may not be: a part in B may have come since B was
        asked. Sent with D = 0 all the same, T would refuse it now, and take it a second time later, when the shifted
        sequence has become the next one."""
        target = self._next_of(LogRole.TARGET)
        return target is not None and distance(target, batch.base_sequence) > 0

    def _ask_target(self, batch: Batch) -> None:
        self._rounds += 1
        if self._rounds > ASK_ROUNDS_MAX:
            self._close(batch, "the producer's state does not come to rest")
        else:
            self._put(batch, _Step.ASK_TARGET)

    def _next_of(self, side: LogRole) -> int | None:
        answer = self._answers.get(side)
        return answer.next_sequence if answer else None

    def _conclude(self, batch: Batch) -> None:
        """From what both logs answer."""
        target, buffered = self._next_of(LogRole.TARGET), self._next_of(LogRole.BUFFER)
        if target is None and buffered is None:
            self._start_epoch(batch)
        elif self._start is not None and distance(self._start, batch.base_sequence) < 0:
            self._refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        else:
            self._conclude_in_epoch(batch, target, buffered)

    def _conclude_in_epoch(self, batch: Batch, target: int | None, buffered: int | None) -> None:
        """Where D is 0 T recognises what it has. Where T has forgotten the producer it takes any sequence, and so do
        we, unless only B could show whether the batch is there, or this connection knew of something that speaks
        against it."""
        forgotten = target is None and self._answers[LogRole.TARGET].other_epoch < 0 and self._may_start(batch)
        if self._target_judges(batch) and self._is_early(batch):
            ahead = -1
        elif self._target_judges(batch) or (forgotten and batch.immediate and not self._thorough):
            ahead = 0
        else:
            ahead = distance(batch.base_sequence, ((target or 0) + (buffered or 0)) % SEQUENCES)
        if ahead < 0:
            self._refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        else:
            at = batch.base_sequence
            self._known = Known(at, at, buffered or 0, ahead, proven=target is not None)
            self._judge(batch, self._known)

    def _may_start(self, batch: Batch) -> bool:
        # rule seq-begin: elsewhere something before it is missing: lost. And who goes on there would be refused.
        return batch.base_sequence in (self._first, self._passed)

    def _start_epoch(self, batch: Batch) -> None:
        """Neither log knows the epoch. It begins at 0, as Kafka demands where it knows an earlier one; in the middle
        only where nothing is known of the producer, as Kafka allows then. T's next and B's next make up the sequence
        from here on, so one of the logs begins there."""
        at = batch.base_sequence
        # rule seq-earlier: an epoch that follows another begins at 0: elsewhere what is before it would be lost.
        earlier = self._succeeds or any(answer.other_epoch >= 0 for answer in self._answers.values())
        if at and (earlier or not self._may_start(batch)):
            self._refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        else:
            self._start = at
            # rule seq-first: T's next and B's next together are the sequence: T would be sent a later one.
            self._known = Known(at, at, 0 if batch.immediate else at)
            self._judge(batch, self._known)

    # --- the end of a head

    def _probe(self, batch: Batch, step: _Step) -> None:
        self._step = step
        self._out.append(ProbeTarget(batch))

    def _refuse(self, code: int) -> None:
        if self._head is None:
            raise Bug("nothing to refuse")
        self._refusal = code
        self._probe(self._head, _Step.PROBE_TO_REFUSE)

    def _done(self, batch: Batch, *, verbatim: bool) -> None:
        if self._known is not None:
            # rule seq-D: T would refuse what follows for a gap, or at the end of the sequences.
            self._known.buffered = (self._known.buffered + batch.delayed) % SEQUENCES
            self._known.ahead = 0
            self._known.advance(batch)
        self._answer(batch, ErrorCode.NONE, verbatim=verbatim)

    def _answer(self, batch: Batch, code: int, *, verbatim: bool = False) -> None:
        if batch is self._head:
            self._head = None
        if self._known is not None and code not in TAKEN and batch.epoch == self._epoch:
            self._known.refuse(batch, code)
        if batch.epoch == self._epoch:
            self._remember(batch, code)
        if batch.acks == 0 and code not in TAKEN:
            self._close(batch, f"error {code} for a producer that takes no answers")
        else:
            self._out.append(Answer(batch, code, verbatim))

    def _remember(self, batch: Batch, code: int) -> None:
        """Where an epoch may begin in the middle: where this connection has seen it begin, and behind what the client
        knows to be refused for good. What waits behind that was sent before, and comes again."""
        if code in TAKEN:
            self._first = self._passed = None
        elif code not in RETRIABLE | LOST_TRACK:
            self._passed = None if self._waiting else batch.end

    def _close(self, batch: Batch, reason: str) -> None:
        self._closed = True
        self._out.append(Close(batch, reason))

    _ASKING: ClassVar[dict[_Step, LogRole]] = {
        _Step.ASK_BUFFER: LogRole.BUFFER,
        _Step.ASK_TARGET: LogRole.TARGET,
        _Step.ASK_AGAIN: LogRole.BUFFER,
    }
    _ON_TARGET: ClassVar[dict[_Step, "Callable[[Gate, Batch, int], None]"]] = {
        _Step.TARGET: _target_answered,
        _Step.PROBE_TO_WRITE: _probed_to_write,
        _Step.PROBE_TO_CONFIRM: _probed_to_confirm,
        _Step.PROBE_TO_REFUSE: _probed_to_refuse,
    }


def _code_for_client(code: int | None) -> int:
    return code if code in OF_THE_PRODUCER and code is not None else ErrorCode.NOT_ENOUGH_REPLICAS
