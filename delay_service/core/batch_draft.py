"""What a batch writes about the records that it takes: delivered, dead-lettered, expired, or a series that goes on.

Pure; called once per batch by `delay_service.core.shard`, which decides what is taken.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from operator import itemgetter

from delay_service.core.dead import Refusal, as_it_came, encode_dead, left_out
from delay_service.core.pending_record import Known, Move, PendingRecord
from delay_service.core.retries import EXHAUSTED, RETRIED, as_sent_back, give_back
from delay_service.core.series import Firing, fire
from delayline.buffer.decisions import encode_decision
from delayline.buffer.facts import message_id, row_id_of
from delayline.buffer.outcome import (
    DEADLINE,
    LATE_MAX,
    MISSED,
    ROLL,
    ROWS_PER_RECORD_MAX,
    AuditRow,
    Outcome,
    PlainRows,
)
from delayline.buffer.record import decode_value
from delayline.names import Names
from delayline.records.message import Key, Shard
from delayline.records.record import Record, accepted_at_ms_of, decode_packed, seal
from delayline.records.sealing import Sealer, accepted_column
from delayline.schedule.terms import Retry, Terms
from mq.contract import Append
from store.index import Entry, PlainEntry

Refusals = Mapping[Key, Refusal]
"""Of records that cannot be delivered."""


ROLLED_BYTES_MAX = 1 << 20
"""Per commit, so that what is due does not wait behind what is merely old."""

_NO_TERMS = Terms()
_FIRST_BYTE = itemgetter(0)

Pair = tuple[bytes, int | None]
"""A delivery (`mq.contract.Delivery`)."""


@dataclass(slots=True)
class BatchDraft:
    """The parts of a batch under construction. `plain` are the rows of plain messages, `rows` all others; `moved` are
    those that go on in another record."""

    deliveries: list[Pair] = field(default_factory=list)
    appends: list[bytes] = field(default_factory=list)
    dead: list[bytes] = field(default_factory=list)
    cross_partition: list[Append] = field(default_factory=list)
    rows: list[AuditRow] = field(default_factory=list)
    plain: list[PlainRows] = field(default_factory=list)
    moved: dict[Key, Move] = field(default_factory=dict)
    closed: list[tuple[bytes, Known]] = field(default_factory=list)

    def decide(self, ended: Sequence[tuple[int, int]], next_offset: int, cancelled: Sequence[Key]) -> None:
        """What ends otherwise than by the cursor of this commit gets a decision record: deliveries that it does not
        cover, and what is cancelled."""
        # rule decision-cancel: the cursor does not cover what is cancelled: a takeover would deliver it.
        uncovered = [*(Key(*key) for key in ended if key[1] >= next_offset), *cancelled]
        # rule decision-above-O: the cursor does not cover deliveries at or above O: delivered twice.
        if uncovered:
            self.appends.append(encode_decision(uncovered))

    def roll(self, pending: PendingRecord) -> None:
        """Re-append a record as it is."""
        key, row_id = pending.key, pending.row_id
        self.moved[key], body = pending.carried_on(key.due_ms)
        self.appends.append(body)
        accepted_at_ms = accepted_at_ms_of(pending.packed)
        self.rows.append(AuditRow(key.offset, row_id, key.due_ms, accepted_at_ms, Outcome.SUPERSEDED, row_id, ROLL))


class BatchDrafter:
    """For one shard. `timestamp` is `delivery`, `due` or `accepted`."""

    def __init__(self, shard: Shard, names: Names, timestamp: str) -> None:
        self._shard = shard
        self._names = names
        self._timestamp = timestamp
        self._sealer = Sealer(shard)

    def pending_record(self, key: Key, value: bytes) -> PendingRecord:
        """A record of the index, taken apart."""
        meta, packed = decode_value(value)
        first_id = message_id(self._shard, key, meta)
        return PendingRecord(key, value, meta, packed, first_id, row_id_of(first_id, meta.terms if meta else None))

    def draft(
        self, entries: Sequence[PlainEntry], now_ms: int, expired_before_ms: int, refused: Refusals
    ) -> BatchDraft:
        """What was due before `expired_before_ms` expires. Hot: a plain message asks for nothing but a time (its
        index value begins with a zero), nearly every batch has no other, and that goes by column
        (bench/floors.py)."""
        draft = BatchDraft()
        if not entries:
            return draft
        dues_ms, offsets, values = zip(*entries, strict=True)
        # rule plain-all: one that has expired, is refused or asks for more would be delivered like a plain one.
        if min(dues_ms) >= expired_before_ms and not refused and not any(map(_FIRST_BYTE, values)):
            draft.deliveries = self._deliver_plain(draft, dues_ms, offsets, values)
            return draft
        plain = [
            # rule plain-one: a record that has expired or is refused would be delivered like a plain one.
            value[0] == 0 and due_ms >= expired_before_ms and not (refused and (due_ms, offset) in refused)
            for due_ms, offset, value in entries
        ]
        found = list(compress(entries, plain))
        sealed = iter(self._deliver_plain(draft, *zip(*found, strict=True)) if found else ())
        # rule order: plain messages would overtake the others of their batch.
        for entry, is_plain in zip(entries, plain, strict=True):  # in their order, whatever they are
            if is_plain:
                draft.deliveries.append(next(sealed))
            else:
                self._unusual(draft, Entry(*entry), now_ms, expired_before_ms, refused)
        return draft

    def _deliver_plain(
        self, draft: BatchDraft, dues_ms: Sequence[int], offsets: Sequence[int], values: Sequence[bytes]
    ) -> list[Pair]:
        """Deliveries of plain messages; their rows go into the draft."""
        deliveries: list[Pair] = []
        for start in range(0, len(values), ROWS_PER_RECORD_MAX):
            part = slice(start, start + ROWS_PER_RECORD_MAX)
            bodies, places = self._sealer.seal(offsets[part], dues_ms[part], values[part])
            rows = PlainRows(offsets[part], dues_ms[part], places, accepted_column(values[part]))
            # rule row-plain: what ends without an outcome row counts as lost.
            draft.plain.append(rows)
            deliveries += zip(bodies, self._stamps(rows), strict=False)
        return deliveries

    def _stamps(self, rows: PlainRows) -> Iterable[int | None]:
        if self._timestamp == "delivery":
            return repeat(None)
        return rows.dues_ms if self._timestamp == "due" else rows.accepted_at_ms()

    def _unusual(
        self, draft: BatchDraft, entry: Entry, now_ms: int, expired_before_ms: int, refused: Refusals
    ) -> None:
        """A record with metadata: one that could not be read or whose directive was refused goes as it came, another
        has been re-appended or asks for more than a time. Or one that has expired, or is refused by its target."""
        pending = self.pending_record(entry.key, entry.value)
        meta = pending.meta
        if meta is not None and meta.dead_code is not None:
            why = Refusal(
                meta.dead_code, meta.dead_reason or "", pending.key in refused and refused[pending.key].left_out
            )
            accepted_at_ms, original = meta.accepted_at_ms, as_it_came(pending.packed)
            self._dead_letter(draft, pending.key, pending.row_id, accepted_at_ms, why, original)
        else:
            terms = pending.terms or _NO_TERMS
            self._with_terms(draft, pending, terms, now_ms, expired_before_ms, refused.get(pending.key))

    def _with_terms(
        self,
        draft: BatchDraft,
        pending: PendingRecord,
        terms: Terms,
        now_ms: int,
        expired_before_ms: int,
        refusal: Refusal | None,
    ) -> None:
        is_last = terms.series is None or (refusal is not None and refusal.ends)
        firing = Firing(pending.key.due_ms) if is_last else fire(terms, pending.key.due_ms, now_ms)
        successor = None if firing.next_due_ms is None else row_id_of(pending.message_id, firing.next_terms)
        if firing.tick_ms is None:
            _end(draft, pending, Outcome.SUPERSEDED if successor else Outcome.EXPIRED, MISSED, successor)
        elif refusal is not None:
            original = decode_packed(pending.packed)
            original = original if terms.retry is None else as_sent_back(original, terms.retry)
            accepted_at_ms = accepted_at_ms_of(pending.packed)
            self._dead_letter(draft, pending.key, pending.row_id, accepted_at_ms, refusal, original, successor)
        elif (reason := _expired(pending, firing.tick_ms, now_ms, expired_before_ms)) is not None:
            _end(draft, pending, Outcome.EXPIRED, reason, successor)
        elif terms.retry is not None:
            self._give_back(draft, pending, terms.retry, successor)
        else:
            # rule tick: the occurrence would carry the time of a tick that was missed.
            self._deliver(draft, pending, firing.tick_ms, successor)
        if firing.next_due_ms is None:
            # rule key-ended: a repeated request for what was delivered would be accepted: delivered twice.
            draft.closed += pending.closing
        else:
            self._go_on(draft, pending, firing.next_due_ms, firing.next_terms)

    def _deliver(self, draft: BatchDraft, pending: PendingRecord, tick_ms: int, successor: str | None) -> None:
        timestamp = self._timestamp
        accepted_at_ms = accepted_at_ms_of(pending.packed)
        stamp = None if timestamp == "delivery" else tick_ms if timestamp == "due" else accepted_at_ms
        # rule occurrence-id: all occurrences would have one id, and receivers would drop the later ones.
        draft.deliveries.append((seal(pending.packed, pending.row_id.encode(), tick_ms), stamp))
        _end(draft, pending, Outcome.DELIVERED, None, successor)

    def _give_back(self, draft: BatchDraft, pending: PendingRecord, retry: Retry, successor: str | None) -> None:
        """To the consumer group that has sent it back."""
        key, row_id = pending.key, pending.row_id
        draft.cross_partition.append(give_back(retry, self._shard, self._names, pending.packed, row_id, key.due_ms))
        outcome, reason = (Outcome.DEAD, EXHAUSTED) if retry.exhausted else (Outcome.DELIVERED, RETRIED)
        _end(draft, pending, outcome, reason, successor)

    @staticmethod
    def _go_on(draft: BatchDraft, pending: PendingRecord, due_ms: int, terms: Terms | None) -> None:
        # rule series-moves: an operation would be decided before the next occurrence is read, and miss it.
        draft.moved[pending.key], body = pending.carried_on(due_ms, terms)
        draft.appends.append(body)

    def _dead_letter(
        self,
        draft: BatchDraft,
        key: Key,
        row_id: str,
        accepted_at_ms: int,
        why: Refusal,
        original: Record,
        successor: str | None = None,
    ) -> None:
        original = left_out(original) if why.left_out else original
        # rule dead-letter: the message would be thrown away: lost.
        draft.dead.append(encode_dead(self._shard, key, row_id, why.code, why.reason, original))
        draft.rows.append(AuditRow(key.offset, row_id, key.due_ms, accepted_at_ms, Outcome.DEAD, successor, why.code))


def _expired(pending: PendingRecord, tick_ms: int, now_ms: int, expired_before_ms: int) -> str | None:
    """Why it is not delivered any more; None where it is."""
    # rule ttl: a time to live counts from the tick that is delivered, or the message would expire too early.
    expires_ms = pending.terms.expires_ms(tick_ms) if pending.terms else None
    # rule deadline: a message would be delivered behind its deadline, or expire at it.
    if expires_ms is not None and now_ms > expires_ms:
        return DEADLINE
    # rule expired-tick: a series would expire by a missed tick that it makes up for: lost.
    if tick_ms < expired_before_ms:
        return LATE_MAX
    return None


def _end(
    draft: BatchDraft, pending: PendingRecord, outcome: Outcome, reason: str | None, successor: str | None
) -> None:
    key, accepted_at_ms = pending.key, accepted_at_ms_of(pending.packed)
    draft.rows.append(AuditRow(key.offset, pending.row_id, key.due_ms, accepted_at_ms, outcome, successor, reason))
