"""The contract of the time index; `store.rocks` and its twin `store.memory` pass one suite.

The index holds the pending records of the shards that a worker owns, by key `(due_ms, offset)`. It is never the
truth: every claim of it is repaired from the cursor and the log. Three promises make that repair cheap:

  1. After a crash it falls back to a state it once had (a prefix of its writes), never to a mixture.
  2. A record leaves it only after the commit that decided it, and in the same write the *checkpoint* moves: every
     record below the checkpoint's offset that was still pending at that commit is in that same state.
  3. Records that are held only in memory have offsets at or above `memory_low`; the owner never checkpoints past it.

Values are opaque bytes but for one thing: whether the message repeats (`delayline.buffer.record.is_repeat`). Called
from one thread.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from delayline.records.message import Key, Shard

SCAN_BYTES_MAX = 4 << 20
RESERVE_SHARE = 4
"""An owner that is catching up may fill the disk until this part of what is to stay free is left."""


class Entry(NamedTuple):
    """A pending record."""

    due_ms: int
    offset: int
    value: bytes

    @property
    def key(self) -> Key:
        return Key(self.due_ms, self.offset)


PlainEntry = tuple[int, int, bytes]
"""An `Entry` in a form that costs a fifth to make, for what is hot: `(due_ms, offset, value)`."""


Named = tuple[bytes, Key]
"""A further way to find the record with this key."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Up to where the index is known to agree with the log.

    `offset` is the owner's committed next_offset (or lower, see `memory_low`), `topic_id` the identity of the buffer
    topic and of its log's run, `state` the owner's own bytes (the rules in force at `offset`)."""

    offset: int
    topic_id: bytes
    state: bytes = b""


class Buckets(NamedTuple):
    """Equal stretches of due time, in epoch minutes: `number` of them, `width` minutes each, from `start` on."""

    start: int
    width: int
    number: int

    def slot(self, minute: int) -> int:
        """Which number of a histogram counts this minute: 0 before the first bucket, `number` + 1 behind the last."""
        return min(max((minute - self.start) // self.width, -1), self.number) + 1


class ShardIndex(Protocol):
    """The index of one shard. One that finds records of an earlier time shows none of them, and takes in none
    (Bug), before `retain` or `reset`. Times and offsets are never negative."""

    def checkpoint(self) -> Checkpoint | None:
        """The last one stored; None where the index holds nothing it could vouch for."""

    def reset(self) -> None:
        """Start empty: drop everything of the shard, its checkpoint too."""

    def retain(self, low_offset: int, resume_offset: int, covered: "Covered") -> None:
        """Reuse after a takeover: drop every record below `low_offset`, every one at or above `resume_offset` (it
        will be read again), and those that the cursor covers. Recounts everything from what is left.

        `covered` is (next_offset, delivered_key): drop where offset < next_offset and key <= delivered_key.
        Records held only in memory are dropped, too: they lie above every checkpoint. A checkpoint above
        `resume_offset` is forgotten until the next `remove`, because the index lacks what it speaks of.
        Raises StoreFull; then it must be asked again, or `reset`."""

    def retaining(self, low_offset: int, resume_offset: int, covered: "Covered") -> Iterator[None]:
        """`retain` in steps of a few milliseconds, however many records there are. Nothing else may be asked of the
        shard before the last one has been taken."""

    def put(
        self, entries: Sequence[PlainEntry], near_until_ms: int | None, names: Iterable[tuple[bytes, Key]] = ()
    ) -> None:
        """Take in records that are not present yet. Those due at or before `near_until_ms` may be held in memory only
        (None: none may, because the owner is catching up; it may use three quarters of the disk's reserve then, since
        it delivers nothing before it has caught up). `names` are further ways to find some of them (`lookup`), kept
        as long as they are. Raises StoreFull: then nothing of the call is present."""

    def bind(self, name: bytes, key: Key) -> None:
        """One more way to find a record that is present; the record that had this name loses it. Raises StoreFull."""

    def due(self, until_ms: int, records_max: int, bytes_max: int) -> list[PlainEntry]:
        """Pending records due at or before `until_ms`, lowest keys first, at most `records_max`. The first one
        however large it is. Never walks what was removed."""

    def next_due_ms(self) -> int | None:
        """The lowest due time present."""

    def remove(self, keys: Sequence[tuple[int, int]], checkpoint: Checkpoint) -> None:
        """Drop what a commit has made terminal and store the checkpoint, in one write. The keys are
        ascending, and of records that are present. Works on a full disk: what could not be written is kept in mind
        and tried again."""

    def discard(self, key: Key) -> bool:
        """Drop one record if it is present; whether it was."""

    def get(self, key: Key) -> bytes | None:
        """The value of a pending record."""

    def lookup(self, name: bytes) -> Key | None:
        """The key of the pending record that was put under this name."""

    def low_offset(self) -> int | None:
        """At or below the lowest offset present, by less than a segment; None where nothing is present."""

    def memory_low(self) -> int | None:
        """At or below the lowest offset held only in memory, by less than a segment; None where there is none."""

    def memory_bytes(self) -> int:
        """The size of what is held only in memory."""

    def pending(self) -> int:
        """How many records are present: exact."""

    def repeats(self) -> int:
        """How many of them are messages that repeat: exact."""

    def histogram(self, buckets: Buckets) -> list[int]:
        """How many records are present by due time, without a scan: before the first bucket, in each of them, behind
        the last. Exact."""

    def scan(self, after: Key, limit: int, bytes_max: int = SCAN_BYTES_MAX) -> list[Entry]:
        """Present records with keys above `after`, ascending, for listings: at most `limit`, and no more than have
        `bytes_max` together, but one where there is one."""

    def keys(self, after: Key, limit: int) -> list[Key]:
        """As `scan`, without copying values: for walks over everything."""


class Covered(NamedTuple):
    """What a cursor makes terminal by itself: offset < next_offset and key <= delivered_key."""

    next_offset: int
    delivered_key: Key


class TimeIndex(Protocol):
    """The index of one worker: one folder, many shards."""

    def shard(self, shard: Shard) -> ShardIndex:
        """The shard's part, made where it does not exist."""

    def drop(self, shard: Shard) -> None:
        """Forget a shard that another worker owns now; its records on disk may stay for a later `retain`."""

    def flush(self) -> None:
        """Make everything that is not held only in memory durable."""

    def close(self) -> None:
        """Flush and let go of the folder."""
