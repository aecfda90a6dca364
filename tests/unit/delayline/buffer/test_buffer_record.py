"""What stands in a buffer topic."""

from typing import NoReturn

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delayline.buffer import record as buffer_record
from delayline.buffer.decisions import encode_decision
from delayline.buffer.record import (
    READING_FAILS,
    Decision,
    Message,
    Meta,
    RulesChange,
    decode_value,
    encode_reappend,
    encode_rules,
    encode_value,
    read,
)
from delayline.errors import UnknownFormat
from delayline.records.headers import ACCEPTED, DECISION, DUE, ID, ORIGIN, REPLACES, RULES, VERSION
from delayline.records.message import Header, Key, MessageId
from delayline.records.record import Record, decode_body, decode_packed, encode_body
from delayline.schedule.rules import DEFAULT_RULES, Rules
from delayline.schedule.verdict import Reason
from delayline.times import MOMENT_MAX_MS
from tests.unit.delayline.bodies import BYTES, HEADERS, PARTS, plain
from tests.unit.delayline.records.test_message import IDS, NUMBERS
from tests.unit.delayline.schedule.test_rules import RULES as ANY_RULES

NOW_MS = 1_767_225_600_000
DAY_MS = 86_400_000
KEYS = st.builds(Key, NUMBERS, NUMBERS)
METAS = st.builds(
    Meta,
    origin=st.none() | IDS.map(str),
    version=st.integers(0, 1 << 31),
    dead_code=st.none() | st.sampled_from([str(reason) for reason in Reason]),
    dead_reason=st.none() | st.text(max_size=200),
    accepted_at_ms=NUMBERS,
)


def read_message(body: bytes, rules: Rules = DEFAULT_RULES) -> Message:
    found = read(body, NOW_MS, rules)
    assert isinstance(found, Message), found
    return found


def death_of(body: bytes) -> tuple[str | None, str | None]:
    meta, kept = decode_value(read_message(body).value)
    assert meta is not None
    assert (kept, meta.accepted_at_ms) == (body, NOW_MS)
    return meta.dead_code, meta.dead_reason


# --- messages


@given(PARTS, PARTS, HEADERS.map(plain))
def test_a_message_is_kept_without_its_directives(
    key: bytes | None, value: bytes | None, headers: list[Header]
) -> None:
    message = read_message(encode_body(key, value, [(ID, b"echo"), *headers, (b"delay", b"5s"), (DUE, b"echo")]))
    meta, packed = decode_value(message.value)
    assert (message.due_ms, message.origin, message.replaces, meta) == (NOW_MS + 5000, None, None, None)
    assert decode_packed(packed) == Record(key, value, [*headers, (ACCEPTED, b"%d" % NOW_MS)])


def test_a_message_without_a_time_is_due_when_it_was_accepted() -> None:
    assert read_message(encode_body(b"k", b"v")).due_ms == NOW_MS


def test_the_rules_decide_what_a_level_means_and_which_aliases_count() -> None:
    rules = Rules(levels_ms=(7,), aliases=("rabbitmq",))
    assert read_message(encode_body(None, b"v", [(b"delay-level", b"1")]), rules).due_ms == NOW_MS + 7
    assert read_message(encode_body(None, b"v", [(b"x-delay", b"9")]), rules).due_ms == NOW_MS + 9


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ((b"delay", b"soon"), Reason.INVALID),
        ((b"delay", b"99999d"), Reason.BEYOND_HORIZON),
    ],
)
def test_a_message_with_an_invalid_directive_is_due_at_once_and_dead(header: Header, code: Reason) -> None:
    body = encode_body(None, b"v", [header])
    assert read_message(body).due_ms == NOW_MS
    assert death_of(body)[0] == code


def test_bytes_that_are_no_record_are_dead_and_kept_as_they_came() -> None:
    code, reason = death_of(b"\x80")
    assert code == "malformed-record"
    assert reason is not None
    assert reason.startswith("the record ends")


@given(st.one_of(BYTES, st.builds(encode_body, PARTS, PARTS, HEADERS)))
@example(encode_body(None, b"\xff", [(RULES, b"0")]))
@example(encode_body(None, None, [(DECISION, None)]))
def test_whatever_a_client_writes_is_a_record_or_stops_the_shard(body: bytes) -> None:
    found, refused = None, ""
    try:
        found = read(body, NOW_MS, DEFAULT_RULES)
    except UnknownFormat as error:
        refused = str(error)
    assert READING_FAILS not in refused
    assert not isinstance(found, Message) or 0 <= found.due_ms < 1 << 63


def test_a_record_on_which_this_program_fails_stops_the_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> NoReturn:
        raise OverflowError("int too big to convert")

    monkeypatch.setattr(buffer_record, "read_directives", fails)
    with pytest.raises(UnknownFormat, match="fails to read it: OverflowError"):
        read(encode_body(None, b"x", [(b"delay-ms", b"1")]), NOW_MS, DEFAULT_RULES)


# --- index values


@given(st.none() | METAS, st.binary(max_size=40))
def test_an_index_value_reads_back_as_its_halves(meta: Meta | None, packed: bytes) -> None:
    assert decode_value(encode_value(meta, packed)) == (meta, packed)


def test_a_plain_message_pays_one_byte_for_its_metadata() -> None:
    assert encode_value(None, b"packed") == b"\x00packed"


