"""Batches made of bodies, read back by another implementation and by the walk that the proxy takes."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from delayline.records.record import decode_body, encode_body
from kafkawire.batch.build import SHORT, Delivery, cut, records_of
from kafkawire.batch.compression import decompress
from kafkawire.batch.head import HEAD_BYTES, Codec, Head, read_batch
from kafkawire.batch.walk import walk
from tests.tiers import examples
from tests.unit.mq.kafka.batches import T0

SIZES = [0, 1, 59, 60, 61, 62, 63, 64, 8100, SHORT - 4, SHORT - 3, SHORT - 2, SHORT - 1, SHORT, SHORT + 1, 70_000]


def built(deliveries: Sequence[tuple[bytes, int | None]], codec: Codec = Codec.NONE) -> bytes:
    return b"".join(records_of(deliveries, T0, codec).batch(77, 3, 40))


def bodies_in(data: bytes) -> list[bytes]:
    batch = read_batch(data)
    batch.check()
    plain = decompress(batch.head.codec, batch.payload, 1 << 30)
    return [plain[at:end] for _, _, at, end in walk(plain, batch.head.record_count)]


@pytest.mark.parametrize("count", [1, 63, 64, 65, SHORT - 1, SHORT, SHORT + 1])
def test_every_width_of_an_offset_delta_is_read_back(count: int) -> None:
    bodies = [b"%d" % number for number in range(count)]
    assert bodies_in(built([(body, None) for body in bodies])) == bodies


@pytest.mark.parametrize("before", [0, 70])
@pytest.mark.parametrize("stamp", [None, T0 + 5])
def test_every_width_of_a_length_is_read_back(before: int, stamp: int | None) -> None:
    bodies = [b""] * before + [bytes(size) for size in SIZES]
    assert bodies_in(built([(body, stamp) for body in bodies])) == bodies


@pytest.mark.parametrize("codec", Codec)
def test_every_compression_is_read_back(codec: Codec) -> None:
    bodies = [b"%d" % number * number for number in range(200)]
    data = built([(body, None) for body in bodies], codec)
    assert bodies_in(data) == bodies
    assert read_batch(data).head.codec is codec


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.SNAPPY])
def test_another_implementation_reads_the_records_in_every_compression(codec: Codec) -> None:
    wanted = [(b"k%d" % n, b"v" * n, [("name", b"h" * 9)]) for n in range(100)]
    deliveries = [(encode_body(key, value, [(b"name", b"h" * 9)]), None) for key, value, _ in wanted]
    data = built(deliveries, codec)
    batch = DefaultRecordBatch(data)
    assert batch.validate_crc()
    assert (batch.is_transactional, batch.is_control_batch, batch.compression_type) == (True, False, codec)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 40)
    assert [(one.key, one.value, list(one.headers)) for one in batch] == wanted
    assert {one.timestamp for one in DefaultRecordBatch(data)} == {T0}


def test_times_are_those_of_the_records_and_now_where_they_have_none() -> None:
    stamps = [T0 + 500, None, T0 - 86_400_000, T0 + 500]
    data = built([(encode_body(None, b"x"), stamp) for stamp in stamps])
    assert [one.timestamp for one in DefaultRecordBatch(data)] == [T0 + 500, T0, T0 - 86_400_000, T0 + 500]
    assert (read_batch(data).head.base_timestamp, read_batch(data).head.max_timestamp) == (T0 + 500, T0 + 500)


def test_what_compression_makes_no_smaller_stays_as_it_is() -> None:
    head: Head = read_batch(built([(b"x", None)], Codec.ZSTD)).head
    assert head.codec is Codec.NONE


@settings(max_examples=examples(800), deadline=None)
@given(st.lists(st.integers(0, 400), max_size=60), st.integers(HEAD_BYTES, 2000), st.booleans())
def test_a_cut_keeps_order_and_bound(sizes: list[int], limit: int, stamped: bool) -> None:
    deliveries: list[Delivery] = [(bytes(size), T0 + size if stamped else None) for size in sizes]
    runs = cut(deliveries, limit)
    assert [one for run in runs for one in run] == deliveries
    for run in runs:
        assert len(run) == 1 or len(built(list(run))) <= limit


def test_a_cut_makes_no_more_batches_than_it_must() -> None:
    deliveries: list[Delivery] = [(bytes(100), None)] * 100
    assert len(cut(deliveries, 1 << 20)) == 1
    assert len(cut(deliveries, 7000)) == 2


def test_bodies_stay_what_they_were() -> None:
    body = encode_body(b"k", None, [(b"a", b""), (b"a", None)])
    assert [decode_body(one) for one in bodies_in(built([(body, None)]))] == [decode_body(body)]
