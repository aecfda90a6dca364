"""A pending record taken apart: what goes on with it, and what is remembered when it ends."""

from delay_service.core.draft import Drafter
from delay_service.core.targets import Known, Move, Target
from delayline.buffer.record import Message, encode_value, read
from delayline.names import Names
from delayline.records.message import Key, Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import DEFAULT_RULES
from delayline.schedule.terms import key_name, own_name

SHARD, KEY = Shard("orders", "0"), Key(1000, 7)
ID = "orders.0.7.1000"


def target(*headers: tuple[bytes, bytes]) -> Target:
    meaning = read(encode_body(None, b"m", [(b"delay-ms", b"1"), *headers]), 999, DEFAULT_RULES)
    assert isinstance(meaning, Message)
    return Drafter(SHARD, Names("delayline"), "delivery").target(KEY, meaning.value)


def test_a_plain_message_has_no_terms_and_is_of_version_0() -> None:
    plain = Drafter(SHARD, Names("delayline"), "delivery").target(KEY, encode_value(None, b"x"))
    assert (plain.terms, plain.version, plain.is_dead, plain.closing) == (None, 0, False, [])


def test_a_record_whose_directive_was_refused_is_dead() -> None:
    assert target((b"delay-id", b"")).is_dead


def test_what_is_carried_on_keeps_its_id_and_its_names() -> None:
    move, body = target((b"delay-id", b"mine")).carried_on(5000)
    assert move == Move(ID, 5000, (own_name("mine"),))
    successor = read(body, 2000, DEFAULT_RULES)
    assert isinstance(successor, Message)
    assert (successor.due_ms, successor.origin, successor.replaces) == (5000, ID, KEY)


def test_the_idempotency_key_of_a_message_that_ends_is_remembered() -> None:
    ((name, known),) = target((b"delayline-idempotency", b"digest k")).closing
    assert name == key_name("k")
    assert isinstance(known, Known)
    assert known.message_id == ID