def metadata_of(size: int) -> Meta:
    empty = len(msgspec.msgpack.encode(Meta(origin="o" * 200)))
    meta = Meta(origin="o" * (200 + size - empty))
    assert len(msgspec.msgpack.encode(meta)) == size
    return meta


@pytest.mark.parametrize(("size", "first"), [(254, 254), (255, 255), (256, 255)])
def test_metadata_of_255_bytes_and_more_takes_the_long_form(size: int, first: int) -> None:
    meta = metadata_of(size)
    value = encode_value(meta, b"packed")
    assert value[0] == first
    assert decode_value(value) == (meta, b"packed")


# --- re-appends


def sayable(message_id: MessageId) -> MessageId:
    return message_id._replace(due_ms=min(message_id.due_ms, MOMENT_MAX_MS))


@given(PARTS, PARTS, HEADERS.map(plain), st.builds(Key, st.integers(0, MOMENT_MAX_MS), NUMBERS), IDS.map(sayable))
def test_a_reappended_message_keeps_everything_but_its_offset(
    key: bytes | None, value: bytes | None, headers: list[Header], replaces: Key, message_id: MessageId
) -> None:
    first = read_message(encode_body(key, value, [*headers, (b"delay", b"1h")]))
    body = encode_reappend(first.value, replaces, str(message_id), first.due_ms)
    again = read(body, NOW_MS + DAY_MS, Rules(levels_ms=(1,)))
    assert isinstance(again, Message)
    assert (again.due_ms, again.origin, again.replaces) == (first.due_ms, str(message_id), replaces)
    meta, packed = decode_value(again.value)
    assert meta == Meta(origin=str(message_id), version=1)
    assert packed == decode_value(first.value)[1]


def test_every_reappend_raises_the_version() -> None:
    value = read_message(encode_body(None, b"v", [(b"delay", b"1h")])).value
    for expected in (1, 2, 3):
        found = read_message(encode_reappend(value, Key(5, 6), "orders.0.1.5", NOW_MS))
        meta, value = decode_value(found.value)[0], found.value
        assert meta is not None
        assert meta.version == expected


def test_a_header_of_a_foreign_system_survives_a_reappend_whatever_the_rules_are_by_then() -> None:
    value = read_message(encode_body(None, b"v", [(b"x-delay", b"9"), (b"delay", b"1h")])).value
    body = encode_reappend(value, Key(5, 6), "orders.0.1.5", NOW_MS)
    _, packed = decode_value(read_message(body, Rules(aliases=("rabbitmq",))).value)
    assert decode_packed(packed).headers[0] == (b"x-delay", b"9")


REAPPEND: dict[bytes, bytes] = {
    ORIGIN: b"orders.0.1.5",
    REPLACES: b"5.6",
    DUE: b"7",
    ACCEPTED: b"8",
    VERSION: b"1",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (ORIGIN, b"nonsense"), (ORIGIN, b"\xff"), (ORIGIN, b"o" * 100_000), (ORIGIN, None),
        (REPLACES, b"5"), (REPLACES, b"5.6.7"), (REPLACES, b"5.x"), (REPLACES, b"-5.6"),
        (REPLACES, b"5.%d" % (1 << 63)),
        (DUE, b"-1"), (DUE, b"%d" % (1 << 64)), (DUE, b"soon"), (DUE, b"9" * 5000), (DUE, None),
        (ACCEPTED, b"-1"), (ACCEPTED, None), (VERSION, b"first"), (VERSION, None),
    ],
)  # fmt: skip
def test_a_forged_reappend_is_dead_and_ends_nothing(name: bytes, value: bytes | None) -> None:
    headers: dict[bytes, bytes | None] = {**REAPPEND, name: value}
    body = encode_body(None, b"v", list(headers.items()))
    assert death_of(body)[0] == "malformed-record"
    assert read_message(body).replaces is None


# --- decisions and rules


@given(st.lists(KEYS, min_size=1, max_size=20))
def test_a_decision_reads_back_as_the_names_it_was_made_of(names: list[Key]) -> None:
    assert read(encode_decision(names), NOW_MS, DEFAULT_RULES) == Decision(tuple(names))


@given(ANY_RULES)
def test_a_rules_record_reads_back_as_the_rules(rules: Rules) -> None:
    assert read(encode_rules(rules), NOW_MS, DEFAULT_RULES) == RulesChange(rules)


@pytest.mark.parametrize(
    "body",
    [
        encode_body(None, None, [(DECISION, b"1")]),
        encode_body(None, b"\xc1", [(DECISION, b"1")]),
        encode_body(None, msgspec.msgpack.encode({"due": [1, 2], "off": [1]}), [(DECISION, b"1")]),
        encode_body(None, None, [(RULES, b"1")]),
    ],
)
def test_a_record_that_looks_like_ours_and_that_no_version_writes_is_dead(body: bytes) -> None:
    assert death_of(body)[0] == "malformed-record"


@pytest.mark.parametrize(
    "body",
    [
        encode_body(None, b"", [(DECISION, b"2")]),
        encode_body(None, Rules(parser=99).encoded, [(RULES, b"1")]),
    ],
)
def test_a_record_of_ours_of_a_later_version_stops_the_shard(body: bytes) -> None:
    with pytest.raises(UnknownFormat):
        read(body, NOW_MS, DEFAULT_RULES)


def test_a_decision_is_distinguished_by_its_header() -> None:
    assert decode_body(encode_decision([Key(1, 2)])).headers == [(DECISION, b"1")]
