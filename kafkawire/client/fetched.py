"""What a Fetch brings of one partition, read batch by batch; pure.

    records field = (batch | batch ...) and, at the end, perhaps the beginning of another one

Committed records are read as Kafka's CompletedFetch does it: the answer names the aborted transactions
that touch it, each by its producer and the offset where it begins; what such a producer has written from there up to
the marker of the abort is left out. Markers themselves are no records.

Nothing is skipped that cannot be read. A batch whose checksum fits is what its producer has sent: where it cannot be
taken apart, it is one record, with its bytes (`delayline.records.set_aside`). Anything else stops the reader,
because another fetch, or another replica, may have it whole. All errors are those of
`kafkawire.protocol.errors.BatchError`.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from delayline.errors import MalformedRecord
from delayline.records.record import key_of
from delayline.records.set_aside import RAW_BYTES_MAX, encode_set_aside
from kafkawire.batch.compression import decompress
from kafkawire.batch.head import (
    HEAD_BYTES,
    LENGTH_AT,
    LENGTH_FROM,
    MAGIC,
    MAGIC_AT,
    RECORDS_AT,
    Buffer,
    Codec,
    Head,
    checked_at,
    codec_of,
    head_at,
)
from kafkawire.batch.records import TIME_MAX_MS, Record, read_records
from kafkawire.protocol.errors import BatchError, BatchTooLarge, MalformedBatch
from kafkawire.protocol.frames import FRAME_BYTES_MAX

BATCH_BYTES_MAX = FRAME_BYTES_MAX // 2
"""A larger one is not asked for: an answer has to fit a frame."""

PLAIN_BYTES_MAX = 60 << 20
"""Of one batch, decompressed. Whatever is in it has room among the dead letters (`mq.kafka.admin.buffers`: 64 MiB)
and in a request to a broker (100 MiB); the proxy takes batches of half as much."""

RECORD_BYTES = 150
"""What a record takes up beside its body (`records.RECORDS_MAX`)."""

NO_EPOCH = -1

OFFSET_MAX = (1 << 63) - 1

_ABORT_KEY = b"\x00\x00\x00\x00"
"""Of an abort's marker: version 0, type 0 (ControlRecordType)."""


class Extent(NamedTuple):
    """The whole batches at the beginning of a records field: their bytes, the offset behind the last of them, and the
    epoch of the leader that appended that one, NO_EPOCH where there is none. `trouble` is why the next one cannot be
    one; `bytes_needed` how long the first one is where not even that is whole, and 0 elsewhere."""

    size: int
    next_offset: int
    leader_epoch: int = NO_EPOCH
    trouble: BatchError | None = None
    bytes_needed: int = 0


def extent_of(data: Buffer, offset: int) -> Extent:
    """By their heads alone, so that reading can go on behind them before they are read; `offset` was asked for."""
    at, next_offset, leader_epoch = 0, offset, NO_EPOCH
    size = len(data)
    while size - at >= HEAD_BYTES:
        head = head_at(data, at)
        end = at + LENGTH_FROM + head.length
        behind = head.base_offset + head.last_offset_delta + 1
        # Heads are checked before the next fetch is sent: from a wrong offset, records would be skipped or read
        # twice.
        trouble = _impossible(head) or _displaced(head, behind, next_offset, first=at == 0)
        if trouble:
            return Extent(at, next_offset, leader_epoch, MalformedBatch(f"at offset {next_offset}: {trouble}"))
        # A broker cuts the last batch anywhere (KIP-74): the next fetch brings it whole.
        if end > size:
            break
        at, next_offset, leader_epoch = end, behind, head.leader_epoch
    return Extent(at, next_offset, leader_epoch, *_rest(data, at, next_offset))


def _impossible(head: Head) -> str:
    if head.magic != MAGIC:
        return f"a batch of magic {head.magic & 0xFF}"
    if head.length < HEAD_BYTES - LENGTH_FROM:
        return f"a batch of {head.length} bytes"
    return ""


def _displaced(head: Head, behind: int, offset: int, *, first: bool) -> str:
    """Batches ascend, and a broker begins with the one that holds the offset or is the first behind it."""
    if head.last_offset_delta < 0 or head.base_offset < 0 or behind > OFFSET_MAX:
        return "a batch without an end"
    if behind <= offset or (head.base_offset < offset and not first):
        return f"a batch from {head.base_offset} to {behind - 1}"
    return ""


def _rest(data: Buffer, at: int, offset: int) -> tuple[BatchError | None, int]:
    """The verdict on a piece of a batch: that it is wrong, or too little where nothing came before."""
    left = len(data) - at
    if left > MAGIC_AT and data[at + MAGIC_AT] != MAGIC:
        return MalformedBatch(f"at offset {offset}: a batch of magic {data[at + MAGIC_AT]}"), 0
    if at or not left:
        return None, 0
    length = int.from_bytes(data[LENGTH_AT:LENGTH_FROM], "big", signed=True) if left >= LENGTH_FROM else 0
    needed = max(LENGTH_FROM + length, HEAD_BYTES)
    # The fetch after this one would ask for so many bytes, and its answer would not fit a frame.
    if needed > BATCH_BYTES_MAX:
        return BatchTooLarge(f"at offset {offset}: a batch of {needed} bytes"), 0
    return None, needed


