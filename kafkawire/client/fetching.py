"""What is fetched from a node, and what its answer means for each partition; without sockets.

Every request names all partitions that are read from its node (no fetch session, KIP-227), as who reads what is
committed, at the leader of whatever epoch, and from nowhere nearer: a rack is not named (KIP-392).

It names the epoch of the last batch that was read (KIP-320; KIP-595 for Fetch). A log that has lost its tail, by an
unclean election or with the power of a lone replica, and has been written to since, has other records below the
offset to be read next: its leader compares, and names the epoch and the offset up to which the logs agree, or answers
that the offset is out of range where it has never heard of the epoch (Partition.readRecords, for consumers as for
followers). Where nothing was read yet there is no epoch to be compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from delayline.records.set_aside import RAW_BYTES_MAX
from kafkawire.client.fetched import NO_EPOCH, Batches, extent_of
from kafkawire.client.reading import At
from kafkawire.protocol.errors import ErrorCode
from kafkawire.protocol.messages.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic

FETCH_VERSION = 12
"""The last that names topics by name; its answers hold the first batch whole, however large (KIP-74)."""

MAX_WAIT_MS = 100
"""How long a broker waits for something to answer: also how late a partition may join the next request."""

ANSWER_BYTES = 1 << 20
PARTITION_BYTES = 512 << 10
"""Reading what was fetched holds the interpreter for milliseconds per megabyte: less would cost more requests, more
would make what is due late."""

READ_COMMITTED = 1

BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 2.0
BACKOFF_FORBIDDEN_S = 5.0


@dataclass(slots=True)
class Backoff:
    """When something is tried again, in monotonic seconds: at once after the first failure in a while, then with
    growing distance."""

    until_s: float = 0.0
    wait_s: float = 0.0

    def failed(self, now_s: float, least_s: float = 0.0) -> None:
        self.until_s = now_s + max(self.wait_s, least_s)
        self.wait_s = min(max(2 * self.wait_s, BACKOFF_FIRST_S), BACKOFF_MAX_S)

    def succeeded(self) -> None:
        self.until_s = self.wait_s = 0.0


@dataclass(slots=True, eq=False)
class Reading:
    """One assignment of a partition; assigned anew, it is another one, so that nothing fetched for this one is taken
    for the other's. `offset` is to be fetched next, and `epoch` that of the batch before it, as far as it is known;
    `node` leads the partition, None where that has to be found."""

    at: At
    offset: int
    epoch: int = NO_EPOCH
    node: int | None = None
    log_end: int = 0
    bytes_max: int = PARTITION_BYTES
    ended: bool = False  # what follows cannot be read
    backoff: Backoff = field(default_factory=Backoff)


class Meaning(Enum):
    """What an answer means for a partition."""

    NOTHING = auto()  # nothing new
    RECORDS = auto()  # batches, or what cannot be one
    MOVED = auto()  # another node leads it, or will
    GONE = auto()  # the offset is not in the log
    DIVERGED = auto()  # what was read before it is not
    SPOILT = auto()  # the broker cannot read its own log there
    FORBIDDEN = auto()  # we may not read it
    TROUBLE = auto()  # anything else: it is tried again


_MEANINGS: dict[int, Meaning] = {
    ErrorCode.NONE: Meaning.RECORDS,
    ErrorCode.OFFSET_OUT_OF_RANGE: Meaning.GONE,
    ErrorCode.CORRUPT_MESSAGE: Meaning.SPOILT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Meaning.FORBIDDEN,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Meaning.MOVED,
    ErrorCode.LEADER_NOT_AVAILABLE: Meaning.MOVED,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Meaning.MOVED,
    ErrorCode.REPLICA_NOT_AVAILABLE: Meaning.MOVED,
    ErrorCode.KAFKA_STORAGE_ERROR: Meaning.MOVED,
    ErrorCode.FENCED_LEADER_EPOCH: Meaning.MOVED,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Meaning.MOVED,
    ErrorCode.OFFSET_NOT_AVAILABLE: Meaning.MOVED,
}


def request_for(readings: Iterable[Reading]) -> FetchRequest:
    """Partitions in this order, which is also the one in which the broker fills its answer."""
    topics: list[FetchTopic] = []
    bytes_max = ANSWER_BYTES
    for one in readings:
        if not topics or topics[-1].topic != one.at.topic:
            topics.append(FetchTopic(topic=one.at.topic))
        part = FetchPartition(one.at.partition, fetch_offset=one.offset, partition_max_bytes=one.bytes_max)
        part.last_fetched_epoch = one.epoch
        topics[-1].partitions.append(part)
        bytes_max = max(bytes_max, one.bytes_max)
    return FetchRequest(
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=READ_COMMITTED,
        topics=topics,
    )


def divergence(reading: Reading, answer: FetchedPartition) -> str:
    """How what was read is not what the log holds; nothing where it is."""
    found = answer.diverging_epoch
    if found is None or max(found.epoch, found.end_offset) < 0:
        return ""
    read = f"what was read before offset {reading.offset} (epoch {reading.epoch}) is not in the log any more"
    return f"{read}, which has it up to {found.end_offset} (epoch {found.epoch})"


def take(
    reading: Reading, answer: FetchedPartition, raw_bytes_max: int = RAW_BYTES_MAX
) -> tuple[Meaning, Batches | None]:
    """Note what the answer contains, and move on behind it: the next request can go out before the records are read.
    Of a batch that is set aside, up to `raw_bytes_max` are kept."""
    meaning = _MEANINGS.get(answer.error_code, Meaning.TROUBLE)
    if meaning is not Meaning.RECORDS:
        return meaning, None
    if divergence(reading, answer):
        return Meaning.DIVERGED, None
    reading.backoff.succeeded()
    reading.log_end = max(answer.high_watermark, 0)
    data = answer.records or b""
    extent = extent_of(data, reading.offset)
    if extent.bytes_needed:
        reading.bytes_max = max(extent.bytes_needed, PARTITION_BYTES)
        return Meaning.NOTHING, None
    if not extent.size and extent.trouble is None:
        return Meaning.NOTHING, None
    aborted = [(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()]
    batches = Batches(data, reading.offset, extent, aborted, raw_bytes_max)
    reading.offset, reading.epoch, reading.bytes_max = extent.next_offset, extent.leader_epoch, PARTITION_BYTES
    reading.ended = extent.trouble is not None
    return meaning, batches
