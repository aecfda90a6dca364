"""Questions and answers as bytes."""

from typing import Any

import pytest

from delay_service.query.owners.methods import METHODS, Malformed
from delayline.buffer.outcome import Outcome
from delayline.questions.inquiry import (
    DueCounts,
    DueQuery,
    Gone,
    Held,
    Listing,
    Owners,
    Place,
    Query,
    RequestedNames,
    Resolution,
    Row,
    ShardFigures,
    Skip,
    StallReport,
    State,
)
from delayline.records.message import Shard
from tests.unit.delay_service.query.owners.people import FOUND, ID, SHARD

PLACE = Place(-5, SHARD, 1041)
QUERY = Query(State.CANCELLED, b"\xff", 1, 2, PLACE, 7)
QUESTIONS = [
    ("find", (ID,)),
    ("find", (ID._replace(occurrence=4),)),
    ("decided", (SHARD, 1042)),
    ("all_decided", (SHARD, [1042, 1043])),
    ("held", (SHARD, [RequestedNames("mine", "key"), RequestedNames()])),
    ("page", ([SHARD, Shard("mail", "0")], QUERY)),
    ("page", ([], Query())),
    ("due_counts", ([SHARD], DueQuery(1, 2, 3))),
    ("figures", ()),
    ("stall", (SHARD,)),
    ("skip", (SHARD, Skip("unknown_format", 5, 6, "eva"))),
]
ANSWERS = [
    ("find", FOUND),
    ("find", Gone()),
    ("find", None),
    ("decided", Resolution(Outcome.UNMATCHED, "not-pending", "x")),
    ("all_decided", [Resolution(Outcome.APPLIED), Resolution(Outcome.UNMATCHED, "not-pending")]),
    ("held", [Held.FREE, Held.REQUEST, Held.REPEAT]),
    ("page", [Listing((SHARD,), (Row(PLACE, FOUND),), PLACE), Listing((), (), None)]),
    ("due_counts", [DueCounts(SHARD, (1, 0, 2))]),
    ("figures", [ShardFigures(SHARD, True, "target", "gone", 4000, next_due_ms=None), ShardFigures(SHARD, False)]),
    ("figures", []),
    ("stall", StallReport(SHARD)),
    ("skip", StallReport(SHARD, "target", "gone", 5, 1, 9, "a", "b", b"\xff", "no")),
]


def test_every_question_of_the_protocol_can_travel() -> None:
    methods = {name for name in dir(Owners) if not name.startswith("_")}
    assert set(METHODS) == {name for name, _ in QUESTIONS} == {name for name, _ in ANSWERS} == methods


@pytest.mark.parametrize(("method", "arguments"), QUESTIONS)
def test_a_question_arrives_as_it_was_asked(method: str, arguments: tuple[Any, ...]) -> None:
    arrived = METHODS[method].decode_question(METHODS[method].encode_question(arguments))
    assert arrived == arguments
    assert [type(one) for one in arrived] == [type(one) for one in arguments]
    assert METHODS[method].shard(arrived) == (
        SHARD if method in ("find", "decided", "all_decided", "held", "stall", "skip") else None
    )


@pytest.mark.parametrize(("method", "answer"), ANSWERS)
def test_an_answer_arrives_as_it_was_given(method: str, answer: Any) -> None:
    arrived = METHODS[method].decode_answer(METHODS[method].encode_answer(answer))
    assert arrived == answer
    assert type(arrived) is type(answer)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01\x01\x01", b"\x91\x01", b"\x92\xa1x\xa1y", b"\x91\xa1\xff"])
def test_bytes_that_are_no_question_are_malformed(data: bytes) -> None:
    for method in METHODS.values():
        with pytest.raises(Malformed):
            method.decode_question(data)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x92\x09\xc0", b"\x92\x00\xa5maybe", b"\x92\x00\xa1\xff"])
def test_bytes_that_are_no_answer_are_malformed(data: bytes) -> None:
    for method in METHODS.values():
        with pytest.raises(Malformed):
            method.decode_answer(data)
