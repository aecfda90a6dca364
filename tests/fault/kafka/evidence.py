"""From what clients know and readers saw to a history for the simulation's judge (`tests.simulation.checker`).

Which records form one commit is seen in the target partition: a transaction leaves a marker behind its records, so
what was committed together is a run of offsets without a hole. Which cursor belongs to which deliveries cannot be
seen; cursors are judged by themselves (`Moved`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from delayline.buffer.cursor import Cursor
from delayline.names import Names
from delayline.records.record import decode_body
from tests.fault.kafka.clients import COMMIT_S, Fate, Ledger, Place, Sent
from tests.fault.kafka.reader import At, Seen
from tests.simulation import facts
from tests.simulation.history import MESSAGE, Appended, Committed, Dead, Ended, Fact, Moved
from tests.simulation.history import Cursor as CursorFact

OUTAGE_MS = 1000
"""Between two records that lie side by side: the second belongs to a later transaction."""

MARKERS_MS = 1000
"""Within that a broker that lives has written the markers of a transaction."""


class Outage(NamedTuple):
    """Of the only broker; epoch ms."""

    killed_ms: int
    back_ms: int


@dataclass(frozen=True)
class Evidence:
    """All that is known about one run on one cluster."""

    names: Names
    shards: Sequence[At]
    ledger: Ledger
    seen: Mapping[At, Sequence[Seen]]
    outages: Sequence[Outage] = ()

    def history(self) -> list[Fact]:
        """Shard after shard: each is judged apart."""
        rows, dead, cursors = self._rows(), self._dead(), self._cursors()
        acknowledged = self._acknowledged()
        found: list[Fact] = []
        for shard in self.shards:
            name = shard_name(shard)
            appended = self._appended(shard, acknowledged.get(shard, {}))
            found += _in_turn(appended, list(self._commits(shard)))
            found.append(Committed(name, dead=dead.get(name, ()), rows=rows.get(name, [])))
            found += _moves(name, cursors.get(name, []))
        return [*found, Ended(drained=True)]

    def forgotten(self) -> frozenset[bytes]:
        """Tags of clients' transactions that the only broker has committed and forgotten: it was killed before their
        markers were written, and the client's next transaction ended them in its own way (docs/guarantees.md). Nobody
        can read them, who reads what is behind them."""
        read = {at: {seen.offset for seen in self.seen[at]} for at in self.seen}
        found = set()
        for tag, sent in self.ledger.sent.items():
            if sent.place is not None and sent.committed_ms is not None and self._in_an_outage(sent.committed_ms):
                offsets = read[self.names.buffer(sent.topic), sent.place.partition]
                if sent.place.offset not in offsets and max(offsets, default=-1) > sent.place.offset:
                    found.add(tag)
        return frozenset(found)

    def _in_an_outage(self, committed_ms: int) -> bool:
        asked_ms = int(COMMIT_S * 1000)
        return any(
            outage.killed_ms - MARKERS_MS <= committed_ms <= outage.back_ms + asked_ms for outage in self.outages
        )

    def _acknowledged(self) -> dict[At, dict[int, Appended]]:
        """What clients had acknowledged, whether or not it was read in the buffer."""
        found: dict[At, dict[int, Appended]] = {}
        forgotten = self.forgotten()
        for tag, sent in self.ledger.sent.items():
            if sent.fate is Fate.ACKNOWLEDGED and sent.place is not None and tag not in forgotten:
                shard = sent.topic, sent.place.partition
                found.setdefault(shard, {})[sent.place.offset] = _message(shard, sent, sent.place)
        return found

    def _appended(self, shard: At, known: dict[int, Appended]) -> list[Appended]:
        """Every record of the buffer. What nobody sent, or what was aborted, is none: if it is delivered all the
        same, the judge will not know it."""
        found = dict(known)
        for seen in self.seen[self.names.buffer(shard[0]), shard[1]]:
            record = decode_body(seen.body)
            sent = self.ledger.sent.get(record.value or b"")
            if sent is None and any(name.startswith(b"delayline-") for name, _ in record.headers):
                found[seen.offset] = facts.own_record(shard_name(shard), seen.record)
            elif sent is not None and sent.fate is Fate.UNKNOWN:
                found[seen.offset] = _message(shard, sent, Place(shard[1], seen.offset, seen.at_ms))
        return [found[offset] for offset in sorted(found)]

    def _commits(self, shard: At) -> Iterator[Committed]:
        """The transactions that delivered into the target partition, in their order: a marker stands between them, or
        an outage has swallowed it, which leaves a gap in time."""
        group: list[Seen] = []
        for seen in self.seen[shard]:
            if group and (seen.offset != group[-1].offset + 1 or seen.at_ms - group[-1].at_ms > OUTAGE_MS):
                yield _committed(shard, group)
                group = []
            group.append(seen)
        if group:
            yield _committed(shard, group)

    def _rows(self) -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = {}
        for body in self._bodies(self.names.audit):
            value = msgspec.json.decode(decode_body(body).value or b"")
            found.setdefault(f"{value['topic']}.{value['shard']}", []).extend(facts.rows(body))
        return found

    def _dead(self) -> dict[str, list[Dead]]:
        found: dict[str, list[Dead]] = {}
        for body in self._bodies(self.names.dead):
            ours = dict(decode_body(body).headers)
            topic, partition = ((ours[name] or b"").decode() for name in (b"delayline-topic", b"delayline-partition"))
            found.setdefault(f"{topic}.{partition}", []).append(facts.dead(body))
        return found

    def _cursors(self) -> dict[str, list[CursorFact]]:
        found: dict[str, list[CursorFact]] = {}
        for body in self._bodies(self.names.cursor):
            key, value, _ = decode_body(body)
            if key and value:  # others only carry the marker of a transaction
                found.setdefault(key.decode(), []).append(facts.cursor(Cursor.decode(value)))
        return found

    def _bodies(self, topic: str) -> Iterator[bytes]:
        for at in sorted(at for at in self.seen if at[0] == topic):
            yield from (seen.body for seen in self.seen[at])


def shard_name(shard: At) -> str:
    return f"{shard[0]}.{shard[1]}"


def _message(shard: At, sent: Sent, place: Place) -> Appended:
    due_ms = place.at_ms if sent.undeliverable else sent.due_ms(place.at_ms)
    name = shard_name(shard)
    message_id = f"{name}.{place.offset}.{due_ms}"
    return Appended(
        name,
        place.offset,
        MESSAGE,
        place.at_ms,
        message_id,
        due_ms,
        payload=sent.payload,
        undeliverable=sent.undeliverable,
    )


def _committed(shard: At, group: Sequence[Seen]) -> Committed:
    """`clock_ms` is the first record's: all of them were due when it was stamped."""
    delivered = [facts.delivered(seen.body) for seen in group]
    return Committed(shard_name(shard), deliveries=delivered, clock_ms=min(seen.at_ms for seen in group))


def _in_turn(appended: Sequence[Appended], commits: Sequence[Committed]) -> Iterator[Fact]:
    """Each commit behind the records that it can have known, so that little is pending at a time."""
    offsets = {fact.id: fact.offset for fact in appended}
    written = 0
    for commit in commits:
        last = max((offsets.get(each.id, -1) for each in commit.deliveries), default=-1)
        while written < len(appended) and appended[written].offset <= last:
            yield appended[written]
            written += 1
        yield commit
    yield from appended[written:]


def _moves(shard: str, cursors: Sequence[CursorFact]) -> Iterator[Fact]:
    before: CursorFact | None = None
    for after in cursors:
        yield Moved(shard, before, after)
        before = after
