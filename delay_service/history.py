"""How recently ended messages ended, kept in memory by the worker that ended them.

Bounded by count and age; packed into bytes, because a million of them are kept by default (about 200 B each).
It is a convenience for questions, not a record: the audit topic is that.

Beside the endings stands the order in which they came, by commit: a dict knows that too, but to find its oldest entry
it walks over all that have left before it, which costs 50 us per message in a dict of 200,000.
"""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby, islice
from typing import NamedTuple

from delay_service.events import EVENTS_MAX, Events, told
from delayline.inquiry import Ending, Found, Place, Query, Row, State
from delayline.message import MessageId, Shard
from delayline.outcome import AuditRow, Outcome

_PACKED = struct.Struct(">QQQQB")
_OUTCOMES = list(Outcome)
_CODES = {outcome: code for code, outcome in enumerate(_OUTCOMES)}


class _Commit(NamedTuple):
    """First offsets of messages that one commit ended. `order_ms` never goes back from one commit to the next, as
    `at_ms` may where shards have different clocks."""

    order_ms: int
    at_ms: int
    shard: Shard
    offsets: list[int]


class History:
    """Endings by (shard, offset of the first acceptance), oldest forgotten first."""

    def __init__(self, messages_max: int, retention_ms: int) -> None:
        self._messages_max = messages_max
        self._retention_ms = retention_ms
        self._endings: dict[tuple[Shard, int], bytes] = {}
        self._commits: deque[_Commit] = deque()
        self._events = Events(min(messages_max, EVENTS_MAX), retention_ms)

    def record(
        self, shard: Shard, rows: Iterable[AuditRow], at_ms: int, versions: Mapping[str, int] | None = None
    ) -> None:
        """Remember the rows that ended a message for good, and those that moved one: `versions` has the new version
        of those that were carried on, by message id. Hot: once per delivered message."""
        endings, pack, codes = self._endings, _PACKED.pack, _CODES
        offsets: list[int] = []
        prefix = f"{shard.topic}.{shard.name}."
        for offset, message_id, due_ms, accepted_at_ms, outcome, _, reason in rows:
            if due_ms is not None and outcome is not Outcome.SUPERSEDED and self._messages_max > 0:
                first_due_ms = due_ms
                if message_id != f"{prefix}{offset}.{due_ms}":  # nearly always: half the cost of reading the id
                    first_due_ms, offset = _first(message_id or "")
                packed = pack(at_ms, due_ms, first_due_ms, accepted_at_ms, codes[outcome])
                endings[shard, offset] = packed + reason.encode() if reason else packed
                offsets.append(offset)
            elif versions and message_id is not None:
                self._moved(shard, message_id, at_ms, reason, versions)
        if offsets:
            order_ms = max(at_ms, self._commits[-1].order_ms) if self._commits else at_ms
            self._commits.append(_Commit(order_ms, at_ms, shard, offsets))
        self._forget(at_ms)
        self._events.forget(at_ms)

    def _moved(
        self, shard: Shard, message_id: str, at_ms: int, reason: str | None, versions: Mapping[str, int]
    ) -> None:
        version = versions.get(message_id.partition("~")[0])
        if version is not None:
            self._events.record(shard, _first(message_id)[1], at_ms, reason, version)

    def _forget(self, now_ms: int) -> None:
        """Drop what is too old or too many, from the oldest on."""
        endings, commits = self._endings, self._commits
        while commits:
            _, at_ms, shard, offsets = commits[0]
            gone = len(offsets) if now_ms - at_ms > self._retention_ms else len(endings) - self._messages_max
            if gone <= 0:
                return
            for offset in offsets[:gone]:
                endings.pop((shard, offset), None)
            if gone < len(offsets):
                del offsets[:gone]
                return
            commits.popleft()

    def newest(self, shards: Collection[Shard], query: Query, look_max: int) -> tuple[list[Row], Place | None, int]:
        """Messages that have ended as `query` says, newest first and about as many as it wants; the place up to which
        this has looked, None for the end; and at how many. After `look_max` no other commit is begun."""
        rows: list[Row] = []
        looked = 0
        for order_ms, commits in self._moments(query.after):
            if looked >= look_max or len(rows) > query.limit:
                return rows, Place(-order_ms, Shard("", ""), -1), looked
            commits = [commit for commit in commits if commit.shard in shards]
            looked += 1 + sum(len(commit.offsets) for commit in commits)
            found = [row for commit in commits for row in self._rows(commit, query)]
            rows += sorted(found, key=lambda row: row.place)
        return rows, None, looked

    def _rows(self, commit: _Commit, query: Query) -> Iterator[Row]:
        order_ms, at_ms, shard, offsets = commit
        for offset in offsets:
            place, packed = Place(-order_ms, shard, offset), self._endings.get((shard, offset))
            if packed is None or _OUTCOMES[packed[_PACKED.size - 1]].value != query.state.value:
                continue
            found = self.find(shard, offset)
            if found is None or found.ending is None or found.ending.at_ms != at_ms:
                continue  # it ended again, later
            if query.due_from_ms <= found.due_ms < query.due_until_ms and (
                query.after is None or place > query.after
            ):
                yield Row(place, found)

    def _moments(self, after: Place | None) -> Iterator[tuple[int, list[_Commit]]]:
        """Commits of one `order_ms` after the other, newest first, from that of `after` on."""
        last = len(self._commits)
        if after is not None:
            last = bisect_right(self._commits, -after.rank, key=lambda commit: commit.order_ms)
        newest_first = islice(reversed(self._commits), len(self._commits) - last, None)
        return (
            (order_ms, list(commits)) for order_ms, commits in groupby(newest_first, lambda commit: commit.order_ms)
        )

    def find(self, shard: Shard, offset: int, first_due_ms: int | None = None) -> Found | None:
        """The message that was accepted at this offset; where `first_due_ms` is given, only with that in its id."""
        packed = self._endings.get((shard, offset))
        if packed is None:
            return None
        at_ms, due_ms, known_due_ms, accepted_at_ms, code = _PACKED.unpack_from(packed)
        if first_due_ms not in (None, known_due_ms):
            return None
        outcome = _OUTCOMES[code]
        lateness_ms = at_ms - due_ms if outcome is Outcome.DELIVERED else None
        ending = Ending(outcome, at_ms, lateness_ms, packed[_PACKED.size :].decode() or None)
        message_id = MessageId(shard, offset, known_due_ms)
        moves = self._events.of(shard, offset)
        version = moves[-1].version if moves else 0
        return Found(message_id, State(outcome.value), accepted_at_ms, due_ms, version, ending=ending)

    def told(self, found: Found) -> Found:
        """With what happened to it."""
        return replace(found, history=told(found, self._events.of(found.id.shard, found.id.offset)))


def _first(message_id: str) -> tuple[int, int]:
    """(due_ms, offset) in the message id: those of the first acceptance. What an occurrence ends with, its series
    ends with for the time being."""
    _, offset, due_ms = message_id.partition("~")[0].rsplit(".", 2)
    return int(due_ms), int(offset)
