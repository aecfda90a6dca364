"""Bringing back what was purged, or cancelled with others: copies of it are sent as new messages.

An undo is opened before anything is ended: its record in `<namespace>.purged` has the id, and what is ended carries
it. To undo is to claim the name `undo` (`mq.contract.Queue.claim`), as a repair does, and only then to look. What is
sent under the claim is sent with a mark of how far it goes, in one atomic append; so the next claim, after a
crash or at the same time in another process, sees exactly what has been sent and goes on behind it. Of two that undo
at once the first one ends with an error.

Everything here blocks and runs in threads. One chunk is held at a time, besides what one read brings.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import NamedTuple

from api.reading.own_topic import OwnTopic
from api.reading.reader import Positions
from delayline.buffer.undo import (
    UNDO_MAX_MS,
    Copy,
    Mark,
    Opening,
    encode_mark,
    encode_opening,
    read_opening,
    read_purged,
)
from delayline.names import Names
from mq.contract import Admin, Append, Claim, Client, LogRecord
from mq.errors import QueueUnavailable, TopicUnknown

CLAIM = "undo"
CHUNK = 500
CHUNK_BYTES_MAX = 1 << 20
"""Of one atomic append; a copy that is larger goes alone."""

LOOKED_AT_ONCE = 2000
"""Records in a step, so that each is short."""

SETTLED_S = 5.0
"""How long a step waits for open transactions; an undo that is asked again goes on."""

STORED_S = 10.0


class Opened(NamedTuple):
    """An undo, and when it was opened."""

    id: str
    opened_at_ms: int
    opening: Opening

    @property
    def until_ms(self) -> int:
        """The last moment at which it may be asked for."""
        return self.opened_at_ms + self.opening.undo_ms


class _Listed(NamedTuple):
    """An undo, and the size of its record."""

    opened: Opened
    size: int


class Purged:
    """The topic of one installation. Any thread."""

    def __init__(self, client: Client, admin: Admin, claim: Callable[[str], Claim], names: Names) -> None:
        self._client = client
        self._admin = admin
        self._claim = claim
        self._names = names
        self._log = OwnTopic(client, admin, names.purged, "what was purged")

    def open(self, topic: str, of: str, undo_ms: int) -> Opened:
        """For what is about to be ended, by a PURGE or a CANCEL. Raises TopicUnknown, QueueUnavailable."""
        self._admin.ensure_own()
        info = self._admin.topic(self._names.purged)
        ends = {name: self._client.offsets(self._names.purged, name)[1] for name in info.taking}
        target = self._admin.topic(topic)
        opening = Opening(of=of, topic=topic, topic_id=target.topic_id.hex(), undo_ms=undo_ms, ends=ends)
        append = Append(self._names.purged, info.taking[0], encode_opening(opening))
        (at,) = self._client.append([append]).result(STORED_S)
        return Opened(f"{at.partition}.{at.offset}", at.appended_at_ms, opening)

    def find(self, topic: str, undo: str) -> Opened | None:
        """The undo of this topic with this id. Raises QueueUnavailable."""
        found = self._log.get(undo)
        opened = None if found is None else _opened(*found)
        return None if opened is None or opened.opening.topic != topic else opened

    def is_of_another(self, opened: Opened) -> bool:
        """Whether the topic was deleted and made again since. Raises TopicUnknown, QueueUnavailable."""
        return self._topic_id(opened.opening.topic) != opened.opening.topic_id

    def _topic_id(self, topic: str) -> str:
        return self._admin.topic(topic).topic_id.hex()

    def newest(
        self, topic: str, now_ms: int, before: str | None, limit: int
    ) -> tuple[list[Opened], Positions | None]:
        """The undos of this topic that can be asked for at `now_ms`, newest first; and the positions before which the
        list goes on, None at its end. Raises Refusal, TopicUnknown, QueueUnavailable."""
        topic_id = self._topic_id(topic)

        def read(partition: str, record: LogRecord) -> _Listed | None:
            opened = _opened(partition, record)
            if opened is None or opened.until_ms < now_ms:
                return None
            is_wanted = (opened.opening.topic, opened.opening.topic_id) == (topic, topic_id)
            return _Listed(opened, len(record.body)) if is_wanted else None

        found, positions = self._log.newest(before, limit, read, now_ms - UNDO_MAX_MS)
        return [stored.opened for stored in found], positions

    def written(self, opened: Opened, since_ms: int, before: str | None) -> tuple[bool, Positions | None]:
        """Whether a copy or a mark of this undo was written since then, as far as a page goes; and the positions
        before which it goes on, None at its end. Raises TopicUnknown, QueueUnavailable."""

        def read(_: str, record: LogRecord) -> _Listed | None:
            found = read_purged(record.body)
            return None if found is None or found.undo != opened.id else _Listed(opened, len(record.body))

        found, positions = self._log.newest(before, 1, read, since_ms)
        return bool(found), positions

    def restoring(self, opened: Opened) -> "Restoring":
        """Nothing is done yet."""
        return Restoring(
            self._client, self._log, self._names, self._claim, opened, partial(self.is_of_another, opened)
        )


def _opened(partition: str, record: LogRecord) -> Opened | None:
    """None for any other record."""
    opening = read_opening(record.body)
    return None if opening is None else Opened(f"{partition}.{record.offset}", record.appended_at_ms, opening)


class Restoring:
    """One undo at work, step by step; `close` it. `back` counts what was sent now, `before` what was found sent."""

    def __init__(
        self,
        client: Client,
        log: OwnTopic,
        names: Names,
        claim: Callable[[str], Claim],
        opened: Opened,
        is_of_another: Callable[[], bool],
    ) -> None:
        self._client, self._log, self._names = client, log, names
        self._is_of_another = is_of_another
        self._take_claim = claim
        self._claim: Claim | None = None
        self._undo, self._opening = opened.id, opened.opening
        self.back = self.before = 0
        self._steps = self._work()
        self._alone = Lock()  # a step whose caller has given up goes on in its thread

    def step(self) -> bool:
        """Look at some more, or send a chunk; False where all is done. Raises ClaimLost, QueueError: what was sent
        before stays sent, and the next undo with this id goes on behind it."""
        with self._alone:
            return next(self._steps, False)

    def close(self) -> None:
        """Let go of the claim. A step after it does nothing."""
        with self._alone:
            self._steps.close()
            if self._claim is not None:
                self._claim.close()

    def _work(self) -> Generator[bool, None, None]:
        self._claim = self._take_claim(CLAIM)
        for partition in self._log.positions(None, "", 1):
            yield True
            # rule undo-looks: what an earlier undo has sent could become readable later: delivered twice.
            if not self._client.is_stable(self._names.purged, partition, SETTLED_S):
                raise QueueUnavailable(f"{self._names.purged}, partition {partition}: a transaction is open")
            yield from self._work_on(partition, self._client.offsets(self._names.purged, partition)[1])

    def _work_on(self, partition: str, end: int) -> Iterator[bool]:
        sent_below = 0  # by the marks, which are behind what they are about
        for looked, (_, found) in enumerate(self._records(partition, end)):
            if isinstance(found, Mark):
                sent_below = max(sent_below, found.offset)
            if looked % LOOKED_AT_ONCE == 0:
                yield True
        chunk = _Chunk()
        for looked, (record, found) in enumerate(self._records(partition, end)):
            if looked % LOOKED_AT_ONCE == 0:
                yield True
            if not isinstance(found, Copy):
                continue
            # rule undo-once: what an undo has sent before would be sent again: delivered twice.
            if record.offset < sent_below:
                self.before += 1
                continue
            if not chunk.has_room_for(record):
                yield self._sent(partition, chunk)
                chunk = _Chunk()
            chunk.add(Append(self._names.buffer(found.shard.topic), found.shard.partition, record.body), record)
        if chunk.appends:
            yield self._sent(partition, chunk)

    def _records(self, partition: str, end: int) -> Iterator[tuple[LogRecord, Copy | Mark | None]]:
        """With what each is to this undo."""
        start = max(self._opening.ends.get(partition, 0), self._client.offsets(self._names.purged, partition)[0])
        for record in self._log.stretch(partition, start, end):
            yield record, self._ours(read_purged(record.body))

    def _ours(self, found: Copy | Mark | None) -> Copy | Mark | None:
        if found is None or found.undo != self._undo:
            return None
        return None if isinstance(found, Copy) and found.shard.topic != self._opening.topic else found

    def _sent(self, partition: str, chunk: "_Chunk") -> bool:
        assert self._claim is not None, "only the process that has claimed it"
        # rule undo-topic: what waited for a topic that is deleted meanwhile would go to the next one of its name.
        if self._is_of_another():
            raise TopicUnknown(self._opening.topic)
        # rule undo-mark: after a crash, or asked again, all of it would be sent again: delivered twice.
        mark = Append(self._names.purged, partition, encode_mark(Mark(self._undo, chunk.end)))
        self._claim.append([*chunk.appends, mark])
        self.back += len(chunk.appends)
        return True


@dataclass(slots=True)
class _Chunk:
    """What goes together; the copies are before the offset `end`."""

    appends: list[Append] = field(default_factory=list)
    end: int = 0
    size: int = 0

    def has_room_for(self, record: LogRecord) -> bool:
        fits = len(self.appends) < CHUNK and self.size + len(record.body) <= CHUNK_BYTES_MAX
        return fits or not self.appends

    def add(self, append: Append, record: LogRecord) -> None:
        self.appends.append(append)
        self.end, self.size = record.offset + 1, self.size + len(record.body)
