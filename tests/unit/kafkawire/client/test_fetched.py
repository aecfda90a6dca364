"""kafkawire.client.fetched."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayline.records.record import decode_body, encode_body
from kafkawire.client import fetched
from kafkawire.client.fetched import BATCH_BYTES_MAX, Batches, extent_of
from kafkawire.protocol.errors import BatchError
from tests.tiers import examples
from tests.unit.mq.kafka.batches import CODECS, T0, ZSTD
from tests.unit.mq.kafka.logged import (
    ABORT,
    APPEND_TIME,
    COMMIT,
    NOBODY,
    TRANSACTIONAL,
    Log,
    batch,
    random_log,
    sealed,
    wire_record,
)

FIRST = 1 << 40
ROOM = 1 << 30


def body(text: str) -> bytes:
    return encode_body(None, text.encode())


def batches(data: bytes, offset: int = 0, aborted: list[tuple[int, int]] | None = None) -> Batches:
    return Batches(memoryview(data), offset, extent_of(memoryview(data), offset), aborted or [])


def all_of(found: Batches) -> list[tuple[int, int, bytes]]:
    return found.take(FIRST, ROOM)


def texts(data: bytes, offset: int = 0) -> list[tuple[int, bytes]]:
    return [(at, one) for at, _, one in all_of(batches(data, offset))]


A, B, C = body("a"), body("b"), body("c")
TWO = batch(0, [A, B]) + batch(2, [C])


def test_batches_are_read_one_after_the_other() -> None:
    assert all_of(batches(TWO)) == [(0, T0, A), (1, T0, B), (2, T0, C)]


def test_what_stands_before_the_offset_that_was_asked_for_is_not_handed_out() -> None:
    assert texts(TWO, 1) == [(1, B), (2, C)]


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_records_are_read(codec: int) -> None:
    bodies = [body("x" * n) for n in range(100)]
    assert [one for _, _, one in all_of(batches(batch(0, bodies, codec=codec)))] == bodies


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    for size in range(len(batch(0, [A, B])), len(TWO)):
        found = batches(TWO[:size])
        assert (len(all_of(found)), found.next_offset, found.done) == (2, 2, True)


def test_where_not_even_one_batch_is_whole_it_returns_how_much_is_needed() -> None:
    data = batch(0, [A, B])
    assert [extent_of(data[:size], 0).bytes_needed for size in (0, 5, 12, 61, 70, len(data))] == [
        0,
        61,
        len(data),
        len(data),
        len(data),
        0,
    ]


def test_a_batch_that_no_answer_could_hold_is_an_error() -> None:
    data = bytearray(batch(0, [A]))
    struct.pack_into(">i", data, 8, BATCH_BYTES_MAX)
    with pytest.raises(BatchError):
        all_of(batches(bytes(data)))


def test_records_are_handed_out_as_many_as_are_wanted() -> None:
    found = batches(TWO)
    seen = [(len(found.take(2, ROOM)), found.next_offset, found.done) for _ in range(2)]
    assert seen == [(2, 2, False), (1, 3, True)]
    found = batches(TWO)
    seen = [(len(found.take(1, ROOM)), found.next_offset, found.done) for _ in range(3)]
    assert seen == [(1, 1, False), (1, 2, False), (1, 3, True)]


def test_no_batch_is_unpacked_behind_the_one_that_fills_the_room() -> None:
    heavy = [body("x" * 100_000)] * 10
    found = batches(b"".join(batch(10 * n, heavy, codec=ZSTD) for n in range(5)))
    seen = []
    while not found.done:
        records = found.take(FIRST, 1_500_000)
        seen.append((len(records), records[0][0], found.next_offset, found.unpacked_bytes // 1_000_000))
    assert seen == [(20, 0, 20, 2), (20, 20, 40, 4), (10, 40, 50, 5)]


def test_records_without_content_take_up_room_too() -> None:
    found = batches(b"".join(batch(1000 * n, [A] * 1000, codec=ZSTD) for n in range(3)))
    assert (len(found.take(FIRST, 100_000)), found.next_offset) == (1000, 1000)


@pytest.mark.parametrize("codec", CODECS)
def test_what_waits_is_handed_out_without_room_and_nothing_more(codec: int) -> None:
    found = batches(batch(0, [A, B, C], codec=codec) + batch(3, [A], codec=codec))
    seen = []
    for room in (1, 0, 0, 0, 1):
        records = found.take(1, room)
        seen.append(([row[0] for row in records], found.next_offset, found.left_bytes > 0))
    assert seen == [([0], 1, True), ([1], 2, True), ([2], 3, False), ([], 3, False), ([3], 4, False)]
    assert found.done


def test_behind_the_last_batch_reading_goes_on_even_where_its_last_records_are_gone() -> None:
    found = batches(batch(10, {0: A}, last_delta=9), 10)
    assert (len(all_of(found)), found.next_offset) == (1, 20)


def test_markers_of_transactions_are_passed_over() -> None:
    log = Log()
    log.append([A], 1)
    log.end_transaction(1, COMMIT)
    found = batches(*log.fetch(0, FIRST)[:1])
    assert ([one for _, _, one in all_of(found)], found.next_offset) == ([A], 2)


def test_what_was_aborted_is_left_out_up_to_its_marker() -> None:
    log = Log()
    log.append([A], 1)
    log.append([B])
    log.end_transaction(1, ABORT)
    log.append([C], 1)
    log.end_transaction(1, COMMIT)
    data, aborted = log.fetch(0, FIRST)
    assert [one for _, _, one in all_of(batches(data, 0, aborted))] == [B, C]


def test_a_producers_records_before_its_aborted_transaction_are_read() -> None:
    log = Log()
    log.append([A], 1)
    log.end_transaction(1, COMMIT)
    log.append([B], 1)
    log.end_transaction(1, ABORT)
    data, aborted = log.fetch(0, FIRST)
    assert [one for _, _, one in all_of(batches(data, 0, aborted))] == [A]


def test_what_a_producer_writes_outside_of_transactions_is_not_aborted_with_one() -> None:
    data = batch(0, [A], producer=1) + batch(1, [B], attributes=APPEND_TIME | TRANSACTIONAL, producer=1)
    assert [one for _, _, one in all_of(batches(data, 0, [(1, 0)]))] == [A]


def test_a_marker_that_was_compacted_away_ends_nothing() -> None:
    emptied = sealed(0, APPEND_TIME | 0x30, 0, 7, 0, b"")
    found = batches(emptied + batch(1, [A]))
    assert [one for _, _, one in all_of(found)] == [A]


@settings(max_examples=examples(600), deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 60))
def test_every_committed_record_is_read_once_wherever_answers_are_cut(seed: int, steps: int) -> None:
    dice = random.Random(seed)
    log = random_log(dice, steps)
    offset = start = dice.randrange(log.stable_end + 1)
    read: list[tuple[int, bytes]] = []
    bytes_max = dice.randrange(1, 3000)
    while offset < log.stable_end:
        data, aborted = log.fetch(offset, bytes_max)
        extent = extent_of(data, offset)
        if extent.bytes_needed:
            bytes_max = extent.bytes_needed
            continue
        found = Batches(data, offset, extent, aborted)
        while not found.done:
            read += [(at, one) for at, _, one in found.take(dice.randrange(1, 30), dice.choice([1, 2000, ROOM]))]
        assert found.next_offset == extent.next_offset > offset
        offset = found.next_offset
    assert read == [record for record in log.readable() if record[0] >= start]


# --- what cannot be read


def broken(at: int, byte: int) -> bytes:
    data = bytearray(TWO)
    data[at] = byte
    return bytes(data)


SECOND = len(batch(0, [A, B]))
MAGIC = 16


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_a_batch_of_another_format_is_an_error_behind_what_came_before(magic: int) -> None:
    found = batches(broken(SECOND + MAGIC, magic))
    assert ([one for _, _, one in found.take(10, ROOM)], found.next_offset, found.done) == ([A, B], 2, False)
    for _ in range(2):
        with pytest.raises(BatchError, match=f"at offset 2: a batch of magic {magic}"):
            found.take(10, ROOM)


def test_a_wrong_checksum_is_an_error_behind_what_came_before() -> None:
    found = batches(broken(SECOND + 65, 0xFF))
    assert ([one for _, _, one in found.take(10, ROOM)], found.next_offset) == ([A, B], 2)
    for _ in range(2):
        with pytest.raises(BatchError, match="at offset 2"):
            found.take(10, ROOM)


@pytest.mark.parametrize(
    "second",
    [
        batch(1, [C]),  # an offset twice
        batch(1, [C, C]),
        batch(0, [C]),
        batch((1 << 63) - 1, [C, C]),
        sealed(2, APPEND_TIME, -1, NOBODY, 0, b""),
        sealed(2, APPEND_TIME | 0x20, 0, 7, 1, b"\x0a\x00\x00\x00\x0b\x00"),
    ],
)
def test_a_batch_that_cannot_be_one_is_an_error(second: bytes) -> None:
    found = batches(batch(0, [A, B]) + second)
    assert len(found.take(10, ROOM)) == 2
    with pytest.raises(BatchError):
        found.take(10, ROOM)


def test_batches_that_end_before_the_offset_that_was_asked_for_are_an_error() -> None:
    with pytest.raises(BatchError):
        all_of(batches(TWO, 3))


@pytest.mark.slow
@settings(max_examples=examples(1200), deadline=None)
@given(st.data())
def test_any_change_of_a_records_field_is_found_or_does_no_harm(data: st.DataObject) -> None:
    """It ends, with records whose offsets ascend, or a BatchError."""
    log = random_log(random.Random(data.draw(st.integers(0, 50))), 12)
    field, aborted = log.fetch(0, FIRST)
    changed = bytearray(field)
    for _ in range(data.draw(st.integers(1, 3))):
        if changed:
            at = data.draw(st.integers(0, len(changed) - 1))
            changed[at] = data.draw(st.integers(0, 255))
    changed = changed[: data.draw(st.integers(0, len(changed)))]
    found = batches(bytes(changed), 0, aborted)
    seen: list[int] = []
    try:
        while not found.done:
            seen += [at for at, _, _ in found.take(7, ROOM)]
    except BatchError:
        pass
    assert seen == sorted(set(seen))


# --- batches that cannot be taken apart


NO_GZIP = sealed(2, APPEND_TIME | 1, 2, NOBODY, 3, b"not gzip")
SET_ASIDE = [
    sealed(2, APPEND_TIME | 7, 2, NOBODY, 3, b"x"),
    NO_GZIP,
    sealed(2, APPEND_TIME, 2, NOBODY, 3, b"\xff\xff"),
    sealed(2, APPEND_TIME, 2, NOBODY, -3, b"\xff\xff"),
    sealed(2, APPEND_TIME, 2, NOBODY, 1 << 30, b""),
    sealed(2, APPEND_TIME, 2, NOBODY, 2, b"".join(wire_record(delta, C) for delta in (2, 1))),
]


@pytest.mark.parametrize("broken", SET_ASIDE)
def test_a_batch_that_cannot_be_taken_apart_is_one_record_with_its_bytes_and_reading_goes_on(broken: bytes) -> None:
    found = all_of(batches(batch(0, [A, B]) + broken + batch(5, [C])))
    assert [at for at, _, _ in found] == [0, 1, 2, 5]
    _, at_ms, aside = found[2]
    record = decode_body(aside)
    assert (at_ms, record.key, record.value) == (T0, None, broken)
    assert (record.headers[0][1] or b"").startswith(b"offsets 2 to 4, %d bytes: " % len(broken))


def test_a_large_batch_that_is_set_aside_is_named_and_not_copied() -> None:
    broken = sealed(2, APPEND_TIME | 1, 2, NOBODY, 3, b"not gzip" * 40_000)
    record = decode_body(texts(broken, 2)[0][1])
    assert record.value is None
    assert b"320061 bytes, more than 262144, not copied" in (record.headers[0][1] or b"")


def test_what_is_behind_the_first_offset_of_a_batch_that_is_set_aside_is_a_hole() -> None:
    found = batches(NO_GZIP, 3)
    assert (all_of(found), found.next_offset, found.done) == ([], 5, True)


def test_an_aborted_batch_that_cannot_be_taken_apart_is_left_out() -> None:
    broken = sealed(2, APPEND_TIME | TRANSACTIONAL, 2, 9, 3, b"\xff\xff")
    assert all_of(batches(broken, 2, [(9, 2)])) == []


@pytest.mark.parametrize("codec", CODECS[1:])
def test_what_a_batch_unpacks_to_beyond_the_bound_is_set_aside(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = batch(0, [body("x" * 1000)] * 100, codec=codec)
    assert len(texts(bomb)) == 100
    monkeypatch.setattr(fetched, "PLAIN_BYTES_MAX", 90_000)
    assert [at for at, _ in texts(bomb + batch(100, [A]))] == [0, 100]
    assert decode_body(texts(bomb)[0][1]).value == bomb
