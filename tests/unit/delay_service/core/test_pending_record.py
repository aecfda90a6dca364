"""A pending record of a message: how it goes on in another record, and what is remembered of it."""

import pytest

from delay_service.core.pending_record import Known, Move, PendingRecord
from delayline.buffer.record import Message, Meta, read
from delayline.records.message import Key
from delayline.records.record import encode_body, pack, split_directives
from delayline.schedule.rules import DEFAULT_RULES
from delayline.schedule.terms import Idempotency, Terms

ID, KEY = "orders.0.1.50", Key(50, 1)
TERMS = Terms(own_id="mine", idempotency=Idempotency("key", "digest"))


def target(meta: Meta | None) -> PendingRecord:
    packed = pack(split_directives(encode_body(None, b"x"), set()), 7)
    value = b"\x00" + packed
    return PendingRecord(KEY, value, meta, packed, ID, ID)


def test_a_plain_message_has_version_0_and_nothing_to_remember() -> None:
    plain = target(None)
    assert (plain.version, plain.terms, plain.is_dead, plain.closing) == (0, None, False, [])


def test_a_message_that_is_carried_on_keeps_its_id_and_names_the_record_that_it_replaces() -> None:
    move, body = target(None).carried_on(99)
    meaning = read(body, 60, DEFAULT_RULES)
    assert move == Move(ID, 99)
    assert isinstance(meaning, Message)
    assert (meaning.due_ms, meaning.origin, meaning.replaces) == (99, ID, KEY)


def test_a_message_that_is_carried_on_is_found_by_its_names_meanwhile() -> None:
    move, _ = target(Meta(terms=TERMS)).carried_on(99)
    assert move.names == tuple(TERMS.names)


def test_an_idempotency_key_is_remembered_with_its_digest_and_an_own_id_is_not() -> None:
    assert target(Meta(terms=TERMS)).closing == [(TERMS.names[-1], Known(ID, "digest"))]
    assert target(Meta(terms=Terms(own_id="mine"))).closing == []


@pytest.mark.parametrize(("code", "dead"), [("too-large", True), (None, False)])
def test_what_only_goes_to_the_dead_letters_is_known_as_such(code: str | None, dead: bool) -> None:
    assert target(Meta(dead_code=code)).is_dead is dead
