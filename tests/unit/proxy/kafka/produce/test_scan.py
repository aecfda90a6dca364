"""Which records carry a directive, and the batch made into two."""

import struct
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delayline.errors import MalformedRecord
from delayline.records.headers import RESERVED
from delayline.records.record import split_directives
from delayline.schedule.directives import directive_names
from kafkawire.batch.compression import decompress
from kafkawire.batch.head import Batch, Codec, read_batch
from kafkawire.batch.walk import RECORDS_MAX, walk
from kafkawire.protocol.errors import BatchError, BatchTooLarge, MalformedBatch
from proxy.kafka.produce.scan import PLAIN_BYTES_MAX, Directives, Found, needles_of, scan_batch
from tests.unit.mq.kafka.batches import (
    CODECS,
    COMPRESS,
    NONE,
    SNAPPY,
    SNAPPY_XERIAL,
    T0,
    ZSTD,
    Sent,
    batch_of,
    plain,
    read,
    records_of,
    with_payload,
)

ALIASES = ("rocketmq", "rabbitmq", "etf1")
NAMES = directive_names(()) | RESERVED
DIRECTIVES = Directives(NAMES)

every_codec = pytest.mark.parametrize("codec", CODECS)

words = st.sampled_from([b"delay-ms", b"the delay", b"deliver-at", b"", b"plain"]) | st.binary(max_size=30)
header_names = st.sampled_from(["delay-ms", "delay", "deliver-at", "delayline-origin", "trace", "DELAY", "delay-"])
headers = st.lists(st.tuples(header_names, st.none() | words), max_size=4)
sent = st.builds(Sent, st.integers(0, 2 * T0), st.none() | words, st.none() | words, headers)


NAMES_OF_ALL = directive_names(ALIASES) | RESERVED
ALL = Directives(NAMES_OF_ALL)
alias_names = st.sampled_from(sorted(name.decode() for name in NAMES_OF_ALL))
aliased = st.builds(
    Sent, st.integers(0, 2 * T0), st.none(), st.none() | words, st.lists(st.tuples(alias_names, words), max_size=3)
)


def directives_of(record: Sent) -> list[tuple[bytes, bytes | None]]:
    return [(name.encode(), value) for name, value in record.headers if name.encode() in NAMES]


@every_codec
def test_the_records_that_carry_a_directive_are_found_and_no_others(codec: int) -> None:
    @given(st.lists(sent, min_size=1, max_size=8))
    def check(records: list[Sent]) -> None:
        found = scan_batch(read_batch(batch_of(records, codec)), DIRECTIVES).found
        expected = {place: one for place, record in enumerate(records) if (one := directives_of(record))}
        assert {one.place: one.directives for one in found} == expected
        assert [one.has_key for one in found] == [records[place].key is not None for place in expected]

    check()


def taken_apart_whole(batch: Batch) -> list[Found]:
    """The long way: every record is taken apart, and nothing is searched for."""
    plain = decompress(batch.head.codec, batch.payload, PLAIN_BYTES_MAX)
    found = []
    for place, (_, _, body_at, end) in enumerate(walk(plain, batch.head.record_count)):
        if directives := split_directives(plain[body_at:end], NAMES_OF_ALL).directives:
            found.append(Found(place, directives, plain[body_at] != 0x01, end - body_at))
    return found


pieces = st.sampled_from([b"delay", b"\x0adelay", b"\x8a\x00delay", b"\x00", b"\x02", b"\x01", b"-ms"])
noise = st.lists(pieces, max_size=6).map(b"".join)
SOUND = b"\x01\x01\x00"
"""The body of a record without key, value and headers."""


def packed(records: list[Sent], last_body: bytes, codec: int) -> Batch:
    """A batch of `records`, and behind them one with this body, which need not be sound."""
    data = batch_of(records)
    last = b"\x00\x00" + bytes([2 * len(records)]) + last_body
    payload = data[61:] + bytes([2 * len(last)]) + last
    in_head = SNAPPY if codec == SNAPPY_XERIAL else codec
    return read_batch(with_payload(data, COMPRESS[codec](payload), in_head, len(records) + 1))


