"""How recently ended messages ended, kept in memory by the worker that ended them.

Bounded by count and age. A million of them are kept by default, so a plain delivery is a place in the columns of its
commit, and whatever else ended is packed into bytes. It is a convenience for questions, not a record: the audit topic
is that.

Beside the endings stands the order in which they came, by commit: a dict knows that too, but to find its oldest entry
it walks over all that have left before it, which costs 50 us per message in a dict of 200,000.
"""

import struct
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from delay_service.core.events import EVENTS_MAX, Events, history_of
from delayline.buffer.outcome import AuditRow, Outcome, PlainRows, moments
from delayline.questions.inquiry import Ending, Found, Place, Query, Row, State
from delayline.records.message import MessageId, Shard

_PACKED = struct.Struct(">QQQQB")
_DIGITS = len("1767225600000,")
_CODE_AT = _PACKED.size - 1
_OUTCOMES = list(Outcome)
_CODES = {outcome: code for code, outcome in enumerate(_OUTCOMES)}


_Ending = bytes | int
"""Packed, or the number of the commit in whose columns it stands: over a million references to objects the garbage
collector would walk, for 40 ms."""


def _element(column: bytes, number: int) -> int:
    """One of the moments of a column. It begins where it does if all before it are as long as those of this century:
    reading them all takes twenty times as long."""
    at = _DIGITS * number
    if column.count(b",", 0, at) != number or (at and column[at - 1 : at] != b","):
        return moments(column)[number]
    end = column.find(b",", at)
    return int(column[at:] if end < 0 else column[at:end])


@dataclass(slots=True)
class _Commit:
    """First offsets of messages that one commit ended, all or some of them; the first `forgotten` are known no more.
    `order_ms` never goes back from one commit to the next, as `at_ms` may where shards have different clocks.

    Plain deliveries stand here by column (see PlainRows), and then it has a `number`."""

    order_ms: int
    at_ms: int
    shard: Shard
    offsets: Sequence[int]
    number: int = 0
    dues_ms: Sequence[int] = ()
    accepted: bytes = b""
    forgotten: int = 0

    def __len__(self) -> int:
        return len(self.offsets) - self.forgotten


