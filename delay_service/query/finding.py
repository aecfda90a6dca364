"""Questions about many messages, answered from the worker's index and history in bounded stretches.

The worker's thread is asked for some hundred entries at a time, and between two stretches it goes on delivering.
Here, in the caller's thread, the stretches become one list:

    front   a shard, how far it has been looked at (everything up to `looked`), and what was found there and is not in
            the list yet. The lowest front goes first: what it shows is the next row, and where it has nothing to show
            the next stretch begins.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from heapq import heapify, heappop, heapreplace, nsmallest
from typing import NamedTuple, Protocol, TypeVar

from delay_service.core.history import History
from delay_service.core.pending_messages import Pending
from delay_service.core.shard import Shard
from delay_service.worker.loop import Worker
from delay_service.worker.owned import ShardStatus
from delayline.buffer.record import decode_value
from delayline.clock import Clock, SystemClock
from delayline.errors import MalformedRecord
from delayline.questions.inquiry import (
    LAST_OFFSET,
    DueCounts,
    DueQuery,
    Found,
    Listing,
    Place,
    Query,
    Row,
    ShardFigures,
    State,
)
from delayline.records.message import Key, MessageId
from delayline.records.message import Shard as ShardId
from delayline.records.record import accepted_at_ms_of, encode_bytes, key_of
from delayline.schedule.terms import own_name
from store.index import Buckets

T = TypeVar("T")
_CLOCK = SystemClock()
MINUTE_MS = 60_000

STRETCH_ENTRIES = 1000
STRETCH_BYTES = 1 << 20
STRETCH_SHARDS = 16
"""What the worker's thread does for one question: about 3 ms."""

ENDED_AT_ONCE = 5000
COUNTED_AT_ONCE = 4
OPENED_AT_ONCE = 256

LOOKED_MAX = 5000
"""Entries for one page, so that it takes less than 50 ms beside a busy flow (bench/find.py)."""

SEARCH_S = 0.5
"""How long a page looks for a key, in stretches as short as any others. The index has no order by key: to keep one
would cost every message a second write and a second delete, for a question that few ask. So the answer counts at how
many it has looked, and the search goes on behind the place that was reached."""


class Ask(Protocol):
    """Runs a question in the worker's thread. Raises OwnerUnavailable."""

    def __call__(self, question: Callable[[Worker], T]) -> T: ...


class Seen(NamedTuple):
    """A pending record: its key and index value. `moved` names a message that is re-appended and not read back: the
    key is its new one then, but for the offset, and the value the old one."""

    key: Key
    value: bytes
    moved: str | None = None


class Stretch(NamedTuple):
    """What of a shard was looked at: up to `upto`, or to the end where that is None; `entries` in all."""

    seen: Sequence[Seen]
    upto: Key | None
    entries: int


@dataclass(slots=True)
class _Front:
    shard: ShardId
    looked: Key
    seen: deque[Seen] = field(default_factory=deque)
    is_end: bool = False

    @property
    def place(self) -> Place:
        """That of the next row, or up to which there is none."""
        due_ms, offset = self.seen[0].key if self.seen else self.looked
        return Place(due_ms, self.shard, offset)

    @property
    def is_done(self) -> bool:
        return self.is_end and not self.seen


def page(ask: Ask, history: History, shards: Sequence[ShardId], query: Query, clock: Clock = _CLOCK) -> Listing:
    """What the worker finds; `clock` bounds how long it looks for a key. Raises OwnerUnavailable."""
    if query.state is not State.PENDING:
        return _ended(ask, history, shards, query)
    if query.own_id is not None:
        return _named(ask, shards, query, query.own_id)
    return _Walk(ask, shards, query, clock).page()