@pytest.mark.slow
@every_codec
def test_the_search_finds_what_taking_every_record_apart_finds(codec: int) -> None:
    """Also where names stand in keys and values, across the borders of records, or behind a length of two bytes."""

    @given(st.lists(sent | aliased, min_size=1, max_size=8), st.just(SOUND) | noise)
    @example([plain(0)], b"\x01\x01\x02\x8a\x00delay\x025")
    @example([Sent(T0, None, None, [("delay", b"5")])] * 3, SOUND)
    def check(records: list[Sent], last_body: bytes) -> None:
        batch = packed(records, last_body, codec)
        try:
            expected = taken_apart_whole(batch)
        except (MalformedBatch, MalformedRecord):
            with suppress(BatchError):
                scan_batch(batch, ALL)
        else:
            assert scan_batch(batch, ALL).found == expected

    check()
    batch = packed([plain(0)], b"\x01\x01\x02\x8a\x00delay\x025", codec)
    assert [one.directives for one in taken_apart_whole(batch)] == [[(b"delay", b"5")]]


@pytest.mark.slow
@every_codec
def test_a_batch_is_made_into_two_and_nothing_else_of_its_records_changes(codec: int) -> None:
    @given(st.lists(sent, min_size=1, max_size=8), st.data(), st.booleans())
    def check(records: list[Sent], data: st.DataObject, transactional: bool) -> None:
        scan = scan_batch(read_batch(batch_of(records, codec, transactional)), DIRECTIVES)
        candidates = [one.place for one in scan.found]
        delayed = data.draw(st.sets(st.sampled_from(candidates))) if candidates else set()
        parts = scan.split(delayed)
        rest = [place for place in range(len(records)) if place not in delayed]
        assert list(parts.immediate_at) == rest
        assert list(parts.delayed_at) == sorted(delayed)
        for part, places, sequence in ((parts.immediate, rest, 7), (parts.delayed, sorted(delayed), 2**31 - 1)):
            if not places:
                assert part is None
                continue
            assert part is not None
            written = b"".join(part.encode(sequence))
            assert records_of(written) == [(n, records[place]) for n, place in enumerate(places)]
            head = read_batch(written).head
            assert (head.producer_id, head.producer_epoch, head.base_sequence) == (77, 3, sequence)
            assert head.is_transactional == transactional
            assert head.codec == (Codec.SNAPPY if codec == SNAPPY_XERIAL else codec)
            if 0 < len(places) < len(records):
                assert head.max_timestamp == max(records[place].timestamp for place in places)

    check()


def test_a_part_can_be_written_again_under_another_sequence() -> None:
    parts = scan_batch(read_batch(batch_of([plain(0), plain(1, delay_ms=b"5")])), DIRECTIVES).split({1})
    assert parts.delayed is not None
    first, second = (b"".join(parts.delayed.encode(sequence)) for sequence in (3, 4))
    assert (read(first).base_sequence, read(second).base_sequence) == (3, 4)
    assert records_of(first) == records_of(second)


def test_a_batch_without_delays_is_not_copied() -> None:
    data = batch_of([plain(n) for n in range(10)])
    batch = read_batch(data)
    scan = scan_batch(batch, DIRECTIVES)
    assert (scan.found, scan.plain, scan.split(set()).immediate) == ([], b"", batch)


def test_a_batch_of_delays_only_goes_to_the_buffer_as_it_came() -> None:
    data = batch_of([plain(n, delay_ms=b"5") for n in range(3)], ZSTD)
    parts = scan_batch(read_batch(data), DIRECTIVES).split({0, 1, 2})
    assert parts.immediate is None
    assert parts.delayed is not None
    assert b"".join(parts.delayed.encode(40)) == data


def test_a_finding_has_place_kind_and_size() -> None:
    records = [plain(0), plain(1, trace=b"x", delay_ms=b"5"), Sent(T0, None, b"v", [("delay", b"1s")])]
    found = scan_batch(read_batch(batch_of(records)), DIRECTIVES).found
    body = b"\x04k1\x04v1\x04\x0atrace\x02x\x10delay-ms\x025"
    assert found == [
        Found(1, [(b"delay-ms", b"5")], True, len(body)),
        Found(2, [(b"delay", b"1s")], False, len(b"\x01\x02v\x02\x0adelay\x041s")),
    ]


def test_a_directives_name_in_a_key_or_a_value_is_no_directive() -> None:
    records = [Sent(T0, b"delay-ms", b"\x10delay-ms\x025", [("x", b"delay-ms")])]
    assert scan_batch(read_batch(batch_of(records)), DIRECTIVES).found == []


