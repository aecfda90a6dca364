"""The quick way through buffer records gives what the general way gives, of every record and in every order."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delayline.buffer import shapes
from delayline.buffer.decisions import encode_decision
from delayline.buffer.record import BufferRecord, Message, read
from delayline.buffer.shapes import PlainRecords, Reader
from delayline.errors import UnknownFormat
from delayline.records.headers import CONTROL, DECISION, ID, ORIGIN
from delayline.records.message import Header, Key
from delayline.records.record import encode_body, encode_varint
from delayline.schedule.directives import directive_names
from delayline.schedule.rules import DEFAULT_RULES, Rules
from tests.unit.delayline.bodies import BYTES, HEADERS, PARTS

NOW_MS = 1_767_225_600_000
ALL_NAMES = sorted(directive_names(("rocketmq", "rabbitmq", "etf1")))
VALUES = [
    b"0",
    b"1",
    b"5000",
    b"-1",
    b"5s",
    b"1_0",
    b" 5",
    b"1e3",
    b"cancel",
    b"%d" % (NOW_MS + 7),
    b"9" * 15,
    b"9" * 16,
]
DIRECTIVES = st.tuples(st.sampled_from(ALL_NAMES), st.none() | st.sampled_from(VALUES) | st.binary(max_size=20))
KEPT = st.tuples(st.sampled_from([b"trace", b"", b"delay-mt", b"x" * 70]), st.none() | st.binary(max_size=80))
RULES = st.builds(
    Rules,
    aliases=st.sampled_from([(), ("rocketmq",), ("rabbitmq", "etf1")]),
    default_delay_ms=st.sampled_from([0, 60_000]),
)
DELAY = b"delay-ms"


@st.composite
def written(draw: st.DrawFn) -> list[bytes]:
    """What producers write, a few records each: headers of one layout and other values, or what it is taken for."""
    bodies: list[bytes] = []
    for headers in draw(st.lists(st.lists(DIRECTIVES | KEPT, max_size=4) | HEADERS, min_size=1, max_size=3)):
        for _ in range(draw(st.integers(1, 4))):
            filled = [(name, _like(draw, value)) for name, value in headers]
            bodies.append(encode_body(draw(PARTS), draw(PARTS), filled))
            if draw(st.integers(0, 3)) == 0:
                bodies.append(_damaged(draw, bodies[-1]))
    return draw(st.permutations([*bodies, *draw(st.lists(BYTES, max_size=2))]))


def _like(draw: st.DrawFn, value: bytes | None) -> bytes | None:
    """Of the same length, mostly."""
    if not value or draw(st.booleans()):
        return value
    other = draw(st.sampled_from(VALUES) | st.binary(min_size=len(value), max_size=len(value)))
    return other if draw(st.integers(0, 5)) == 0 else other[: len(value)].ljust(len(value), b"0")


def _damaged(draw: st.DrawFn, body: bytes) -> bytes:
    at = draw(st.integers(0, max(0, len(body) - 1)))
    return body[:at] + draw(st.binary(max_size=1)) + body[at + 1 :]


def at_once(bodies: Sequence[bytes]) -> PlainRecords:
    return [(offset, NOW_MS + offset // 3, body) for offset, body in enumerate(bodies)]


def read_all(reader: Reader, records: PlainRecords) -> list[tuple[int, object]]:
    """What a caller finds: `(offset, entry)` or `(offset, meaning)`."""
    found: list[tuple[int, object]] = []
    at = 0
    while at < len(records):
        entries: list[tuple[int, int, bytes]] = []
        try:
            at, meaning = reader.read(records, at, entries)
        except UnknownFormat:
            meaning, at = None, at + len(entries)
            entries.append((-1, records[at][0], b"unknown"))
            at += 1
        found += [(offset, (due_ms, value)) for due_ms, offset, value in entries]
        if meaning is not None:
            found.append((records[at][0], meaning))
            at += 1
    return found


def one_by_one(records: PlainRecords, rules: Rules) -> list[tuple[int, object]]:
    return [(offset, _plain(body, accepted_at_ms, rules)) for offset, accepted_at_ms, body in records]


def _plain(body: bytes, accepted_at_ms: int, rules: Rules) -> object:
    try:
        meaning: BufferRecord = read(body, accepted_at_ms, rules)
    except UnknownFormat:
        return -1, b"unknown"
    if isinstance(meaning, Message) and meaning.replaces is None and meaning.terms is None:
        return meaning.due_ms, meaning.value
    return meaning


@given(written(), RULES)
def test_both_ways_agree_on_whatever_is_written_once_and_again(bodies: list[bytes], rules: Rules) -> None:
    records, reader = at_once(bodies), Reader(rules)
    expected = one_by_one(records, rules)
    assert read_all(reader, records) == expected
    assert read_all(reader, records) == expected


@given(st.lists(BYTES, max_size=8))
@example([b""])
@example([b"\x02"])
@example([b"\x03\x00\x00", b"\x00\x03\x00"])
@example([b"\x80\x80\x01", b"\x00\x80"])
def test_both_ways_agree_on_any_bytes(bodies: list[bytes]) -> None:
    records = at_once(bodies)
    assert read_all(Reader(DEFAULT_RULES), records) == one_by_one(records, DEFAULT_RULES)


@given(st.sampled_from(ALL_NAMES), st.lists(st.sampled_from(VALUES), min_size=2, max_size=6), RULES)
def test_a_verdict_is_remembered_for_every_append_time(name: bytes, values: list[bytes], rules: Rules) -> None:
    bodies = [encode_body(b"k", None, [(b"a", b"1"), (name, value)]) for value in values]
    records = [(n, NOW_MS + n * 86_400_000, body) for n, body in enumerate([*bodies, *bodies])]
    assert read_all(Reader(rules), records) == one_by_one(records, rules)


@pytest.mark.parametrize("key", [None, b"", b"k" * 63, b"k" * 64, b"k" * 9000])
@pytest.mark.parametrize("value", [None, b"", b"v" * 63, b"v" * 64, b"v" * 8191, b"v" * 8192])
def test_keys_and_values_of_all_lengths_are_passed_over(key: bytes | None, value: bytes | None) -> None:
    records = at_once([encode_body(key, value, [(DELAY, b"5000"), (b"n", b"%d" % n)]) for n in range(3)])
    reader = Reader(DEFAULT_RULES)
    assert read_all(reader, records) == one_by_one(records, DEFAULT_RULES)
    assert reader.general == 1


def general(*headers: Sequence[Header], rules: Rules = DEFAULT_RULES) -> int:
    """How many of the records with these headers went the general way."""
    records = at_once([encode_body(b"k", b"v", list(each)) for each in headers])
    reader = Reader(rules)
    assert read_all(reader, records) == one_by_one(records, rules)
    return reader.general


@pytest.mark.parametrize("name", [b"delay-ms", b"delay", b"delay-level", b"deliver-at"])
def test_the_second_record_of_a_producer_is_read_by_shape(name: bytes) -> None:
    value = b"%d" % NOW_MS if name == b"deliver-at" else b"5s" if name == b"delay" else b"7"
    for before, after in ([], [(b"b", b"1")]), ([(b"a", None)], []), ([(b"a", b"")], [(b"b", b"2"), (b"c", None)]):
        assert general(*[[*before, (name, value), *after]] * 5) == 1


@pytest.mark.parametrize("default_delay_ms", [0, 5000])
@pytest.mark.parametrize("headers", [[], [(b"trace", b"x")], [(b"null", None)]])
def test_records_without_a_time_are_read_by_shape(headers: list[Header], default_delay_ms: int) -> None:
    assert general(*[headers] * 5, rules=Rules(default_delay_ms=default_delay_ms)) == 1


def test_a_section_of_equal_length_but_another_layout_is_another_shape() -> None:
    first = [(DELAY, b"1000"), (b"ab", b"c")]
    assert general(first, first, [(DELAY, b"1000"), (b"a", b"bc")], [(b"ab", b"c"), (DELAY, b"1000")]) == 3


def test_a_null_is_not_taken_for_an_empty_value() -> None:
    assert general([(DELAY, b"1000"), (b"a", b"")], [(DELAY, b"1000"), (b"a", None)]) == 2


def test_a_length_that_is_written_otherwise_is_another_shape() -> None:
    long_way = b"\x02k\x02v" + b"\x02" + b"\x90\x00delay-ms" + b"\x08" + b"1000"  # a length of 8 in two bytes
    records = at_once([long_way, encode_body(b"k", b"v", [(DELAY, b"51000")]), long_way])
    reader = Reader(DEFAULT_RULES)
    assert read_all(reader, records) == one_by_one(records, DEFAULT_RULES)
    assert reader.general == 2


def test_a_negative_length_is_not_taken_for_a_length() -> None:
    good = encode_body(b"k", b"v" * 64, [(DELAY, b"1000")])
    negative = good.replace(encode_varint(64), b"\x81\x01", 1)
    records, reader = at_once([good, negative, good]), Reader(DEFAULT_RULES)
    assert read_all(reader, records) == one_by_one(records, DEFAULT_RULES)
    assert reader.general == 2


def test_many_headers_and_long_names_have_a_shape_too() -> None:
    many: list[Header] = [(b"n%d" % n, b"v") for n in range(70)]
    assert general(*[[*many, (b"n" * 80, b"v"), (DELAY, b"1000")]] * 3) == 1


def test_a_section_beyond_some_kilobytes_has_none() -> None:
    assert general(*[[(b"a", b"v" * shapes.SECTION_BYTES_MAX), (DELAY, b"1000")]] * 3) == 3


def test_a_directives_name_inside_a_key_or_a_value_has_no_effect() -> None:
    inside = encode_varint(8) + DELAY + encode_varint(4) + b"1000"
    bodies = [encode_body(inside, inside, [(b"a", inside), (DELAY, b"%d" % n)]) for n in (1000, 2000)]
    records, reader = at_once(bodies), Reader(DEFAULT_RULES)
    assert read_all(reader, records) == one_by_one(records, DEFAULT_RULES)
    assert reader.general == 1


@pytest.mark.parametrize(
    "headers",
    [
        [(DELAY, b"1000"), (DELAY, b"1000")],
        [(DELAY, b"1000"), (b"delay", b"1s")],
        [(DELAY, b"1000"), (ID, b"echo")],
        [(DELAY, b"1000"), (ORIGIN, b"x")],
        [(ID, b"echo")],
        [(DELAY, None)],
        [(DELAY, b"soon")],
        [(b"delay-every", b"5s")],
        [(CONTROL, b"pause")],
    ],
)
def test_what_has_more_than_a_time_goes_the_general_way_every_time(headers: list[Header]) -> None:
    assert general(*[headers] * 3) == 3


def test_reading_stops_at_a_record_of_another_meaning_and_goes_on_behind_it() -> None:
    plain = encode_body(b"k", b"v", [(DELAY, b"5000")])
    records = at_once([plain, encode_decision([Key(1, 2)]), plain])
    entries: list[tuple[int, int, bytes]] = []
    reader = Reader(DEFAULT_RULES)
    at, meaning = reader.read(records, 0, entries)
    assert (at, meaning, [offset for _, offset, _ in entries]) == (1, read(records[1][2], 0, DEFAULT_RULES), [0])
    assert reader.read(records, 2, entries) == (3, None)
    assert [offset for _, offset, _ in entries] == [0, 2]


def test_a_record_of_an_unknown_version_stops_the_reading() -> None:
    with pytest.raises(UnknownFormat):
        Reader(DEFAULT_RULES).read(at_once([encode_body(None, b"", [(DECISION, b"9")])]), 0, [])


def test_shapes_without_end_take_a_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "SHAPES_MAX", 8)
    monkeypatch.setattr(shapes, "MISSES_MAX", 100)
    reader = Reader(DEFAULT_RULES)
    records = at_once(
        [encode_body(b"k", b"v", [(b"n" * (n % 97), b"v"), (b"delay", b"%ds" % n)]) for n in range(500)]
    )
    for _ in range(2):
        assert read_all(reader, records) == one_by_one(records, DEFAULT_RULES)
        assert sum(map(len, reader.shapes.values())) + reader.room == 8


def test_values_without_end_take_a_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "VALUES_MAX", 5)
    reader = Reader(DEFAULT_RULES)
    records = at_once([encode_body(b"k", b"v", [(b"delay", b"%ds" % n)]) for n in range(100, 200)])
    assert read_all(reader, records) == one_by_one(records, DEFAULT_RULES)
    assert (reader.general, len(reader.delays[b"delay"])) == (1, 5)


def test_layouts_without_number_of_one_size_are_not_tried_for_ever() -> None:
    sections = [[(b"n" * n, b"v" * (1300 - n)), (DELAY, b"1000")] for n in range(100, 1100)]
    reader = Reader(DEFAULT_RULES)
    records = at_once([encode_body(b"k", b"v", headers) for headers in sections])
    assert read_all(reader, records) == one_by_one(records, DEFAULT_RULES)
    assert list(reader.shapes.values()) == [[]]
    assert reader.room == shapes.SHAPES_MAX