class _Walk:
    """Through what is pending in some shards, for one page."""

    def __init__(self, ask: Ask, shards: Sequence[ShardId], query: Query, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._until_s = clock.monotonic_s() + SEARCH_S
        self._looked = 0
        self._query = query
        self._key = None if query.key is None else encode_bytes(query.key)
        found = [front for some in _chunks(shards, OPENED_AT_ONCE) for front in ask(self._opening(some))]
        self._answering = {front.shard for front in found}
        self._fronts = [(front.place, front) for front in found if not front.is_done]
        heapify(self._fronts)

    def page(self) -> Listing:
        rows: list[Row] = []
        while self._fronts and len(rows) < self._query.limit:
            front = self._fronts[0][1]
            if front.seen:
                rows.append(_row(front.shard, front.seen.popleft()))
                self._move(front)
            elif self._may_look():
                self._looked += self._go_on(self._query.limit - len(rows))
            else:
                return self._listing(rows, front.place)
        return self._listing(rows, rows[-1].place if self._fronts else None)

    def _may_look(self) -> bool:
        if self._looked < LOOKED_MAX:
            return True
        return self._key is not None and self._clock.monotonic_s() < self._until_s

    def _move(self, lowest: _Front) -> None:
        if lowest.is_done:
            heappop(self._fronts)
        else:
            heapreplace(self._fronts, (lowest.place, lowest))

    def _listing(self, rows: Sequence[Row], upto: Place | None) -> Listing:
        return Listing(tuple(sorted(self._answering)), tuple(rows), upto, self._looked)

    def _opening(self, shards: Sequence[ShardId]) -> Callable[[Worker], list[_Front]]:
        def question(worker: Worker) -> list[_Front]:
            cores = ((shard, owned_core(worker, shard)) for shard in shards)
            return [self._open(shard, core) for shard, core in cores if core is not None]

        return question

    def _open(self, shard: ShardId, core: Shard) -> _Front:
        """In the worker's thread. Nothing is pending before the shard's next due time, so it need not be looked at
        before the list has come so far."""
        looked = _start(shard, self._query)
        next_due_ms = _next_due_ms(core)
        if next_due_ms is None:
            return _Front(shard, looked, is_end=True)
        return _Front(shard, max(looked, Key(next_due_ms - 1, LAST_OFFSET)))

    def _go_on(self, rows_left: int) -> int:
        """One stretch for the lowest fronts that have nothing to show; how many entries it was."""
        waiting = nsmallest(STRETCH_SHARDS, (entry for entry in self._fronts if not entry[1].seen))
        fronts = [front for _, front in waiting]
        each = STRETCH_ENTRIES // len(fronts)
        limit = each if self._key is not None else min(each, rows_left + 1)
        found = self._ask(self._looking(fronts, limit))
        for front, stretch in zip(fronts, found, strict=True):
            self._show(front, stretch)
        self._fronts = [(front.place, front) for _, front in self._fronts if not front.is_done]
        heapify(self._fronts)
        return sum(stretch.entries for stretch in found if stretch is not None)

    def _show(self, front: _Front, stretch: Stretch | None) -> None:
        """A shard that has left the worker meanwhile is not answered for: what was found of it is no list."""
        if stretch is None:
            self._answering.discard(front.shard)
            front.is_end = True
            return
        front.seen.extend(stretch.seen)
        front.is_end = stretch.upto is None
        front.looked = stretch.upto or front.looked

    def _looking(self, fronts: Sequence[_Front], limit: int) -> Callable[[Worker], list[Stretch | None]]:
        bytes_max = STRETCH_BYTES // len(fronts)

        def question(worker: Worker) -> list[Stretch | None]:
            cores = [(owned_core(worker, front.shard), front.looked) for front in fronts]
            return [self._look(core, looked, limit, bytes_max) if core else None for core, looked in cores]

        return question

    def _look(self, core: Shard, after: Key, limit: int, bytes_max: int) -> Stretch:
        """In the worker's thread."""
        index, moving = core.messages.waiting()
        entries = index.scan(after, limit, bytes_max)
        is_end = not entries or (len(entries) < limit and not index.keys(entries[-1].key, 1))
        upto = None if is_end else entries[-1].key
        wants = self._wants
        seen = [Seen(Key(due_ms, offset), value) for due_ms, offset, value in entries if wants(due_ms, value)]
        if moving:
            moved = (Seen(key, value, message_id) for message_id, (key, value) in moving.items())
            found = [one for one in moved if after < one.key and (upto is None or one.key <= upto)]
            seen = sorted(seen + [one for one in found if wants(one.key.due_ms, one.value)])
        if upto is not None and upto.due_ms >= self._query.due_until_ms:
            upto = None
        return Stretch(seen, upto, len(entries))

    def _wants(self, due_ms: int, value: bytes) -> bool:
        """Hot where a key is looked for: once per entry. A record begins with its key."""
        if due_ms >= self._query.due_until_ms:
            return False
        return self._key is None or decode_value(value)[1].startswith(self._key)


def _start(shard: ShardId, query: Query) -> Key:
    """The key above which the shard's part of the list goes on."""
    start = Key(query.due_from_ms - 1, LAST_OFFSET)
    if query.after is None:
        return start
    due_ms, reached, offset = query.after
    if shard == reached:
        return max(start, Key(due_ms, offset))
    return max(start, Key(due_ms if shard < reached else due_ms - 1, LAST_OFFSET))


def _next_due_ms(core: Shard) -> int | None:
    index, moving = core.messages.waiting()
    due_times_ms = [key.due_ms for key, _ in moving.values()]
    if (next_due_ms := index.next_due_ms()) is not None:
        due_times_ms.append(next_due_ms)
    return min(due_times_ms, default=None)


def _row(shard: ShardId, seen: Seen) -> Row:
    due_ms, offset = seen.key
    meta, packed = decode_value(seen.value)
    origin = seen.moved or (meta.origin if meta else None)
    message_id = MessageId.parse(origin) if origin else MessageId(shard, offset, due_ms)
    version = (meta.version if meta else 0) + (seen.moved is not None)
    try:
        key = key_of(packed)
    except MalformedRecord:
        key = None  # it goes to the dead letters
    is_dead = meta is not None and meta.dead_code is not None
    accepted_at_ms = meta.accepted_at_ms if meta and is_dead else accepted_at_ms_of(packed)
    terms = meta.terms if meta else None
    found = Found(message_id, State.PENDING, accepted_at_ms, due_ms, version, key, terms=terms)
    return Row(Place(due_ms, shard, offset), found)


def _named(ask: Ask, shards: Sequence[ShardId], query: Query, own_id: str) -> Listing:
    """Every shard may have a message with this own id, and none has two."""

    def looking(some: Sequence[ShardId]) -> Callable[[Worker], list[tuple[ShardId, Pending | None]]]:
        def question(worker: Worker) -> list[tuple[ShardId, Pending | None]]:
            cores = ((shard, owned_core(worker, shard)) for shard in some)
            return [(shard, core.messages.find_named(own_name(own_id))) for shard, core in cores if core is not None]

        return question

    found = [one for some in _chunks(shards, OPENED_AT_ONCE) for one in ask(looking(some))]
    rows = [_row_of(shard, pending) for shard, pending in found if pending is not None]
    wanted = sorted((row for row in rows if _fits(row, query)), key=lambda row: row.place)
    upto = wanted[query.limit - 1].place if len(wanted) > query.limit else None
    return Listing(tuple(sorted(shard for shard, _ in found)), tuple(wanted[: query.limit]), upto)


def _row_of(shard: ShardId, pending: Pending) -> Row:
    message_id, (due_ms, offset), record, accepted_at_ms, version, terms = pending
    name = MessageId.parse(message_id)
    found = Found(name, State.PENDING, accepted_at_ms, due_ms, version, record.key, terms=terms)
    return Row(Place(due_ms, shard, offset), found)


def _fits(row: Row, query: Query) -> bool:
    is_behind = query.after is None or row.place > query.after
    is_due = query.due_from_ms <= row.found.due_ms < query.due_until_ms
    return is_behind and is_due and query.key in (None, row.found.key)


# --- what has ended


def _ended(ask: Ask, history: History, shards: Sequence[ShardId], query: Query) -> Listing:
    """As far as this worker remembers."""
    answering = {shard for some in _chunks(shards, OPENED_AT_ONCE) for shard in ask(_owned(some))}
    rows: list[Row] = []
    looked = 0
    upto = query.after
    while looked < LOOKED_MAX and len(rows) <= query.limit:
        found, upto, count = ask(_newest(history, answering, replace(query, after=upto)))
        rows += found
        looked += count
        if upto is None:
            break
    if len(rows) > query.limit:
        rows = rows[: query.limit]
        upto = rows[-1].place
    return Listing(tuple(sorted(answering)), tuple(rows), upto)


def _newest(
    history: History, shards: set[ShardId], query: Query
) -> Callable[[Worker], tuple[list[Row], Place | None, int]]:
    return lambda _: history.newest(shards, query, ENDED_AT_ONCE)


def _owned(shards: Sequence[ShardId]) -> Callable[[Worker], list[ShardId]]:
    return lambda worker: [shard for shard in shards if owned_core(worker, shard) is not None]


# --- counts


def due_counts(ask: Ask, shards: Sequence[ShardId], query: DueQuery) -> list[DueCounts]:
    """Raises OwnerUnavailable."""
    buckets = Buckets(*astuple(query))

    def counting(some: Sequence[ShardId]) -> Callable[[Worker], list[DueCounts]]:
        def question(worker: Worker) -> list[DueCounts]:
            cores = ((shard, owned_core(worker, shard)) for shard in some)
            return [DueCounts(shard, _count(core, buckets)) for shard, core in cores if core is not None]

        return question

    return [counts for some in _chunks(shards, COUNTED_AT_ONCE) for counts in ask(counting(some))]


def _count(core: Shard, buckets: Buckets) -> tuple[int, ...]:
    """In the worker's thread."""
    index, moving = core.messages.waiting()
    counts = index.histogram(buckets)
    for key, _ in moving.values():
        counts[buckets.slot(key.due_ms // MINUTE_MS)] += 1
    return tuple(counts)


# --- how shards stand


def figures(status: ShardStatus) -> ShardFigures:
    """A status in plain words."""
    return ShardFigures(
        status.id,
        status.ready,
        status.stalled,
        status.detail,
        round(status.retry_s * 1000),
        status.pending,
        status.backlog,
        status.oldest_due_ms,
        status.ingest_lag,
        status.owner_epoch,
        status.next_offset,
        status.low_offset,
        status.paused,
        status.repeats,
    )


def owned_core(worker: Worker, shard: ShardId) -> Shard | None:
    """The shard, where this worker has taken it over and read it to the end: before, it is unknown what is
    pending."""
    core = worker.core(shard)
    return core if core is not None and core.caught_up else None


def _chunks(shards: Sequence[ShardId], size: int) -> Iterator[Sequence[ShardId]]:
    return (shards[at : at + size] for at in range(0, len(shards), size))
