"""How its producer has sent a message: kept with its record, and used for its delivery."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayline.records.content import digest_of_delivered
from delayline.records.headers import ACCEPTED, DUE, ID, SENT
from delayline.records.message import Header
from delayline.records.record import decode_body, encode_body
from mq.rocketmq.body import chunks, to_body, to_member
from mq.rocketmq.sent import as_sent, sent_header, sent_header_of, sys_flag_of
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.bodies import Queue
from rocketmq.wire.stored import StoredMessage
from tests.unit.mq.rocketmq.scene import AUDIT, TARGET, BrokerInMemory, Worker

PACKED = zlib.compress(b"value")
DELIVERY: list[Header] = [(ACCEPTED, b"1767225600000"), (ID, b"t.a:0.1.1767225630000"), (DUE, b"1767225630000")]


def delivered(flag: int = 0, sys_flag: int = 0, value: bytes = b"value") -> bytes:
    """The record of a delivery."""
    sent = sent_header(flag, sys_flag)
    headers: list[Header] = [] if sent is None else [sent]
    return encode_body(b"k1", value, [*headers, (b"TAGS", b"a"), *DELIVERY])


def stored(member: BatchMember, sys_flag: int) -> StoredMessage:
    """As a pull brings it."""
    fixed = (0, b"\x7f\0\0\1", 1, 0, b"\x7f\0\0\1", 1, 0, 0, 0)
    properties = member.properties.encode()
    return StoredMessage("t", 0, 0, 0, bytes(member.body), properties, member.flag, sys_flag, *fixed)


@pytest.mark.parametrize(("flag", "sys_flag"), [(7, 0), (-7, 0x301), (0, 0x101), (0, 0x1)])
def test_what_is_delivered_has_the_flags_that_were_sent_and_reads_back_as_the_record(
    flag: int, sys_flag: int
) -> None:
    record = delivered(flag, sys_flag, PACKED)
    (member,), found = as_sent([to_member(record)])
    assert (member.flag, found, member.body) == (flag, sys_flag, PACKED)
    assert SENT.decode() not in member.properties
    again = to_body(stored(member, sys_flag))
    assert again == record
    assert digest_of_delivered(again, decode_body(again).headers) == digest_of_delivered(
        record, decode_body(record).headers
    )


def test_what_was_sent_in_the_usual_way_has_no_header_and_is_left_as_it_is() -> None:
    assert sent_header(0, 0x10 | 0x8) is None
    member = to_member(delivered())
    assert as_sent([member]) == ([member], 0)


def test_bits_that_a_broker_sets_are_not_kept() -> None:
    assert sent_header(0, 0x30 | 0x8 | 0x101) == (SENT, b"0 257")
    assert sent_header(0, 0x300) is None, "a kind of compression, and nothing compressed"


def test_a_compressed_body_of_others_is_read_decompressed() -> None:
    member = BatchMember(PACKED, "TAGS\x01a\x02", 5)
    assert sent_header_of(stored(member, 0x301)) is None
    assert decode_body(to_body(stored(member, 0x301))) == (None, b"value", [(b"TAGS", b"a")])


@pytest.mark.parametrize(("queue", "sys_flag"), [(TARGET, 0x301), (AUDIT, None)])
def test_a_session_sends_to_consumers_as_the_producer_did_and_keeps_the_header_elsewhere(
    queue: Queue, sys_flag: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, sent = to_member(delivered(7, 0x301, PACKED)), []

    def send(_: Queue, members: list[BatchMember], **how: int | None) -> None:
        sent.append((members, how.get("sys_flag")))

    session = Worker("first", BrokerInMemory()).session
    monkeypatch.setattr(session.requests, "send_batch_later", send)
    session.send_later(queue, [member], None)
    assert sent == [([member] if sys_flag is None else as_sent([member])[0], sys_flag)]


def test_a_batch_has_one_sys_flag() -> None:
    members = [to_member(delivered(0, flag, PACKED)) for flag in (0, 0, 0x301, 0x101, 0x101, 0)]
    assert [[sys_flag_of(one) for one in chunk] for chunk in chunks(members)] == [[0, 0], [0x301], [0x101] * 2, [0]]


@given(st.text(max_size=12))
def test_a_header_of_that_name_with_another_value_is_delivered_as_it_is(value: str) -> None:
    member = BatchMember(b"", f"{SENT.decode()}\x01{value}\x02")
    (found,), sys_flag = as_sent([member])
    assert found == member or (value.replace(" ", "").lstrip("-").isdecimal() and sys_flag & ~0x701 == 0)
