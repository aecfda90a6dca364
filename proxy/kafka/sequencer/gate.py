"""One producer id in one partition on one connection: the rule of the package's docstring, as a state machine."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import ClassVar

from delayline.errors import Bug
from mq.kafka.wire.errors import ErrorCode
from proxy.kafka.sequencer.events import (
    SEQUENCES,
    Answer,
    Ask,
    AskFailed,
    Batch,
    BufferAnswered,
    Close,
    Event,
    Output,
    ProbeTarget,
    SendBuffer,
    SendTarget,
    Side,
    TargetAnswered,
    Told,
)

ASK_ROUNDS_MAX = 8
"""How often T and B are asked again because B moved meanwhile: writes of a dead connection are five at most."""

_TAKEN = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_MAY_PROBE = _TAKEN | {ErrorCode.INVALID_RECORD}
_AMBIGUOUS = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""The leader has appended the batch, and may lose it yet."""
_RETRIABLE = _AMBIGUOUS | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
_LOST_TRACK = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
_OF_THE_PRODUCER = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_RECORD,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Answers of B that mean the same to the client as T's would; the others are about B, which it does not know."""


@dataclass(slots=True)
class _Known:
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
        if _distance(self.next, batch.end) > 0:
            self.next = batch.end
            self.extend(batch)
        if _distance(self.refused_until, self.next) >= 0:
            self.refused = ErrorCode.NONE
        if self.doubt is not None and _distance(self.doubt, batch.end) >= 0:
            self.doubt = None

    def plain_up_to(self, sequence: int) -> bool:
        """Whether D is the same there as at `next`."""
        distance = _distance(self.next, sequence)
        return self.buffered == 0 if distance < 0 else distance <= _distance(self.next, self.chain)

    def extend(self, batch: Batch) -> None:
        """A plain batch goes to T, or all up to its end is in the logs."""
        if _distance(self.chain, batch.end) > 0:
            self.chain = batch.end

    def refuse(self, batch: Batch, code: int) -> None:
        """The client is answered an error."""
        if code in _RETRIABLE:
            if not self.refused or _distance(self.refused_until, batch.end) > 0:
                self.refused_until = batch.end
            self.refused = code
        elif batch.base_sequence == self.next:
            self.refused = ErrorCode.NONE

    def distrust(self, batch: Batch) -> None:
        """T has it without being sure of it."""
        if self.doubt is None or _distance(self.doubt, batch.end) > 0:
            self.doubt = batch.end


