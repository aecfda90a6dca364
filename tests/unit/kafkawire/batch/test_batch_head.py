"""What stands before the records of a batch."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.util import calc_crc32c

from kafkawire.batch.head import Codec, Kind, header_only, kind_of, read_batch
from kafkawire.protocol.errors import BatchError, CorruptBatch, ErrorCode, MalformedBatch
from tests.unit.mq.kafka.batches import CODECS, SNAPPY_XERIAL, T0, batch_of, plain, read, records_of

THREE = [plain(n) for n in range(3)]


def changed(data: bytes, at: int, layout: str, value: int) -> bytes:
    out = bytearray(data)
    struct.pack_into(layout, out, at, value)
    return bytes(out)


@pytest.mark.parametrize("codec", CODECS)
def test_a_head_has_what_another_implementation_wrote(codec: int) -> None:
    head = read_batch(batch_of(THREE, codec, transactional=True)).head
    assert (head.record_count, head.base_timestamp, head.max_timestamp) == (3, T0, T0 + 2)
    assert (head.producer_id, head.producer_epoch, head.base_sequence) == (77, 3, 40)
    assert head.codec == (Codec.SNAPPY if codec == SNAPPY_XERIAL else codec)
    assert head.is_transactional
    assert not head.is_control


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_are_recognized(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 20)
    builder.append(0, T0, b"k", b"v")
    assert kind_of(bytes(builder.build())) is Kind.LEGACY


def test_no_records_and_empty_records_are_distinguished() -> None:
    assert (kind_of(None), kind_of(b""), kind_of(batch_of(THREE))) == (Kind.NULL, Kind.EMPTY, Kind.BATCH)


@pytest.mark.parametrize(
    "data",
    [
        batch_of(THREE)[:16],
        batch_of(THREE)[:60],
        batch_of(THREE)[:-1],
        batch_of(THREE) + b"\x00",
        batch_of(THREE) + batch_of(THREE),
        changed(batch_of(THREE), 16, ">b", 3),
        changed(batch_of(THREE), 23, ">i", 3),
        changed(batch_of(THREE), 57, ">i", -1),
        changed(batch_of(THREE), 21, ">h", 5),
    ],
    ids=["stub", "head cut", "cut", "longer", "two", "magic 3", "gap", "negative count", "codec 5"],
)  # fmt: skip
def test_what_is_not_one_whole_batch_is_refused_as_a_broker_would(data: bytes) -> None:
    with pytest.raises(MalformedBatch) as refused:
        read_batch(data)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_a_damaged_batch_is_recognised_by_its_checksum() -> None:
    batch = read_batch(changed(batch_of(THREE), 70, ">b", 1))
    with pytest.raises(CorruptBatch) as refused:
        batch.check()
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("sequence", [0, 41, 2**31 - 1])
def test_a_batch_under_another_sequence_is_the_same_but_for_it(sequence: int) -> None:
    sent = batch_of(THREE, transactional=True)
    written = b"".join(read_batch(sent).encode(sequence))
    assert read(written).base_sequence == sequence
    assert written[:17] + written[21:53] + written[57:] == sent[:17] + sent[21:53] + sent[57:]


def test_a_batch_under_its_own_sequence_is_byte_for_byte_what_came_even_if_damaged() -> None:
    sent = changed(batch_of(THREE), 70, ">b", 1)
    assert b"".join(read_batch(sent).encode(40)) == sent


def test_a_damaged_batch_gets_no_new_checksum() -> None:
    with pytest.raises(CorruptBatch):
        read_batch(changed(batch_of(THREE), 70, ">b", 1)).encode(41)


def test_a_batch_of_no_producer_stays_without_a_sequence() -> None:
    sent = batch_of(THREE, producer_id=-1, producer_epoch=-1, base_sequence=-1)
    assert b"".join(read_batch(sent).encode(12)) == sent


def test_the_records_are_not_copied_when_a_batch_stays_as_it_is() -> None:
    sent = batch_of(THREE)
    payload = read_batch(sent).encode(40)[1]
    assert isinstance(payload, memoryview)
    assert payload.obj is sent


@pytest.mark.parametrize("transactional", [False, True])
def test_a_probe_is_a_head_without_records(transactional: bool) -> None:
    probe = header_only(77, 3, 40, transactional=transactional)
    checked = struct.pack(">hiqqqhii", 0x10 if transactional else 0, -1, 0, 0, 77, 3, 40, 0)
    assert probe == struct.pack(">qiibI", 0, 49, -1, 2, calc_crc32c(checked)) + checked
    assert read_batch(probe).head.record_count == 0
    assert records_of(probe) == []


@given(st.binary(max_size=100), st.integers(0, 2**31 - 1))
def test_arbitrary_bytes_are_read_or_refused_and_nothing_else(data: bytes, sequence: int) -> None:
    for one in (data, batch_of(THREE)[:16] + b"\x02" + data):
        with suppress(BatchError):
            kind_of(one)
        with suppress(BatchError):
            read_batch(one).encode(sequence)
