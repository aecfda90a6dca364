"""One state of client, proxies and logs; the steps that lead on from it; and what must never happen on the way."""

from collections.abc import Callable, Hashable, Iterator
from itertools import product
from typing import Any

from kafkawire.protocol.errors import ErrorCode
from proxy.kafka.produce.sequencer import (
    SEQUENCES,
    Answer,
    Ask,
    AskAnswered,
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
from proxy.kafka.produce.sequencer.events import AskFailed
from proxy.kafka.produce.sequencer.gate import Gate
from tests.proxy_model.link import Link, key_of
from tests.proxy_model.log import Appended, Log, Record
from tests.proxy_model.scope import Fault, Habit, Scope

TAKEN = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
REPEATED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
LETTER = {LogRole.TARGET: "i", LogRole.BUFFER: "d"}


class Violation(Exception):
    """A promise is broken."""


NEW, OUT, AGAIN, DONE = "new", "out", "again", "done"
REFUSED, FAILED = "refused", "failed"
"""Refused for good, as it had to be; given up by the client."""
ENDED = (DONE, REFUSED, FAILED)


class World:
    """A state. Steps change it in place; `copied` first."""

    def __init__(self, scope: Scope, gate: Callable[[], Any] = Gate) -> None:
        self.scope = scope
        self.make_gate = gate
        self.logs = {LogRole.TARGET: _seeded(scope.start.target), LogRole.BUFFER: _seeded(scope.start.buffer)}
        self.epoch = scope.start.epoch
        self.bases = _bases(scope.start.sequence, [scope.records(number) for number in range(len(scope.script))])
        self.status = [NEW] * len(scope.script)
        self.bumps = False
        self.renumbers = False
        self.moved = False
        self.doubtful: frozenset[int] = frozenset()
        self.repeatable: frozenset[int] = frozenset()
        self.rebuffed: int | None = None
        self.links: list[Link] = []
        self.budget = scope.budget

    def copied(self) -> "World":
        new = object.__new__(World)
        new.__dict__.update(self.__dict__)
        new.logs, new.status = dict(self.logs), list(self.status)
        new.links = [link.copied() for link in self.links]
        return new

    def key(self) -> Hashable:
        logs = tuple(self.logs.values())
        links = tuple(key_of(link) for link in self.links)
        client = self.bumps, self.renumbers, self.moved, self.doubtful, self.repeatable, self.rebuffed
        return logs, self.epoch, self.bases, tuple(self.status), client, links, self.budget

    @property
    def finished(self) -> bool:
        return all(status in ENDED for status in self.status)

    @property
    def _disturbed(self) -> bool:
        """Whether Kafka alone may keep a producer's later batch and refuse an earlier one for ever: after an epoch
        that began in the middle, which a partition takes that knows nothing of the producer."""
        return self.moved or (self.scope.refuses and self.scope.habit is Habit.JAVA)

    # --- steps

    def steps(self) -> Iterator[tuple[str, Callable[["World"], None]]]:
        """Each has a name, and is applied to a copy."""
        if not self._connected:
            yield "the client connects", World.connect
        elif (number := self._to_send()) is not None:
            yield f"the client sends {number}", lambda world: world.send(number)
        if self.renumbers or (self.bumps and OUT not in self.status):
            yield "the client begins a new epoch", World.bump
        if self.rebuffed is not None and self._disturbed and self.status[self.rebuffed] is AGAIN:
            yield f"the client gives {self.rebuffed} up", World.give_up
        for at, link in enumerate(self.links):
            yield from self._link_steps(at, link)
        if self.budget:
            yield from self._faults()

    @property
    def _connected(self) -> bool:
        return self._newest is not None

    @property
    def _newest(self) -> Link | None:
        return next((link for link in reversed(self.links) if link.heard), None)

    def _link_steps(self, at: int, link: Link) -> Iterator[tuple[str, Callable[["World"], None]]]:
        if link.unsent:
            yield f"{at} reads a request", lambda world: world.read(world.links[at])
        if link.to_target:
            yield f"T takes from {at}", lambda world: world.target_takes(world.links[at])
        if link.from_target:
            yield f"{at} hears T", lambda world: world.hear_target(world.links[at])
        if link.to_side is not None:
            yield f"{at} is served on B's side", lambda world: world.side_takes(world.links[at])
        if link.from_side is not None:
            yield f"{at} hears B's side", lambda world: world.hear_side(world.links[at])

    def _faults(self) -> Iterator[tuple[str, Callable[["World"], None]]]:
        for at, link in enumerate(self.links):
            for fault in self._link_faults(link):
                yield (f"{at} {fault.name}", lambda world, at=at, fault=fault: world.fault(world.links[at], fault))
        for side, fault in product(LogRole, (Fault.FAIL_OVER, Fault.RESTART)):
            log = self.logs[side]
            if fault in self.scope.faults and _after(fault, log) != log and not self._also_without_us(side, fault):
                yield (f"{side} {fault.name}", lambda world, side=side, fault=fault: world.log_fault(side, fault))

    def _also_without_us(self, side: LogRole, fault: Fault) -> bool:
        """T answers 45 to the repetition of a batch that it took, and no longer remembers because it took another and
        was restarted. Clients meet that without a proxy as well."""
        if side is LogRole.BUFFER or fault is Fault.FAIL_OVER:
            return False
        earlier = [number for batch in self.logs[side].batches[:-1] for number, _ in batch.records]
        return any(self.status[number] not in ENDED for number in earlier)

    def _link_faults(self, link: Link) -> list[Fault]:
        possible: list[Fault] = []
        if link.gate is not None:
            possible += [Fault.CRASH]
            possible += [Fault.LEAVE] if link.heard else []
            possible += [Fault.MOVE] if link is self._newest and link.unanswered else []
            possible += [Fault.REFUSE_TARGET] if link.to_target else []
            possible += [Fault.LAG_TARGET] if link.to_target and isinstance(link.to_target[0], SendTarget) else []
            possible += [Fault.LOSE_REQUEST] if link.to_side is not None else []
            if isinstance(link.to_side, SendBuffer):
                possible += [Fault.REFUSE_BUFFER, Fault.LOSE_ANSWER, Fault.LAG_BUFFER]
        return [fault for fault in possible if fault in self.scope.faults]

    # --- the client

    def connect(self) -> None:
        self.links.append(Link(self.make_gate()))

    def _to_send(self) -> int | None:
        """The number of the batch that goes out next, if one may."""
        in_flight = 1 if self.scope.habit is Habit.AIOKAFKA else self.scope.in_flight
        if self.bumps or self.renumbers or self.status.count(OUT) >= in_flight:
            return None
        number = next((at for at, status in enumerate(self.status) if status in (NEW, AGAIN)), None)
        if number is None:
            return None
        alone = self.scope.habit is Habit.JAVA and self.status[number] is AGAIN
        return None if alone and not self._is_next(number) else number

    def _is_next(self, number: int) -> bool:
        """Whether all before it has come to an end."""
        return all(status in ENDED for status in self.status[:number])

    def _batch(self, number: int) -> Batch:
        letters = self.scope.records(number)
        refusal = ErrorCode.INVALID_RECORD if self.scope.refused(number) == "!" else ErrorCode.NONE
        base, delayed = self.bases[number], 0 if refusal else letters.count("d")
        return Batch("orders", 0, 7, self.epoch, base, len(letters), delayed, refusal=refusal, tag=number)

    def send(self, number: int) -> None:
        link = self._newest
        assert link is not None
        batch = self._batch(number)
        self.status[number] = OUT
        link.unanswered = (*link.unanswered, batch)
        if self.scope.refuses:
            link.unsent = (*link.unsent, batch)
        else:
            self._feed(link, batch)

    def read(self, link: Link) -> None:
        batch, *rest = link.unsent
        link.unsent = tuple(rest)
        self._feed(link, batch)

    def bump(self) -> None:
        """What was under way on dead connections is dead by now, with a broker's connection as without a proxy."""
        self.epoch += 1
        self.bumps = self.renumbers = False
        rest = [number for number, status in enumerate(self.status) if status not in ENDED]
        bases = iter(_bases(0, [self.scope.records(number) for number in rest]))
        self.bases = tuple(next(bases) if at in rest else base for at, base in enumerate(self.bases))
        self.repeatable |= self.doubtful if self._disturbed else frozenset()
        for link in list(self.links):
            if link.heard:
                link.rewrite({number: self._batch(number) for number in rest})
            else:
                self.links.remove(link)

    def give_up(self) -> None:
        """Its time (delivery.timeout.ms) is over; the rest goes out under a new epoch (maybeResolveSequences)."""
        assert self.rebuffed is not None
        self.status[self.rebuffed] = FAILED
        self.rebuffed = None
        self.bumps = True

    def _answered(self, number: int, batch: Batch, answer: Answer) -> None:
        if answer.code in TAKEN:
            self._acknowledged(number)
        elif answer.code == ErrorCode.INVALID_RECORD and self.scope.refused(number):
            self._refused(number)
        elif answer.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            self._out_of_order(number, batch)
        elif answer.code in REPEATED or (
            answer.code == ErrorCode.INVALID_PRODUCER_EPOCH and batch.epoch < self.epoch
        ):
            self.status[number] = AGAIN
        else:
            raise Violation(f"batch {number} is answered {answer.code}")

    def _refused(self, number: int) -> None:
        self.status[number] = REFUSED
        self.renumbers |= self.scope.habit is Habit.JAVA
        self.bumps |= self.scope.habit is Habit.LIBRDKAFKA

    def _out_of_order(self, number: int, batch: Batch) -> None:
        self.status[number] = AGAIN
        if self._is_next(number) and batch.epoch == self.epoch:
            self._rebuff(number, batch)
        if self.scope.habit is Habit.AIOKAFKA:
            self.status = [status if status in ENDED else FAILED for status in self.status]
        self.bumps |= self.scope.habit is Habit.LIBRDKAFKA

    def _rebuff(self, number: int, batch: Batch) -> None:
        """The batch is next: real clients end there, or fail it, so it must be what a broker does."""
        ended_badly = REFUSED in self.status or FAILED in self.status
        if not (ended_badly or self._disturbed):
            raise Violation(f"batch {number} is next, and is answered that it is out of order")
        alone = self.scope.habit is Habit.AIOKAFKA or not ended_badly
        if alone and not any(log.batches for log in self.logs.values()):
            raise Violation(f"batch {number} is out of order, it is answered, where nothing is known of the producer")
        if batch.base_sequence == 0 and all(log.next_sequence(self.epoch) is None for log in self.logs.values()):
            raise Violation(f"batch {number} begins an epoch, and is answered that it is out of order")
        self.rebuffed = number

    def _acknowledged(self, number: int) -> None:
        if self.scope.refused(number):
            raise Violation(f"batch {number} is invalid, and is acknowledged")
        self.status[number] = DONE
        for side, log in self.logs.items():
            stored = {record for batch in log.batches[: log.stable] for record in batch.records}
            if missing := [one for one in self._records(number, side) if one not in stored]:
                raise Violation(f"batch {number} is acknowledged without {missing} in {side.name}")

    def _leave(self, link: Link) -> None:
        """Whoever begins a new epoch while it does not know what became of a batch stores it twice, with a proxy or
        without (`repeatable`): not one of ours to judge. Without refusals it does not happen here."""
        if not link.heard:
            return
        link.heard = self.bumps = False
        for batch in link.unanswered:
            assert isinstance(batch.tag, int)
            if self.status[batch.tag] is OUT:
                self.status[batch.tag] = AGAIN
            if batch not in link.unsent:
                self.doubtful |= {batch.tag}
            if batch.epoch < self.epoch:
                self.repeatable |= {batch.tag}
        link.unsent = ()

    # --- the proxy

    def _feed(self, link: Link, event: Event) -> None:
        for output in link.gate.handle(event):
            self._perform(link, output)
        while link.unanswered and (answer := link.answers.pop(link.unanswered[0], None)):
            batch, *rest = link.unanswered
            link.unanswered = tuple(rest)
            if link.heard and isinstance(batch.tag, int):
                self._answered(batch.tag, batch, answer)
        self._forget(link)

    def _perform(self, link: Link, output: Output) -> None:
        if isinstance(output, SendTarget | ProbeTarget):
            link.to_target = (*link.to_target, output)
        elif isinstance(output, Answer):
            link.answers[output.batch] = output
        elif isinstance(output, Close):
            self._leave(link)
            link.die()
        elif link.to_side or link.from_side:
            raise Violation(f"{output} while {link.to_side or link.from_side}")
        else:
            link.to_side = output

    def _forget(self, link: Link) -> None:
        if link.gone:
            self.links.remove(link)

    # --- the logs

    def target_takes(self, link: Link) -> None:
        request, *rest = link.to_target
        link.to_target = tuple(rest)
        code = ErrorCode.INVALID_RECORD
        if isinstance(request, SendTarget) and not self._refuses(request.batch):
            code = self._append(LogRole.TARGET, request.batch, request.base_sequence)
        self._target_answers(link, request.batch, code)

    def _refuses(self, batch: Batch) -> bool:
        """T looks at the records before it looks at the producer (UnifiedLog.append)."""
        return isinstance(batch.tag, int) and bool(self.scope.refused(batch.tag))

    def _target_answers(self, link: Link, batch: Batch, code: int) -> None:
        if link.gate is not None:
            link.from_target = (*link.from_target, TargetAnswered(batch, code))
        self._forget(link)

    def hear_target(self, link: Link) -> None:
        answer, *rest = link.from_target
        link.from_target = tuple(rest)
        self._feed(link, answer)

    def side_takes(self, link: Link) -> None:
        request, link.to_side = link.to_side, None
        if isinstance(request, Ask):
            self.logs[request.side] = self.logs[request.side].replicated()
            log, epoch = self.logs[request.side], request.batch.epoch
            link.from_side = AskAnswered(
                request.batch, request.side, log.next_sequence(epoch), log.other_epoch(epoch)
            )
        elif request is not None:
            code = self._append(LogRole.BUFFER, request.batch, request.base_sequence)
            link.from_side = BufferAnswered(request.batch, code) if link.gate is not None else None
            self._forget(link)

    def hear_side(self, link: Link) -> None:
        event, link.from_side = link.from_side, None
        assert event is not None
        self._feed(link, event)

    def _append(self, side: LogRole, batch: Batch, base: int, *, replicates: bool = True) -> ErrorCode:
        if not 0 <= base < SEQUENCES:
            raise Violation(f"{base} is no sequence")
        assert isinstance(batch.tag, int)
        records = self._records(batch.tag, side)
        new = Appended(batch.epoch, base, len(records), tuple(records))
        log = self.logs[side]
        code = log.check(new)
        if code is ErrorCode.NONE:
            self._judge(side, log, new)
            log = log.appended(new)
        if code in TAKEN and replicates:
            log = log.replicated()
        self.logs[side] = log
        return ErrorCode.NONE if code in TAKEN else code

    def _judge(self, side: LogRole, log: Log, new: Appended) -> None:
        numbers = [number for number in range(len(self.scope.script)) if self._judged(number)]
        wanted = [one for number in numbers for one in self._records(number, side)]
        records = [one for one in (*log.records(), *new.records) if self._judged(one[0])]
        if self._disturbed:
            good = records == sorted(set(records)) and set(records) <= set(wanted)
        else:
            good = records == wanted[: len(records)]
        if not good:
            raise Violation(f"{side.name} would hold {records}, of {wanted}")

    def _judged(self, number: int) -> bool:
        return number not in self.repeatable and not self.scope.refused(number)

    def _records(self, number: int, side: LogRole) -> list[Record]:
        letters = self.scope.records(number)
        return [(number, at) for at, letter in enumerate(letters) if letter == LETTER[side]]

    # --- what goes wrong

    def fault(self, link: Link, fault: Fault) -> None:
        self.budget -= 1
        if fault is Fault.MOVE:
            self.moved = True
            self.connect()
        elif fault in (Fault.CRASH, Fault.LEAVE):
            self._leave(link)
            if fault is Fault.CRASH:
                link.die()
                self._forget(link)
        elif fault in (Fault.REFUSE_TARGET, Fault.LAG_TARGET):
            self._target_fails(link, fault)
        else:
            self._side_fails(link, fault)

    def _target_fails(self, link: Link, fault: Fault) -> None:
        request, *rest = link.to_target
        link.to_target = tuple(rest)
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(request, SendTarget) and fault is Fault.LAG_TARGET and not self._refuses(request.batch):
            code = self._append(LogRole.TARGET, request.batch, request.base_sequence, replicates=False)
            code = code or ErrorCode.REQUEST_TIMED_OUT
        self._target_answers(link, request.batch, code)

    def _side_fails(self, link: Link, fault: Fault) -> None:
        request, link.to_side = link.to_side, None
        if isinstance(request, Ask):
            link.from_side = AskFailed(request.batch)
            return
        assert request is not None
        if fault in (Fault.LOSE_ANSWER, Fault.LAG_BUFFER):
            replicates = fault is Fault.LOSE_ANSWER
            self._append(LogRole.BUFFER, request.batch, request.base_sequence, replicates=replicates)
        refused = fault is Fault.REFUSE_BUFFER
        link.from_side = BufferAnswered(request.batch, ErrorCode.NOT_ENOUGH_REPLICAS if refused else None)

    def log_fault(self, side: LogRole, fault: Fault) -> None:
        self.budget -= 1
        self.logs[side] = _after(fault, self.logs[side])


def _after(fault: Fault, log: Log) -> Log:
    return log.failed_over() if fault is Fault.FAIL_OVER else log.restarted()


def _seeded(next_sequence: int | None) -> Log:
    """A log that the producer has written to before."""
    if next_sequence is None:
        return Log()
    return Log().appended(Appended(0, (next_sequence - 1) % SEQUENCES, 1, ())).replicated()


def _bases(first: int, script: list[str]) -> tuple[int, ...]:
    bases = [first % SEQUENCES]
    for letters in script:
        bases.append((bases[-1] + len(letters)) % SEQUENCES)
    return tuple(bases[:-1])