def _distance(start: int, end: int) -> int:
    """From `start` forward to `end`; negative where `end` is less than half the circle behind."""
    forward = (end - start) % SEQUENCES
    return forward if forward < SEQUENCES // 2 else forward - SEQUENCES


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
        self._known: _Known | None = None
        self._waiting: deque[Batch] = deque()
        self._flying: dict[Batch, None] = {}
        self._head: Batch | None = None
        self._step = _Step.ASK_BUFFER
        self._thorough = False
        self._rounds = 0
        self._told_buffer: int | None = None
        self._told_target: int | None = None
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
        if batch.epoch != self._epoch or known is None or not known.proven or known.ahead:
            return False
        return known.plain_up_to(batch.base_sequence)

    def _flown(self, event: TargetAnswered) -> None:
        batch, known = event.batch, self._known
        del self._flying[batch]
        if batch.sequenced and known is not None:
            if event.code in _TAKEN:
                known.advance(batch)
                known.proven = True
            elif event.code in _AMBIGUOUS:
                known.distrust(batch)
            elif event.code in _LOST_TRACK and known.refused and _distance(known.next, batch.base_sequence) > 0:
                self._answer(batch, known.refused)  # and not 45, which moves librdkafka to a new epoch
                return
            elif event.code in _LOST_TRACK and batch.base_sequence == known.next and not self._flying:
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
            begins = self._epoch >= 0 and batch.base_sequence == 0
            self._epoch, self._known = batch.epoch, _Known(0, 0) if begins else None
        if self._known is None:
            self._ask(batch)
        else:
            self._judge(batch, self._known)

    def _judge(self, batch: Batch, known: _Known) -> None:
        known.chain = known.next
        distance = _distance(known.next, batch.base_sequence)
        if distance > 0 and known.refused:
            self._refuse(known.refused)
        elif distance or known.doubt is not None:
            self._ask(batch, thorough=True)
        elif known.ahead >= batch.count:
            self._probe(batch, _Step.PROBE_TO_CONFIRM)
        elif batch.refusal or known.ahead in (0, batch.immediate):
            self._write(batch, known.ahead)
        else:
            self._known = None
            self._refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def _write(self, batch: Batch, ahead: int) -> None:
        if batch.refusal and ahead:
            self._close(batch, "a batch half written is refused now")
        elif batch.refusal:
            self._refuse(batch.refusal)
        elif batch.immediate:
            self._step = _Step.TARGET
            self._out.append(SendTarget(batch, self._target_sequence(batch)))
        else:
            self._probe(batch, _Step.PROBE_TO_WRITE)

    def _target_sequence(self, batch: Batch) -> int:
        if not batch.sequenced or self._known is None:
            return batch.base_sequence
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
        elif isinstance(event, Told) and self._ASKING.get(self._step) is event.side:
            self._told(event)
        elif isinstance(event, TargetAnswered) and self._step in self._ON_TARGET:
            self._ON_TARGET[self._step](self, event.batch, event.code)
        elif isinstance(event, BufferAnswered) and self._step is _Step.BUFFER:
            self._buffer_answered(event.batch, event.code)
        else:
            raise Bug(f"{event} while waiting for {self._step.name}")

    def _target_answered(self, batch: Batch, code: int) -> None:
        known = self._known
        if code in _TAKEN:
            self._target_taken(batch, known)
        elif known is None:
            self._answer(batch, code, verbatim=True)
        elif code in _LOST_TRACK and not self._thorough:
            self._ask(batch, thorough=True)
        elif (known.ahead and code in _RETRIABLE) or (batch.delayed and code in _AMBIGUOUS):
            self._close(batch, f"the target answered {code} to a batch that may be half written")
        else:
            self._target_refused(batch, code, known)

    def _target_taken(self, batch: Batch, known: _Known | None) -> None:
        if known is not None:
            known.ahead, known.proven = batch.immediate, True
        if batch.delayed:
            self._write_buffer(batch)
        else:
            self._done(batch, verbatim=True)

    def _target_refused(self, batch: Batch, code: int, known: _Known) -> None:
        if code in _LOST_TRACK:
            self._known = None
        elif code in _AMBIGUOUS:
            known.distrust(batch)
        self._answer(batch, code, verbatim=True)

    def _probed_to_write(self, batch: Batch, code: int) -> None:
        if code in _MAY_PROBE:
            self._write_buffer(batch)
        else:
            self._answer(batch, code, verbatim=True)

    def _probed_to_confirm(self, batch: Batch, code: int) -> None:
        known = self._known
        if known is None:
            raise Bug("nothing known of a batch to be confirmed")
        if code in _MAY_PROBE:
            known.ahead -= batch.count
            known.advance(batch)
            self._answer(batch, ErrorCode.NONE)
        elif code in _RETRIABLE:
            self._close(batch, f"the target answered {code} about a batch that is written")
        else:
            self._answer(batch, code, verbatim=True)

    def _probed_to_refuse(self, batch: Batch, code: int) -> None:
        if code in _MAY_PROBE:
            self._answer(batch, self._refusal)
        else:
            self._answer(batch, code, verbatim=True)

    def _buffer_answered(self, batch: Batch, code: int | None) -> None:
        if code in _TAKEN:
            self._done(batch, verbatim=False)
        elif not batch.sequenced:
            self._answer(batch, _as_told_to_client(code))
        elif code in _LOST_TRACK:
            self._buffer_lost_track(batch)
        elif batch.immediate or code is None or code in _AMBIGUOUS:
            self._close(batch, f"the buffer answered {code} to a batch that may be half written")
        else:
            self._answer(batch, _as_told_to_client(code))

    def _buffer_lost_track(self, batch: Batch) -> None:
        if self._thorough:
            self._known = None
            self._answer(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        else:
            self._ask(batch, thorough=True)

    # --- what the brokers know

    def _ask(self, batch: Batch, *, thorough: bool = False) -> None:
        """`thorough` when what was known has been contradicted: then T is asked whatever B says."""
        self._known, self._thorough, self._rounds = None, thorough, 0
        self._put(batch, _Step.ASK_BUFFER)

    def _put(self, batch: Batch, step: _Step) -> None:
        self._step = step
        self._out.append(Ask(batch, self._ASKING[step]))

    def _told(self, event: Told) -> None:
        batch, told = event.batch, event.next_sequence
        if self._step is _Step.ASK_TARGET:
            self._told_target = told
            self._put(batch, _Step.ASK_AGAIN)
        elif self._step is _Step.ASK_AGAIN and told == self._told_buffer:
            self._settle(batch)
        elif self._step is _Step.ASK_BUFFER and told is None and not self._thorough and self._target_judges(batch):
            self._known = _Known(batch.base_sequence, batch.base_sequence)
            self._judge(batch, self._known)
        else:
            self._ask_target(batch, told)

    def _target_judges(self, batch: Batch) -> bool:
        """Whether D = 0 is all that has to be known: T sees a part of the batch, or nothing can be before it."""
        return batch.immediate > 0 or batch.base_sequence == 0

    def _ask_target(self, batch: Batch, told_buffer: int | None) -> None:
        self._told_buffer = told_buffer
        self._rounds += 1
        if self._rounds > ASK_ROUNDS_MAX:
            self._close(batch, "the producer's state does not come to rest")
        else:
            self._put(batch, _Step.ASK_TARGET)

    def _settle(self, batch: Batch) -> None:
        """From what both logs say. Where T has forgotten the producer it takes any sequence, and so do we, unless
        only B could show whether the batch is there, or this connection knew of something that speaks against it."""
        buffered, target = self._told_buffer or 0, self._told_target
        if target is None and not self._thorough and (batch.immediate or self._told_buffer is None):
            ahead = 0
        else:
            ahead = _distance(batch.base_sequence, ((target or 0) + buffered) % SEQUENCES)
        if ahead < 0:
            self._refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        else:
            self._known = _Known(batch.base_sequence, batch.base_sequence, buffered, ahead, proven=target is not None)
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
            self._known.buffered = (self._known.buffered + batch.delayed) % SEQUENCES
            self._known.ahead = 0
            self._known.advance(batch)
        self._answer(batch, ErrorCode.NONE, verbatim=verbatim)

    def _answer(self, batch: Batch, code: int, *, verbatim: bool = False) -> None:
        if batch is self._head:
            self._head = None
        if self._known is not None and code not in _TAKEN and batch.epoch == self._epoch:
            self._known.refuse(batch, code)
        if batch.acks == 0 and code not in _TAKEN:
            self._close(batch, f"error {code} for a producer that takes no answers")
        else:
            self._out.append(Answer(batch, code, verbatim))

    def _close(self, batch: Batch, reason: str) -> None:
        self._closed = True
        self._out.append(Close(batch, reason))

    _ASKING: ClassVar[dict[_Step, Side]] = {
        _Step.ASK_BUFFER: Side.BUFFER,
        _Step.ASK_TARGET: Side.TARGET,
        _Step.ASK_AGAIN: Side.BUFFER,
    }
    _ON_TARGET: ClassVar[dict[_Step, "Callable[[Gate, Batch, int], None]"]] = {
        _Step.TARGET: _target_answered,
        _Step.PROBE_TO_WRITE: _probed_to_write,
        _Step.PROBE_TO_CONFIRM: _probed_to_confirm,
        _Step.PROBE_TO_REFUSE: _probed_to_refuse,
    }


def _as_told_to_client(code: int | None) -> int:
    return code if code in _OF_THE_PRODUCER and code is not None else ErrorCode.NOT_ENOUGH_REPLICAS
