"""The digest of what a client has sent."""

from hypothesis import given
from hypothesis import strategies as st

from delayline.buffer.facts import fact_of
from delayline.records.content import UNLIKE, digest_of_delivered, digest_of_packed
from delayline.records.headers import ACCEPTED, DUE, ID
from delayline.records.message import Header, Shard
from delayline.records.record import decode_body, encode_body, pack, seal, split_directives
from delayline.schedule.rules import DEFAULT_RULES
from tests.unit.delayline.bodies import HEADERS, PARTS
from tests.unit.delayline.records.test_record import MOMENTS

T = 1_767_225_600_000


@given(PARTS, PARTS, HEADERS, MOMENTS, MOMENTS, st.binary(max_size=130))
def test_a_message_has_the_same_digest_in_the_index_and_in_its_topic(
    key: bytes | None, value: bytes | None, headers: list[Header], accepted_ms: int, due_ms: int, message_id: bytes
) -> None:
    packed = pack(split_directives(encode_body(key, value, headers), set()), accepted_ms)
    body = seal(packed, message_id, due_ms)
    assert digest_of_delivered(body, decode_body(body).headers) == digest_of_packed(packed) >= 0


def digest_of_fact(body: bytes) -> int | None:
    return fact_of(Shard("orders", "0"), 7, T, body, DEFAULT_RULES).digest


def test_the_buffers_record_has_the_digest_of_what_will_be_delivered() -> None:
    sent = encode_body(b"k", b"v", [(b"a", b"1"), (b"delay", b"5s"), (b"b", None)])
    kept: list[Header] = [(b"a", b"1"), (b"b", None)]
    headers = [*kept, (ACCEPTED, b"%d" % T), (ID, b"orders.0.7.5"), (DUE, b"5")]
    assert digest_of_fact(sent) == digest_of_delivered(encode_body(b"k", b"v", headers), headers)


def test_everything_that_the_client_has_sent_is_in_it() -> None:
    bodies = [
        encode_body(b"k", b"v", [(b"a", b"1"), (b"b", None)]),
        encode_body(b"K", b"v", [(b"a", b"1"), (b"b", None)]),
        encode_body(None, b"v", [(b"a", b"1"), (b"b", None)]),
        encode_body(b"k", b"w", [(b"a", b"1"), (b"b", None)]),
        encode_body(b"k", b"v", [(b"b", None), (b"a", b"1")]),
        encode_body(b"k", b"v", [(b"a", b"1"), (b"b", b"")]),
        encode_body(b"k", b"v", [(b"a", b"1")]),
    ]
    delayed = [encode_body(k, v, [*h, (b"delay", b"5s")]) for k, v, h in map(decode_body, bodies)]
    assert len(set(map(digest_of_fact, delayed))) == len(bodies)


def test_what_does_not_end_as_deliveries_do_is_unlike_all_of_them() -> None:
    ours: list[Header] = [(ACCEPTED, b"1"), (ID, b"a"), (DUE, b"5")]
    found = [digest_of_delivered(encode_body(None, b"v", each), each) for each in (ours[1:], ours[::-1], [], ours)]
    assert [digest == UNLIKE for digest in found] == [True, True, True, False]
