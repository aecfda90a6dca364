"""What a dead letter contains."""

import pytest

from delay_service.core.dead import encode_dead
from delayline.records.dead_letter import DeadLetter, read_dead_letter
from delayline.records.message import Header, Key, Shard
from delayline.records.record import Record, encode_body

SHARD = Shard("orders.eu", "3")
ID = "orders.eu.3.7.1000"


def written(*headers: Header, reason: str = "zu groß") -> bytes:
    return encode_dead(SHARD, Key(1000, 9), ID, "too-large", reason, Record(b"k", b"\xff", list(headers)))


def test_a_letter_is_read_as_it_was_written() -> None:
    original = Record(b"k", b"\xff", [(b"src", b"web")])
    assert read_dead_letter(written((b"src", b"web"))) == DeadLetter(
        ID, "orders.eu", "3", 9, 1000, "zu groß", "too-large", original
    )


def test_headers_of_the_same_names_that_came_with_the_record_stay_with_it() -> None:
    own: list[Header] = [(b"delayline-id", b"forwarded"), (b"delayline-topic", None)]
    letter = read_dead_letter(written(*own))
    assert letter is not None
    assert (letter.message_id, letter.topic, letter.original.headers) == (ID, "orders.eu", own)


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        encode_body(None, b"x"),
        encode_body(None, b"x", [(b"delayline-id", b"1")] * 7),
        written() + b"x",
        written().replace(b"1000", b"soon"),
    ],
)
def test_other_records_are_no_dead_letters(body: bytes) -> None:
    assert read_dead_letter(body) is None