class History:
    """Endings by shard and offset of the first acceptance, oldest forgotten first; `len` is their number."""

    def __init__(self, messages_max: int, retention_ms: int) -> None:
        self._messages_max = messages_max
        self._retention_ms = retention_ms
        self.endings: dict[Shard, dict[int, _Ending]] = {}
        self.plain: dict[int, _Commit] = {}
        self._last_number = 0
        self.commits: deque[_Commit] = deque()
        self._length = 0
        self.events = Events(min(messages_max, EVENTS_MAX), retention_ms)

    def __len__(self) -> int:
        return self._length

    def record(
        self,
        shard: Shard,
        rows: Iterable[AuditRow],
        at_ms: int,
        versions: Mapping[str, int] | None = None,
        plain: Iterable[PlainRows] = (),
    ) -> None:
        """Remember the rows that ended a message for good, and those that moved one: `versions` has the new version
        of those that were carried on, by message id. Hot: with all that are `plain`, by column."""
        endings: dict[int, _Ending] = {}
        for row in rows:
            if row.due_ms is not None and not _goes_on(row):
                offset, packed = _packed(row, at_ms)
                endings[offset] = packed
            elif versions and row.id is not None:
                self._moved(shard, row.id, at_ms, row.reason, versions)
        if self._messages_max > 0:
            for block in plain:
                self._last_number = number = self._last_number + 1
                offsets, dues_ms = array("Q", block.offsets), array("Q", block.dues_ms)
                self.plain[number] = commit = _Commit(at_ms, at_ms, shard, offsets, number, dues_ms, block.accepted)
                self._keep(commit, dict.fromkeys(block.offsets, number))
            if endings:
                self._keep(_Commit(at_ms, at_ms, shard, list(endings)), endings)
        self._forget(at_ms)
        self.events.forget(at_ms)

    def _keep(self, commit: _Commit, endings: Mapping[int, _Ending]) -> None:
        known = self.endings.setdefault(commit.shard, {})
        before = len(known)
        known.update(endings)
        self._length += len(known) - before
        if self.commits:
            commit.order_ms = max(commit.at_ms, self.commits[-1].order_ms)
        self.commits.append(commit)

    def _moved(
        self, shard: Shard, message_id: str, at_ms: int, reason: str | None, versions: Mapping[str, int]
    ) -> None:
        version = versions.get(message_id.partition("~")[0])
        if version is not None:
            self.events.record(shard, _first(message_id)[1], at_ms, reason, version)

    def _forget(self, now_ms: int) -> None:
        """Drop what is too old or too many, from the oldest on."""
        commits = self.commits
        while commits:
            oldest = commits[0]
            gone = len(oldest) if now_ms - oldest.at_ms > self._retention_ms else self._length - self._messages_max
            if gone <= 0:
                return
            self._drop(oldest.shard, oldest.offsets[oldest.forgotten : oldest.forgotten + gone])
            if gone < len(oldest):
                oldest.forgotten += gone
                return
            self.plain.pop(commits.popleft().number, None)

    def _drop(self, shard: Shard, offsets: Iterable[int]) -> None:
        known = self.endings.get(shard, {})  # one that ended again has left with its first commit
        before = len(known)
        for offset in offsets:
            known.pop(offset, None)
        self._length -= before - len(known)
        if not known:
            self.endings.pop(shard, None)

    def newest(self, shards: Collection[Shard], query: Query, look_max: int) -> tuple[list[Row], Place | None, int]:
        """Messages that have ended as `query` asks, newest first and about as many as it wants; the place up to which
        this has looked, None for the end; and at how many. After `look_max` no other commit is begun."""
        rows: list[Row] = []
        looked = 0
        for order_ms, commits in self._moments(query.after):
            if looked >= look_max or len(rows) > query.limit:
                return rows, Place(-order_ms, Shard("", ""), -1), looked
            commits = [commit for commit in commits if commit.shard in shards]
            looked += 1 + sum(map(len, commits))
            found = [row for commit in commits for row in self._rows(commit, query)]
            rows += sorted(found, key=lambda row: row.place)
        return rows, None, looked

    def _rows(self, commit: _Commit, query: Query) -> Iterator[Row]:
        known = self.endings.get(commit.shard, {})
        for number in range(commit.forgotten, len(commit.offsets)):
            offset = commit.offsets[number]
            place, ending = Place(-commit.order_ms, commit.shard, offset), known.get(offset)
            if ending is None or _outcome(ending).value != query.state.value:
                continue
            if isinstance(ending, int) and ending != commit.number:
                continue  # it ended again, later
            found = self._found(commit.shard, offset, ending, number)
            if found.ending is None or found.ending.at_ms != commit.at_ms:
                continue  # likewise
            if query.due_from_ms <= found.due_ms < query.due_until_ms and (
                query.after is None or place > query.after
            ):
                yield Row(place, found)

    def _moments(self, after: Place | None) -> Iterator[tuple[int, list[_Commit]]]:
        """Commits of one `order_ms` after the other, newest first, from that of `after` on."""
        last = len(self.commits)
        if after is not None:
            last = bisect_right(self.commits, -after.rank, key=lambda commit: commit.order_ms)
        newest_first = islice(reversed(self.commits), len(self.commits) - last, None)
        return (
            (order_ms, list(commits)) for order_ms, commits in groupby(newest_first, lambda commit: commit.order_ms)
        )

    def find(self, shard: Shard, offset: int, first_due_ms: int | None = None) -> Found | None:
        """The message that was accepted at this offset; where `first_due_ms` is given, only with that in its id."""
        ending = self.endings.get(shard, {}).get(offset)
        if ending is None:
            return None
        number = self.plain[ending].offsets.index(offset) if isinstance(ending, int) else 0
        found = self._found(shard, offset, ending, number)
        return found if first_due_ms in (None, found.id.due_ms) else None

    def _found(self, shard: Shard, offset: int, known: _Ending, number: int) -> Found:
        """`number` is its place in the columns, where it is in some."""
        outcome, reason = _outcome(known), None
        if isinstance(known, bytes):
            at_ms, due_ms, first_due_ms, accepted_at_ms, _ = _PACKED.unpack_from(known)
            reason = known[_PACKED.size :].decode() or None
        else:
            commit = self.plain[known]
            at_ms, due_ms, first_due_ms = commit.at_ms, commit.dues_ms[number], commit.dues_ms[number]
            accepted_at_ms = _element(commit.accepted, number)
        lateness_ms = at_ms - due_ms if outcome is Outcome.DELIVERED else None
        moves = self.events.of(shard, offset)
        version = moves[-1].version if moves else 0
        message_id, ending = MessageId(shard, offset, first_due_ms), Ending(outcome, at_ms, lateness_ms, reason)
        return Found(message_id, State(outcome.value), accepted_at_ms, due_ms, version, ending=ending)

    def with_events(self, found: Found) -> Found:
        """With what happened to it."""
        return replace(found, history=history_of(found, self.events.of(found.id.shard, found.id.offset)))


def _goes_on(row: AuditRow) -> bool:
    """Whether another record carries the message on: that one has its name. A message that was replaced has ended."""
    if row.outcome is not Outcome.SUPERSEDED:
        return False
    return row.successor is None or _base(row.successor) == _base(row.id or "")


def _base(message_id: str) -> str:
    return message_id.partition("~")[0]


def _packed(row: AuditRow, at_ms: int) -> tuple[int, bytes]:
    """The offset of the first acceptance of the message that has ended, and how."""
    offset, message_id, due_ms, accepted_at_ms, outcome, _, reason = row
    first_due_ms, offset = _first(message_id or "")
    packed = _PACKED.pack(at_ms, due_ms, first_due_ms, accepted_at_ms, _CODES[outcome])
    return offset, packed + reason.encode() if reason else packed


def _outcome(known: _Ending) -> Outcome:
    return _OUTCOMES[known[_CODE_AT]] if isinstance(known, bytes) else Outcome.DELIVERED


def _first(message_id: str) -> tuple[int, int]:
    """(due_ms, offset) in the message id: those of the first acceptance. What an occurrence ends with, its series
    ends with for the time being."""
    _, offset, due_ms = message_id.partition("~")[0].rsplit(".", 2)
    return int(due_ms), int(offset)
