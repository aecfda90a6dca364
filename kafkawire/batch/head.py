"""The 61 bytes before a batch's records (Kafka's DefaultRecordBatch, magic 2; KIP-98).

    0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8 | 17 crc u32 | 21 attributes i16
    23 lastOffsetDelta i32 | 27 baseTimestamp i64 | 35 maxTimestamp i64 | 43 producerId i64 | 51 producerEpoch i16
    53 baseSequence i32 | 57 count i32 | 61 records

batchLength counts from 12 on; the CRC-32C covers everything from 21 on.
"""

import struct
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import NamedTuple

import google_crc32c

from kafkawire.protocol.errors import CorruptBatch, MalformedBatch

Buffer = bytes | bytearray | memoryview

_HEAD = struct.Struct(">qiibIhiqqqhii")
_CHECKED_HEAD = struct.Struct(">hiqqqhii")
HEAD_BYTES = _HEAD.size
MAGIC = 2
MAGIC_AT = 16
CHECKED_AT = 21
LENGTH_AT = 8
LENGTH_FROM = 12
RECORDS_AT = HEAD_BYTES - CHECKED_AT

NO_PRODUCER = -1
NO_SEQUENCE = -1

CODEC_BITS = 0x07
APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20
KNOWN_ATTRIBUTES = CODEC_BITS | APPEND_TIME_BIT | TRANSACTIONAL_BIT | _CONTROL_BIT
"""Those that a client may know of: 0x40 marks the base timestamp as a delete horizon, the log cleaner's."""


class Kind(Enum):
    """What is in the records field of a partition."""

    NULL = auto()  # no field at all: must not reach a broker
    EMPTY = auto()  # no bytes: an authorized client gets error 87
    LEGACY = auto()  # message sets of magic 0 and 1, which have no headers
    BATCH = auto()  # to be read by `read_batch`


class Codec(IntEnum):
    """How the records are compressed (attributes, bits 0 to 2)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class Head(NamedTuple):
    """The fields before the records, in wire order. Times in epoch ms."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & CODEC_BITS)

    @property
    def is_append_time(self) -> bool:
        """Whether `max_timestamp` is the time of every record: the broker's when it appended them."""
        return bool(self.attributes & APPEND_TIME_BIT)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """A transaction's marker. Brokers write them; from a client a broker refuses them."""
        return bool(self.attributes & _CONTROL_BIT)


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: the fields before the records, and the records, compressed as in `head`."""

    head: Head
    payload: Buffer
    is_rebuilt: bool = False

    def encode(self, base_sequence: int) -> list[Buffer]:
        """The bytes of the batch under this base sequence, with the payload as it is; byte for byte what came where
        nothing changes. A batch of no producer stays without a sequence.

        Raises CorruptBatch: only a batch whose checksum was right gets a new one.
        """
        sequence = base_sequence if self.head.producer_id != NO_PRODUCER else NO_SEQUENCE
        # Nothing changes, so the checksum is left to the broker: computing it costs more than all the rest.
        if not self.is_rebuilt and sequence == self.head.base_sequence:
            return [_HEAD.pack(*self.head), self.payload]
        payload = _as_bytes(self.payload)
        if not self.is_rebuilt:
            _check(self.head, payload)
        # The old checksum was right: a new one over damaged bytes would make the damage look intact.
        head = self.head._replace(base_sequence=sequence)
        return [_HEAD.pack(*head[:4], _crc(head, payload), *head[5:]), payload]

    def check(self) -> None:
        """Raises CorruptBatch when the checksum does not fit."""
        _check(self.head, _as_bytes(self.payload))


def _check(head: Head, payload: bytes) -> None:
    if _crc(head, payload) != head.crc:
        raise CorruptBatch("the checksum does not fit")


def _crc(head: Head, payload: bytes) -> int:
    crc: int = google_crc32c.extend(google_crc32c.value(_CHECKED_HEAD.pack(*head[5:])), payload)
    return crc


def _as_bytes(payload: Buffer) -> bytes:
    """The library takes nothing else; copying is cheaper than the checksum itself."""
    return payload if isinstance(payload, bytes) else bytes(payload)


def head_at(data: Buffer, at: int) -> Head:
    """The head that stands at `at`, unchecked; HEAD_BYTES have to be there."""
    return Head._make(_HEAD.unpack_from(data, at))


def codec_of(head: Head) -> Codec:
    """Raises MalformedBatch for an unknown compression."""
    if head.attributes & CODEC_BITS > Codec.ZSTD:
        raise MalformedBatch("an unknown compression")
    return head.codec


def checked_at(head: Head, data: Buffer, at: int) -> bytes:
    """The bytes that the checksum of the batch at `at` covers; its records stand at RECORDS_AT in them. Raises
    CorruptBatch when it does not fit."""
    checked = bytes(data[at + CHECKED_AT : at + LENGTH_FROM + head.length])
    if google_crc32c.value(checked) != head.crc:
        raise CorruptBatch("the checksum does not fit")
    return checked


def kind_of(records: Buffer | None) -> Kind:
    """Decided by the magic byte, which stands at the same place in every format. Raises MalformedBatch."""
    if records is None:
        return Kind.NULL
    if not records:
        return Kind.EMPTY
    # The magic byte is the only field at the same place in all formats, so nothing else may be read before it.
    if len(records) <= MAGIC_AT:
        raise MalformedBatch("shorter than any format's header")
    if records[MAGIC_AT] in (0, 1):
        return Kind.LEGACY
    if records[MAGIC_AT] != MAGIC:
        raise MalformedBatch(f"magic {records[MAGIC_AT]}")
    return Kind.BATCH


def read_batch(records: Buffer) -> Batch:
    """The one batch that `records` are. Its checksum is not looked at: `Batch.check`.

    Refuses what a broker's LogValidator would (more than one batch, offsets with gaps, no records where the head
    speaks of some). Raises MalformedBatch.
    """
    if kind_of(records) is not Kind.BATCH or len(records) < HEAD_BYTES:
        raise MalformedBatch("not a whole batch of the v2 format")
    head = Head._make(_HEAD.unpack_from(records))
    if head.length != len(records) - LENGTH_FROM:
        raise MalformedBatch("not exactly one batch")
    # Compacted batches have gaps, but those are never produced: a broker refuses them, too (LogValidator).
    if head.record_count < 0 or head.record_count != head.last_offset_delta + 1:
        raise MalformedBatch("the offsets have gaps")
    codec_of(head)
    return Batch(head, memoryview(records)[HEAD_BYTES:])


def rebuilt(like: Head, count: int, max_timestamp: int, payload: bytes) -> Batch:
    """A batch of `count` of another one's records: the same producer, attributes and base timestamp."""
    head = like._replace(
        length=HEAD_BYTES - LENGTH_FROM + len(payload),
        last_offset_delta=count - 1,
        max_timestamp=max_timestamp,
        record_count=count,
    )
    return Batch(head, payload, is_rebuilt=True)


def header_only(producer_id: int, producer_epoch: int, base_sequence: int, *, transactional: bool) -> bytes:
    """A batch without records: what asks a partition's leader whether the producer may write there, and leaves
    nothing in the log.

    The leader answers 87 (INVALID_RECORD) where it may, 29 where not, and with the transactional bit also 53 where
    its transactional id is not allowed: authorization comes before validation (KafkaApis.handleProduceRequest).
    """
    attributes = TRANSACTIONAL_BIT if transactional else 0
    head = Head(
        base_offset=0,
        length=HEAD_BYTES - LENGTH_FROM,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=-1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=0,
    )
    return b"".join(Batch(head, b"", is_rebuilt=True).encode(base_sequence))