class Batches:
    """The committed records of a records field, from `offset` on. `next_offset` stands behind what was taken, and in
    the end behind the last batch, whatever it holds. `unpacked_bytes` is what its records have taken up so far, those
    included that were handed out."""

    def __init__(
        self,
        data: Buffer,
        offset: int,
        extent: Extent,
        aborted: Iterable[tuple[int, int]] = (),
        raw_bytes_max: int = RAW_BYTES_MAX,
    ) -> None:
        """`aborted` are transactions, each with its producer and its first offset. Of a batch that is set aside, up
        to `raw_bytes_max` bytes are kept."""
        self.next_offset = offset
        self.unpacked_bytes = 0
        self._raw_bytes_max = raw_bytes_max
        self._data = data
        self._offset = offset
        self._extent = extent
        self._at = 0
        self._behind = offset
        self._left: list[Record] = []  # all of one batch
        self._batch_bytes = 0
        self._begins = deque(sorted((first_offset, producer) for producer, first_offset in aborted))
        self._aborting: set[int] = set()

    @property
    def done(self) -> bool:
        """Whether there is nothing more to take, not even an error."""
        return not self._left and self._at >= self._extent.size and self._extent.trouble is None

    @property
    def left_bytes(self) -> int:
        """What the batch takes up of which records wait for the next `take`; 0 where none do."""
        return self._batch_bytes if self._left else 0

    def take(self, records_max: int, bytes_max: int) -> list[Record]:
        """The next records, at most so many. No batch is unpacked behind the one with which they take up `bytes_max`;
        what waits already is handed out whatever it takes. Fewer, or none, at the end only, and where that stops
        them. Raises BatchError behind the last record before a batch that cannot be read, and again with every
        further call."""
        records, self._left = self._left, []
        unpacked_max = self.unpacked_bytes + bytes_max
        while len(records) < records_max and self.unpacked_bytes < unpacked_max and not self._ended(records):
            try:
                more = self._read_batch()
            except BatchError:
                if records:
                    break
                raise
            if records:
                records += more
            else:
                records = more
        # Behind the batch and not the last record: offsets at its end may be holes of compaction.
        self.next_offset = self._behind
        if len(records) > records_max:
            records, self._left = records[:records_max], records[records_max:]
            self.next_offset = self._left[0][0] if not records else records[-1][0] + 1
        return records

    def _ended(self, records: list[Record]) -> bool:
        if self._at < self._extent.size:
            return False
        if self._extent.trouble is not None and not records:
            raise self._extent.trouble
        return True

    def _read_batch(self) -> list[Record]:
        at = self._at
        head = head_at(self._data, at)
        try:
            checked = checked_at(head, self._data, at)
            records = [] if self._is_left_out(head, checked) else self._unpack(head, checked, at)
        except BatchError as error:
            raise type(error)(f"at offset {head.base_offset}: {error}") from error
        self._at = at + LENGTH_FROM + head.length
        self._behind = head.base_offset + head.last_offset_delta + 1
        # A broker sends the whole batch that holds the offset; the records before it were read earlier.
        if records and records[0][0] < self._offset:
            return [record for record in records if record[0] >= self._offset]
        return records

    def _unpack(self, head: Head, checked: bytes, begin: int) -> list[Record]:
        try:
            plain, at = _plain(head, checked)
            records = read_records(head, plain, at)
        except BatchError as error:
            plain, at = bytes(self._data[begin : begin + LENGTH_FROM + head.length]), 0
            records = [self._set_aside(head, plain, error)]
        self._batch_bytes = len(plain) - at + RECORD_BYTES * len(records)
        self.unpacked_bytes += self._batch_bytes
        return records

    def _set_aside(self, head: Head, raw: bytes, error: BatchError) -> Record:
        first, last = head.base_offset, head.base_offset + head.last_offset_delta
        at_ms = min(max(head.max_timestamp, 0), TIME_MAX_MS)
        return first, at_ms, encode_set_aside(first, last, raw, self._raw_bytes_max, str(error))

    def _is_left_out(self, head: Head, checked: bytes) -> bool:
        """Whether the batch holds nothing that is committed."""
        last_offset = head.base_offset + head.last_offset_delta
        # By the batch's last offset, as CompletedFetch does: a transaction may begin inside the batches that come
        # next.
        while self._begins and self._begins[0][0] <= last_offset:
            self._aborting.add(self._begins.popleft()[1])
        if head.is_control:
            # The marker of a commit leaves the set alone: its producer was not aborting.
            if _is_abort(head, checked):
                self._aborting.discard(head.producer_id)
            return True
        # A producer may also write outside of transactions; those records stand, whatever its transaction comes to.
        return head.is_transactional and head.producer_id in self._aborting


def _plain(head: Head, checked: bytes) -> tuple[bytes, int]:
    """Decompressed, and where the records are in it."""
    codec = codec_of(head)
    if codec is Codec.NONE:
        return checked, RECORDS_AT
    if not head.record_count and len(checked) == RECORDS_AT:
        return b"", 0  # what compaction leaves of a batch whose producer is still remembered
    return decompress(codec, memoryview(checked)[RECORDS_AT:], PLAIN_BYTES_MAX), 0


def _is_abort(head: Head, checked: bytes) -> bool:
    """A marker that has been compacted away has no effect any more."""
    records = read_records(head, *_plain(head, checked))
    try:
        return bool(records) and (key_of(records[0][2]) or b"")[:4] == _ABORT_KEY
    except MalformedRecord as error:
        raise MalformedBatch(f"a transaction's marker: {error}") from error
