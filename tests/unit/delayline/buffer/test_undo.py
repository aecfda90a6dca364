"""Records of the topic of what was purged, and what comes back into a buffer."""

import pytest

from delayline.buffer.facts import MESSAGE, fact_of
from delayline.buffer.record import Control, Message, Meta, decode_value, encode_control, encode_value, read
from delayline.buffer.undo import (
    PURGE,
    Copy,
    Mark,
    Opening,
    encode_copy,
    encode_mark,
    encode_opening,
    read_opening,
    read_purged,
)
from delayline.records.headers import CONTROL, DUE, RESTORED, RESTORES, UNDO
from delayline.records.message import Header, Shard
from delayline.records.record import Record, decode_packed, encode_body, pack, split_directives
from delayline.schedule.rules import DEFAULT_RULES
from delayline.schedule.terms import Idempotency, Series, Terms

NOW_MS = 1_767_225_600_000
ID = f"orders.3.17.{NOW_MS}"
ORIGINAL = Record(b"7", b"hi", [(b"src", b"web")])
TERMS = Terms(own_id="x", replaces=True, idempotency=Idempotency("k", "d"), ttl_ms=5)


def value_of(terms: Terms | None = None) -> bytes:
    packed = pack(split_directives(encode_body(*ORIGINAL), frozenset()), NOW_MS - 1000)
    return encode_value(None if terms is None else Meta(terms=terms), packed)


def came_back(terms: Terms | None = None, due_ms: int = NOW_MS + 5, now_ms: int = NOW_MS) -> Message:
    found = read(encode_copy(value_of(terms), ID, due_ms, "0.1", terms), now_ms, DEFAULT_RULES)
    assert isinstance(found, Message)
    return found


def test_a_copy_is_read_as_a_new_message_that_was_accepted_now() -> None:
    found = came_back()
    assert (found.due_ms, found.origin, found.replaces, found.terms) == (NOW_MS + 5, None, None, None)
    meta, packed = decode_value(found.value)
    assert meta is None
    assert decode_packed(packed)[:2] == ORIGINAL[:2]
    assert [header for header in decode_packed(packed).headers if header[0] == b"src"] == ORIGINAL.headers


def test_it_keeps_its_terms_but_its_key_and_the_wish_to_replace_others() -> None:
    assert came_back(TERMS).terms == Terms(own_id="x", ttl_ms=5)
    assert came_back(Terms(idempotency=Idempotency("k", "d"))).terms is None


def test_what_was_due_meanwhile_is_due_now_unless_it_repeats() -> None:
    assert came_back(due_ms=NOW_MS - 5).due_ms == NOW_MS
    assert came_back(Terms(series=Series(every_ms=1000)), NOW_MS - 5).due_ms == NOW_MS - 5


def test_what_was_due_meanwhile_expires_when_it_would_have() -> None:
    assert came_back(Terms(ttl_ms=2), NOW_MS - 5).terms == Terms(expire_at_ms=NOW_MS - 3)
    assert came_back(Terms(ttl_ms=9, own_id="x"), NOW_MS - 5).terms == Terms(own_id="x", expire_at_ms=NOW_MS + 4)
    assert came_back(Terms(expire_at_ms=NOW_MS - 1), NOW_MS - 5).terms == Terms(expire_at_ms=NOW_MS - 1)
    repeat = Terms(ttl_ms=2, series=Series(every_ms=1000))
    assert came_back(repeat, NOW_MS - 5).terms == repeat


def test_it_is_a_message_of_its_own_to_who_keeps_accounts() -> None:
    fact = fact_of(
        Shard("orders", "3"), 99, NOW_MS, encode_copy(value_of(), ID, NOW_MS + 5, "0.1", None), DEFAULT_RULES
    )
    assert (fact.kind, fact.id, fact.accepted_ms) == (MESSAGE, f"orders.3.99.{NOW_MS + 5}", NOW_MS)


def test_each_kind_of_record_is_read_as_it_was_written() -> None:
    opening = Opening(of=PURGE, topic="orders", topic_id="00", undo_ms=1, ends={"0": 17})
    bodies = (encode_opening(opening), encode_copy(value_of(), ID, 5, "0.1", None), encode_mark(Mark("0.1", 7)))
    assert [read_opening(body) for body in bodies] == [opening, None, None]
    assert [read_purged(body) for body in bodies] == [None, Copy("0.1", Shard("orders", "3")), Mark("0.1", 7)]


def test_a_copy_of_a_message_that_reads_like_an_opening_is_none() -> None:
    opening = encode_opening(Opening(of=PURGE, topic="orders", topic_id="00", undo_ms=1, ends={}))
    value = b"\x00" + pack(split_directives(opening, frozenset()), NOW_MS)
    assert read_opening(encode_copy(value, ID, 5, "0.1", None)) is None


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        encode_body(None, b"x"),
        encode_body(None, None, [(UNDO, b"0.1")]),
        encode_body(None, None, [(UNDO, b"0.1"), (RESTORED, b"x")]),
        encode_body(None, None, [(UNDO, b"0.1"), (RESTORES, b"no id")]),
        encode_body(None, None, [(UNDO, b"\xff"), (RESTORED, b"1")]),
    ],
)
def test_other_records_are_none_of_them(body: bytes) -> None:
    assert read_purged(body) is None
    assert read_opening(body) is None


@pytest.mark.parametrize(
    "headers",
    [
        [(RESTORES, ID.encode())],
        [(RESTORES, b"no id"), (DUE, b"5")],
        [(RESTORES, ID.encode()), (DUE, b"-5")],
        [(CONTROL, b"purge"), (UNDO, b"a b")],
        [(CONTROL, b"purge"), (UNDO, b"")],
        [(b"delay-op", b"cancel"), (b"delay-ref", b"x"), (UNDO, b"\xff")],
        [(RESTORED, b"5")],
    ],
)
def test_what_no_version_writes_is_a_dead_letter(headers: list[Header]) -> None:
    found = read(encode_body(None, b"x", headers), NOW_MS, DEFAULT_RULES)
    assert isinstance(found, Message)
    meta, _ = decode_value(found.value)
    assert meta is not None
    assert meta.dead_code == "malformed-record"


def test_a_purge_has_the_id_of_its_undo() -> None:
    assert read(encode_control("purge", undo="0.17"), NOW_MS, DEFAULT_RULES) == Control("purge", "0.17")
    assert read(encode_control("purge"), NOW_MS, DEFAULT_RULES) == Control("purge")