def test_a_name_across_the_border_of_two_records_is_none() -> None:
    odd = b"dela" + b"\x01\x58" + bytes(44) + b"\x00"  # a length of 50, and three bytes that are free to be anything
    first = batch_of([plain(0)])
    data = with_payload(first, first[61:] + odd, NONE, 2)
    assert scan_batch(read_batch(data), Directives([b"dela"])).found == []


def test_a_large_batch_without_delays_is_the_brokers_to_judge() -> None:
    batch = read_batch(batch_of([Sent(T0, None, bytes(1000), [])]))
    assert scan_batch(batch, DIRECTIVES, 100).split(set()).immediate is batch


def test_long_and_many_records_are_split() -> None:
    long = {3: 20_000, 5: 9000, 100: 200}
    records = [
        Sent(T0 - n, None, bytes(long.get(n, 0)), [("delay-ms", b"1")] if n % 5 == 0 else []) for n in range(9000)
    ]
    scan = scan_batch(read_batch(batch_of(records)), DIRECTIVES)
    delayed = {one.place for one in scan.found}
    assert delayed == set(range(0, 9000, 5))
    parts = scan.split(delayed)
    assert parts.immediate is not None
    written = records_of(b"".join(parts.immediate.encode(0)))
    assert written == [(n, records[place]) for n, place in enumerate(parts.immediate_at)]


def test_every_name_contains_one_of_the_few_that_are_searched_for() -> None:
    names = directive_names(ALIASES) | RESERVED
    needles = needles_of(names)
    assert all(any(needle in name for needle in needles) for name in names)
    assert len(needles) < len(names) / 3


@pytest.mark.parametrize("name", sorted(directive_names(ALIASES) | RESERVED))
def test_every_directive_of_every_family_is_found(name: bytes) -> None:
    directives = Directives(directive_names(ALIASES) | RESERVED)
    found = scan_batch(read_batch(batch_of([Sent(T0, b"k", b"v", [(name.decode(), b"1")])])), directives).found
    assert [one.directives for one in found] == [[(name, b"1")]]


def test_a_control_batch_is_not_looked_into() -> None:
    data = bytearray(batch_of([plain(0, delay_ms=b"5")]))
    data[22] |= 0x20
    assert scan_batch(read_batch(bytes(data)), DIRECTIVES).found == []


@every_codec
def test_records_beyond_the_limit_are_refused(codec: int) -> None:
    data = batch_of([Sent(T0, b"k", b"word " * 4000, [("delay-ms", b"5")])], codec)
    assert len(scan_batch(read_batch(data), DIRECTIVES, 21_000).found) == 1
    with pytest.raises(BatchTooLarge):
        scan_batch(read_batch(data), DIRECTIVES, 20_000)


def test_more_records_than_can_be_walked_are_refused() -> None:
    data = batch_of([plain(0, delay_ms=b"5")])
    with pytest.raises(BatchTooLarge):
        scan_batch(read_batch(with_payload(data, data[61:], NONE, RECORDS_MAX + 1)), DIRECTIVES)


@pytest.mark.parametrize("count", [1, 3])
def test_a_count_that_is_not_the_number_of_records_is_refused(count: int) -> None:
    data = batch_of([plain(0), plain(1, delay_ms=b"5")])
    with pytest.raises(MalformedBatch):
        scan_batch(read_batch(with_payload(data, data[61:], NONE, count)), DIRECTIVES)


@pytest.mark.parametrize("at", range(24))
@pytest.mark.parametrize("byte", [0x01, 0x7F, 0x80, 0xFF])
def test_damaged_records_are_split_or_refused_and_nothing_else(at: int, byte: int) -> None:
    data = batch_of([plain(0), plain(1, delay_ms=b"5")])
    payload = bytearray(data[61:])
    payload[-1 - at if at % 2 else at] = byte
    with suppress(BatchError):
        scan = scan_batch(read_batch(with_payload(data, bytes(payload), NONE)), DIRECTIVES)
        scan.split({one.place for one in scan.found})


@given(st.binary(max_size=80), st.integers(0, 5), st.sampled_from([0, 1, 2, 3, 4]), st.integers(-2, 40))
def test_arbitrary_records_are_split_or_refused_and_nothing_else(
    noise: bytes, count: int, codec: int, length: int
) -> None:
    data = batch_of([plain(0, delay_ms=b"5")])
    for payload in (noise, noise + data[61:], struct.pack("b", length) + data[62:] + noise):
        with suppress(BatchError):
            scan = scan_batch(read_batch(with_payload(data, payload, codec, count)), DIRECTIVES)
            scan.split({one.place for one in scan.found})
