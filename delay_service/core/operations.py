"""What the log asks of a shard, and the outcome: operations on pending messages, conditional messages, and controls.

    operation   cancel a message, or deliver it at another time
    conditional a message that takes its place only by a decision: it wants an own id or an idempotency key for
                itself, or its time comes from a calendar and is to be fixed
    control     pause, resume or purge the shard

They are decided in the order of the log, when a batch is taken, and what is decided is part of that batch: nothing
is in flight then, so "pending" has one meaning, and the commit that makes the decision true is the one whose O passes
them. Replay obeys decisions and re-appends alone; what stands below O is never looked at again.

One waits where its message has been re-appended and not been read back, because it must name the record that
carries the message then, and where a late record keeps O before it. A conditional message that waits is not
delivered.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from delay_service.core.pending_record import Known, Move, PendingRecord, View
from delay_service.core.series import skip
from delay_service.core.weight import ROW_BYTES, row_weight, weight
from delayline.buffer.facts import row_id_of
from delayline.buffer.outcome import CANCELLED, FORWARDED, PURGED, REPLACED, RESCHEDULED, SCHEDULED, AuditRow, Outcome
from delayline.buffer.record import Control, Operation
from delayline.buffer.undo import encode_copy
from delayline.questions.inquiry import IDEMPOTENCY, IDEMPOTENCY_REUSED, OWN_ID, VERSION_MISMATCH, Resolution
from delayline.records.message import BEFORE_ALL, Key, MessageId
from delayline.records.record import accepted_at_ms_of
from delayline.schedule.terms import Terms, own_name
from mq.contract import Append

DECIDED_MAX = 1000
"""Per commit, so that a flood of operations does not hold up what is due."""

PURGE_SCANS_MAX = 20
"""Stretches of up to DECIDED_MAX records that a purge looks at in one pass before it has found as many to end."""

BEHIND_ALL = (1 << 63) - 1

NOT_PENDING = "not-pending"
SKIPPED = "skipped"
"""Reasons in the outcome rows of operations, and of the records that they end, beside those that readers of the audit
look for too."""


class Asked(NamedTuple):
    """A record that has been read and not decided. `what` is an operation, a control, or the key of a conditional
    message, whose record is in the index."""

    offset: int
    accepted_at_ms: int
    what: Operation | Control | Key


@dataclass(slots=True)
class Decided:
    """The decisions on the first `count` records that wait: they end the records `ended`, and re-append the records
    `moved`. `undecided` is the offset of the first record that still waits."""

    count: int = 0
    undecided: int = BEHIND_ALL
    cancelled: list[Key] = field(default_factory=list)
    ended: set[Key] = field(default_factory=set)
    moved: dict[Key, Move] = field(default_factory=dict)
    appends: list[bytes] = field(default_factory=list)
    copies: list[bytes] = field(default_factory=list)  # of what is cancelled and may come back
    cross_partition: list[Append] = field(default_factory=list)
    rows: list[AuditRow] = field(default_factory=list)
    named: dict[bytes, Key] = field(default_factory=dict)  # names that conditional messages have got
    resolved: list[tuple[int, Resolution]] = field(default_factory=list)  # offset of who asked, what came of it
    closed: dict[bytes, Known] = field(default_factory=dict)  # idempotency names of what has ended for good
    paused: bool | None = None
    bytes: int = 0  # what it writes, see `weight`
    purged_to: Key | None = None  # how far a purge has come that goes on with the next commit
    purged: int = 0  # how many that one has cancelled so far

    def __bool__(self) -> bool:
        return bool(self.count or self.ended)

    def end(self, pending: PendingRecord, outcome: Outcome, reason: str, successor: str | None = None) -> None:
        key = pending.key
        self.ended.add(key)
        self.bytes += row_weight(pending.row_id, successor)
        accepted_at_ms = accepted_at_ms_of(pending.packed)
        self.rows.append(AuditRow(key.offset, pending.row_id, key.due_ms, accepted_at_ms, outcome, successor, reason))

    def cancel(self, pending: PendingRecord, outcome: Outcome, reason: str, successor: str | None = None) -> None:
        """End it for good, by a decision."""
        self.end(pending, outcome, reason, successor)
        self.cancelled.append(pending.key)
        # rule key-first: a repetition would get itself as the answer instead of the request that was accepted.
        if outcome is not Outcome.DUPLICATE:
            # rule key-cancel: a repeated request for what was cancelled would be accepted.
            self.closed.update(pending.closing)

    def keep(self, pending: PendingRecord, undo: str | None, terms: Terms | None) -> None:
        """A copy of what is cancelled, with these terms, for an undo."""
        if undo is not None:
            self.copies.append(encode_copy(pending.value, pending.message_id, pending.key.due_ms, undo, terms))
            self.bytes += weight(pending.value)

    def carry_on(self, pending: PendingRecord, due_ms: int, terms: Terms | None) -> None:
        self.moved[pending.key], body = pending.carried_on(due_ms, terms)
        self.appends.append(body)
        self.bytes += weight(pending.value)

    def answer(self, asked: Asked, outcome: Outcome, reason: str, count: int = 0) -> None:
        self.bytes += ROW_BYTES
        self.resolved.append((asked.offset, Resolution(outcome, reason, count=count)))
        self.rows.append(AuditRow(asked.offset, None, None, asked.accepted_at_ms, outcome, None, reason))


NOTHING = Decided()
"""Where nothing waits, as nearly always; never filled."""


class Operations:
    """Those that wait, in the order of the log."""

    def __init__(self) -> None:
        self._asked: deque[Asked] = deque()
        self._purged_to = BEFORE_ALL
        self._purged = 0

    def __bool__(self) -> bool:
        return bool(self._asked)

    def ask(self, offset: int, accepted_at_ms: int, what: Operation | Control | Key) -> None:
        self._asked.append(Asked(offset, accepted_at_ms, what))

    def decide(self, before: int, view: View, bytes_max: int) -> Decided:
        """What those do that stand at or before the offset `before`, where O is kept in this commit, and what they
        re-append has `bytes_max` at most, or is one record."""
        deciding = _Deciding(Decided(purged=self._purged), view, self._purged_to, bytes_max)
        decided = deciding.decided
        for asked in islice(self._asked, DECIDED_MAX):
            # rule op-O: O does not pass it in this commit: the next owner would decide it twice.
            if asked.offset > before or not deciding.has_room or not deciding.decide(asked):
                break
            decided.count += 1
        if decided.count < len(self._asked):
            # rule op-waits: O would pass an operation that waits: lost.
            decided.undecided = self._asked[decided.count].offset
        # rule purge-abort: a purge would go on behind what an aborted batch has not cancelled.
        if not decided and decided.purged_to:
            self._purged_to = decided.purged_to
        return decided

    def forget(self, decided: Decided) -> None:
        """The first ones are decided and committed."""
        for _ in range(decided.count):
            self._asked.popleft()
        self._purged_to = decided.purged_to or self._purged_to
        self._purged = decided.purged


class _Deciding:
    """One pass, with what it has decided so far on top of what the shard knows."""

    def __init__(self, decided: Decided, view: View, purged_to: Key, bytes_max: int) -> None:
        self.decided = decided
        self._bytes_max = bytes_max
        self._view = view
        self._moving: set[bytes] = set()
        self._purged_to = purged_to

    def decide(self, asked: Asked) -> bool:
        """Whether it could be decided; it waits otherwise, and with it all that follow."""
        match asked.what:
            case Control("purge", undo):
                return self._purge(asked, undo)
            case Control("skip"):  # it records what was done
                self.decided.answer(asked, Outcome.APPLIED, SKIPPED)
                return True
            case Control(kind):
                # rule pause: a pause would be taken for a resume.
                self.decided.paused = kind == "pause"
                self.decided.answer(asked, Outcome.APPLIED, f"{kind}d")
                return True
            case Operation() as operation:
                return self._operate(asked, operation)
            case Key() as key:
                return self._decide_conditional(key)

    @property
    def has_room(self) -> bool:
        """For one more answer."""
        return self._fits(ROW_BYTES)

    def _fits(self, size: int) -> bool:
        return not self.decided.bytes or self.decided.bytes + size <= self._bytes_max

    def _waits(self, name: bytes) -> bool:
        # rule op-moving: an operation would miss a message that is in no index for a moment.
        return name in self._moving or name in self._view.moving

    def _move(self, pending: PendingRecord, due_ms: int, reason: str) -> None:
        self.decided.end(pending, Outcome.SUPERSEDED, reason, pending.row_id)
        self._carry_on(pending, due_ms, None)

    def _carry_on(self, pending: PendingRecord, due_ms: int, terms: Terms | None) -> None:
        """In another record, which is to be read back."""
        self.decided.carry_on(pending, due_ms, terms)
        self._moving.update((pending.message_id.encode(), *self.decided.moved[pending.key].names))

    def _holder(self, name: bytes) -> PendingRecord | None:
        """Who has the name now, with those that have got it or lost it in this pass."""
        # rule conditional-batch: two conditional messages of one batch would get the same name: delivered twice.
        key = self.decided.named.get(name)
        found = self._view.holder(name) if key is None else self._view.at(key)
        # rule name-ended: a message that ends in this batch would refuse its name to the next one.
        return None if found is None or found.key in self.decided.ended else found

    def _other(self, name: bytes, candidate: PendingRecord) -> PendingRecord | None:
        """Who has the name. A conditional message that holds O back, being late, has got its names from one owner and
        is decided once more by the next."""
        holder = self._holder(name)
        return None if holder is None or holder.key == candidate.key else holder

    # --- operations

    def _operate(self, asked: Asked, operation: Operation) -> bool:
        if (append := self._view.forward(operation)) is not None:
            if not self._fits(len(append.body)):
                return False
            self.decided.cross_partition.append(append)
            self.decided.bytes += len(append.body)
            self.decided.answer(asked, Outcome.APPLIED, FORWARDED)
            return True
        ref = operation.ref
        series_id = ref._replace(occurrence=None) if isinstance(ref, MessageId) else ref
        if self._waits(own_name(ref) if isinstance(ref, str) else str(series_id).encode()):
            return False
        pending = self._pending(asked, ref)
        # rule op-dead: there is no message to carry on: it belongs to the dead letters.
        if pending is None or pending.is_dead:
            self.decided.answer(asked, Outcome.UNMATCHED, NOT_PENDING)
        # rule version: an operation would overwrite a change that its sender has not seen.
        elif operation.version not in (None, pending.version):
            self.decided.answer(asked, Outcome.UNMATCHED, VERSION_MISMATCH)
        elif not self._fits(weight(pending.value)):
            return False
        elif operation.due_ms is not None:
            # rule reschedule: the message would keep its old due time: early, or late.
            self._move(pending, operation.due_ms, RESCHEDULED)
            self.decided.answer(asked, Outcome.APPLIED, RESCHEDULED)
        else:
            # rule cancel-one: to cancel an occurrence would end the series, or the other way round.
            self._cancel(pending, operation.undo, alone=isinstance(ref, MessageId) and ref.occurrence is not None)
            self.decided.answer(asked, Outcome.APPLIED, CANCELLED)
        return True

    def _pending(self, asked: Asked, ref: MessageId | str) -> PendingRecord | None:
        if isinstance(ref, str):
            return self._holder(own_name(ref))
        if ref.offset >= asked.offset:
            return None  # nobody can mean a message that is not there yet
        pending = self._view.carrier(ref)
        # rule op-once: two operations of one batch would end the same record, each with a row.
        if pending is None or pending.key in self.decided.ended:
            return None
        # rule occurrence: an operation on one occurrence would meet another.
        return pending if ref.occurrence is None or pending.row_id == str(ref) else None

    def _cancel(self, pending: PendingRecord, undo: str | None, *, alone: bool) -> None:
        """The message, of a series with all that would follow; `alone`, this occurrence only."""
        after = skip(pending.terms, pending.key.due_ms) if alone and pending.terms else None
        if after is None or after.next_due_ms is None:
            # rule cancel-copy: what an operation has ended could not be brought back.
            self.decided.keep(pending, undo, pending.terms)
            self.decided.cancel(pending, Outcome.CANCELLED, CANCELLED)
        else:
            # rule cancel-copy-one: an occurrence would come back as a second series.
            self.decided.keep(pending, undo, _once(pending.terms))
            successor = row_id_of(pending.message_id, after.next_terms)
            # rule row-successor: the audit would not show that the series goes on.
            self.decided.end(pending, Outcome.CANCELLED, CANCELLED, successor)
            self._carry_on(pending, after.next_due_ms, after.next_terms)

    # --- conditional messages

    def _decide_conditional(self, key: Key) -> bool:
        candidate = self._view.at(key)
        if candidate is None or candidate.terms is None:
            return True  # named in the meantime
        names = candidate.terms.names
        # rule conditional-moving: the message with the name cannot be found yet: two would have it.
        if any(self._waits(name) for name in names):
            return False
        if not self._fits(weight(candidate.value)):
            return False
        # rule conditional-free: a request or an own id that is there already would be taken again: delivered twice.
        if self._is_repetition(candidate, candidate.terms) or self._is_duplicate(candidate, candidate.terms):
            return True
        # rule conditional-gets: the next conditional message of the batch would get the same name: delivered twice.
        self.decided.named.update(dict.fromkeys(names, key))
        self.decided.resolved.append((key.offset, Resolution(Outcome.APPLIED)))
        if candidate.terms.series is not None and candidate.terms.series.cron is not None:
            # rule calendar: the due time would depend on the calendar data of the machine that reads the record.
            self._move(candidate, key.due_ms, SCHEDULED)
        return True

    def _is_repetition(self, candidate: PendingRecord, terms: Terms) -> bool:
        """Whether this very request was accepted before."""
        if terms.idempotency is None:
            return False
        name = terms.names[-1]
        first = self._other(name, candidate)
        if first is not None and first.terms is not None and first.terms.idempotency is not None:
            known: Known | None = Known(first.message_id, first.terms.idempotency.digest)
        else:
            # rule key-batch: a request whose message is cancelled in this batch would be accepted again.
            known = self.decided.closed.get(name) or self._view.remembered(name)
        if known is None:
            return False
        # rule key-reused: another request under the same key would be called a repetition: lost without a word.
        reason = IDEMPOTENCY if known.digest == terms.idempotency.digest else IDEMPOTENCY_REUSED
        self._refuse(candidate, reason, known.message_id)
        return True

    def _is_duplicate(self, candidate: PendingRecord, terms: Terms) -> bool:
        """Whether a pending message keeps the own id. One that is to be replaced ends here."""
        holder = None if terms.own_id is None else self._other(own_name(terms.own_id), candidate)
        if holder is None:
            return False
        # rule replace: an own id would be replaced against the sender's wish, or kept.
        if not terms.replaces:
            self._refuse(candidate, OWN_ID, holder.message_id)
            return True
        # rule decision-replaced: the cursor does not cover what is replaced: a takeover would deliver it, too.
        self.decided.cancel(holder, Outcome.SUPERSEDED, REPLACED, candidate.message_id)
        return False

    def _refuse(self, candidate: PendingRecord, reason: str, survivor: str) -> None:
        self.decided.cancel(candidate, Outcome.DUPLICATE, reason, survivor)
        self.decided.resolved.append((candidate.key.offset, Resolution(Outcome.DUPLICATE, reason, survivor)))

    # --- controls

    def _purge(self, asked: Asked, undo: str | None) -> bool:
        """Cancel what was accepted before, some of it per commit."""
        # rule purge-moving: the purge would miss a message that is in no index for a moment.
        if self._moving or self._view.moving:
            return False
        for _ in range(PURGE_SCANS_MAX):
            scanned = self._view.scan(self._purged_to, DECIDED_MAX)
            # rule purge-last: a stretch of large records is short: the purge would leave out what follows.
            if not scanned:  # a stretch may be short of DECIDED_MAX before that: large records
                self.decided.answer(asked, Outcome.APPLIED, PURGED, self.decided.purged)
                self.decided.purged = 0
                # rule purge-anew: the next purge of the batch would begin where this one has ended.
                self._purged_to = self.decided.purged_to = BEFORE_ALL
                return True
            for pending in scanned:
                if pending.key not in self.decided.ended and _was_accepted_before(asked.offset, pending):
                    copy_bytes = 0 if undo is None else weight(pending.value)
                    if not self._fits(row_weight(pending.row_id, None) + copy_bytes):
                        return False
                    # rule purge-copy: what a purge has ended could not be brought back.
                    self.decided.keep(pending, undo, pending.terms)
                    self.decided.cancel(pending, Outcome.CANCELLED, PURGED)
                    self.decided.purged += 1
                self._purged_to = self.decided.purged_to = pending.key
            if len(self.decided.ended) >= DECIDED_MAX:
                break
        return False


def _was_accepted_before(offset: int, pending: PendingRecord) -> bool:
    # rule purge-before: by the id, not the record: what came later would be lost, what was carried on would stay.
    return not pending.is_dead and MessageId.parse(pending.message_id).offset < offset


def _once(terms: Terms | None) -> Terms | None:
    """What a single occurrence asks for: its series has the own id and goes on."""
    return None if terms is None else replace(terms, own_id=None, series=None)
