"""The session of a connection, without a connection."""

import random

import pytest

from rocketmq.client.session import Answered, Pushed, Session, SessionState
from rocketmq.errors import AnswerLost, FrameTooLarge, Malformed, TooManyPending
from rocketmq.wire.command import IS_ANSWER, Command, answer_to, encode_frame

SOON, LATER = 10.0, 20.0


def answered(session: Session, opaque: int, now_s: float = 1.0) -> list[object]:
    answer = b"".join(encode_frame(Command(0, opaque=opaque, flag=IS_ANSWER)))
    return list(session.receive(answer, now_s))


def asked(session: Session, deadline_s: float = SOON, now_s: float = 0.0) -> int:
    return session.request(Command(10), now_s, deadline_s)[0]


def test_answers_find_their_requests_in_any_order() -> None:
    session = Session()
    opaques = [asked(session) for _ in range(50)]
    random.Random(1).shuffle(opaques)
    found = [event for opaque in opaques for event in answered(session, opaque)]
    assert [event.opaque for event in found if isinstance(event, Answered)] == opaques
    assert session.in_flight == 0


def test_what_a_broker_asks_is_a_push_whatever_its_number() -> None:
    session = Session()
    opaque = asked(session)
    (event,) = session.receive(b"".join(encode_frame(Command(40, opaque=opaque))), 1.0)
    assert isinstance(event, Pushed)
    assert session.in_flight == 1


def test_a_request_that_had_no_answer_in_time_is_over_and_the_others_wait_on() -> None:
    session = Session()
    first, second = asked(session, LATER), asked(session, SOON)
    assert session.next_deadline_s() == SOON
    assert session.expired(SOON - 0.1).opaques == []
    assert session.expired(SOON).opaques == [second]
    assert session.next_deadline_s() == LATER
    assert len(answered(session, first)) == 1
    assert session.next_deadline_s() is None


def test_an_answer_behind_its_deadline_is_dropped_and_counted() -> None:
    session = Session()
    opaque = asked(session)
    session.expired(SOON)
    assert answered(session, opaque) == []
    assert session.late_answers == 1


def test_a_second_answer_is_dropped() -> None:
    session = Session()
    opaque = asked(session)
    assert len(answered(session, opaque)) == 1
    assert answered(session, opaque) == []


@pytest.mark.parametrize("opaque", [0, -5, 2, 1 << 30])
def test_an_answer_to_what_was_never_asked_ends_the_connection(opaque: int) -> None:
    session = Session()
    asked(session)
    with pytest.raises(Malformed, match="never sent"):
        answered(session, opaque)


def test_a_peer_that_sends_nothing_since_a_request_is_silent_and_one_that_sends_anything_is_not() -> None:
    session = Session()
    asked(session, SOON)
    assert session.expired(SOON).is_silent
    asked(session, LATER, now_s=11.0)
    list(session.receive(b"".join(encode_frame(Command(40))), 12.0))
    assert not session.expired(LATER).is_silent


def test_no_more_requests_wait_than_may() -> None:
    session = Session(pending_max=2)
    first = asked(session)
    asked(session)
    with pytest.raises(TooManyPending):
        asked(session)
    answered(session, first)
    asked(session)


def test_a_one_way_request_waits_for_nothing() -> None:
    session = Session()
    command = Command(15)
    session.one_way(command)
    assert command.is_one_way
    assert session.in_flight == 0
    assert session.next_deadline_s() is None


def test_a_session_that_is_closed_names_what_was_lost_and_takes_nothing_more() -> None:
    session = Session()
    opaques = [asked(session), asked(session)]
    assert list(session.close()) == opaques
    assert session.state is SessionState.CLOSED
    with pytest.raises(AnswerLost):
        asked(session)
    with pytest.raises(AnswerLost):
        session.one_way(Command(15))


def test_deadlines_of_answered_requests_are_not_gathered() -> None:
    session = Session()
    long = asked(session, deadline_s=1.0)
    for _ in range(5000):
        answered(session, asked(session, LATER))
        session.next_deadline_s()
    assert len(session._deadlines) < 200
    assert session.expired(1.0).opaques == [long]


def test_numbers_begin_anew_and_pass_over_those_that_wait() -> None:
    session = Session()
    waiting = asked(session, LATER)
    session._last_opaque = 0x7FFF_FFFE
    found = [asked(session, LATER) for _ in range(3)]
    assert found == [0x7FFF_FFFF, 0, 2]
    assert len(answered(session, waiting)) == 1
    assert answered(session, 77) == []  # from before, or from nowhere: that is not known any more


def test_a_frame_beyond_the_limit_is_refused() -> None:
    with pytest.raises(FrameTooLarge):
        list(Session(frame_bytes_max=50).receive(b"\0\0\1\0", 1.0))


def test_an_answer_carries_the_number_of_its_request() -> None:
    push = Command(39, opaque=77)
    assert answer_to(push, 0).opaque == 77
