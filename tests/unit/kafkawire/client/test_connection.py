"""A connection of our own to a broker: what is asked, what is lost, and what is no answer."""

import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from delayline.clock import SystemClock
from kafkawire.client.blocking import Connection, connect
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import (
    AnswerLost,
    ErrorCode,
    NotAuthenticated,
    PeerError,
    Unreachable,
    UnsupportedVersion,
)
from kafkawire.protocol.message import Message, RequestHeader
from kafkawire.protocol.messages.cluster import (
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from kafkawire.protocol.messages.metadata import MetadataBroker, MetadataRequest, MetadataResponse
from kafkawire.security.access import Access, Credentials
from tests.unit.mq.kafka.served import Handler, served

ASKED = MetadataRequest(topics=[])
FOUND = MetadataResponse(brokers=[MetadataBroker(1, "one", 9092)])


@contextmanager
def connected(handler: Handler, access: Access | None = None) -> Iterator[Connection]:
    with (
        served(handler) as address,
        closing(connect(address, access or Access(), "test", 10, SystemClock())) as connection,
    ):
        yield connection


def found(header: RequestHeader, body: memoryview) -> Message:
    return FOUND


def test_an_answer_comes_to_who_asked_and_the_brokers_versions_are_known() -> None:
    with connected(found) as connection:
        assert connection.ask(ASKED, 12, MetadataResponse).brokers[0].host == "one"
        assert connection.features == {"transaction.version": 2}
        assert connection.version(ApiKey.METADATA, 12, 9) == 12
        with pytest.raises(UnsupportedVersion, match="METADATA 0-14, 15-16"):
            connection.version(ApiKey.METADATA, 16, 15)


def test_requests_that_are_sent_together_are_answered_in_their_order() -> None:
    def answer(header: RequestHeader, body: memoryview) -> Message:
        return FOUND if header.api_key == ApiKey.METADATA else FindCoordinatorResponse(node_id=7)

    with connected(answer) as connection:
        connection.send(ASKED, 12)
        connection.send(FindCoordinatorRequest("group"), 3)
        assert connection.in_flight == 2
        assert connection.receive(MetadataResponse).brokers
        assert connection.receive(FindCoordinatorResponse).node_id == 7
        assert not connection.in_flight


def test_a_broker_that_hangs_up_before_it_answers_leaves_a_doubt() -> None:
    with connected(lambda header, body: None) as connection:
        with pytest.raises(AnswerLost, match="closed by the broker"):
            connection.ask(ASKED, 12, MetadataResponse)
        with pytest.raises(Unreachable):
            connection.send(ASKED, 12)


def test_an_answer_that_does_not_come_in_time_ends_the_connection() -> None:
    with connected(lambda header, body: b"\0\0") as connection:
        with pytest.raises(AnswerLost, match=r"no answer within 0\.01 s"):
            connection.ask(ASKED, 12, MetadataResponse, 0.01)
        assert not connection.is_open


def test_a_connection_that_was_closed_while_it_was_idle_is_no_doubt() -> None:
    asked: list[int] = []

    def count(header: RequestHeader, body: memoryview) -> Message:
        asked.append(header.api_key)
        return FOUND

    with connected(count) as connection:
        connection.ask(ASKED, 12, MetadataResponse)
        connection.channel.shutdown(socket.SHUT_RD)  # as if the broker had closed its side
        with pytest.raises(Unreachable):
            connection.send(ASKED, 12)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (struct.pack(">ii", 4, 2), "inside a varint"),
        (struct.pack(">iib", 5, 99, 0), "request 99"),
        (struct.pack(">i", -5), "a frame of -5 bytes"),
        (struct.pack(">i", 3) + b"abc", "a frame of 3 bytes"),
        (struct.pack(">i", 0x7FFF_FFFF), "a frame of 2147483647 bytes"),
        (struct.pack(">iib", 9, 2, 0) + b"\xff" * 4, "inside a varint"),
    ],
)
def test_what_is_no_answer_leaves_a_doubt_and_ends_the_connection(answer: bytes, why: str) -> None:
    with connected(lambda header, body: answer) as connection:
        with pytest.raises(AnswerLost, match=why):
            connection.ask(ASKED, 12, MetadataResponse, 5)
        assert not connection.is_open


def test_a_refused_password_is_reported() -> None:
    def refuse(header: RequestHeader, body: memoryview) -> Message:
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        return SaslAuthenticateResponse(58, "wrong password")

    access = Access(credentials=Credentials("PLAIN", "ann", "secret"))
    with pytest.raises(NotAuthenticated, match="wrong password"), connected(refuse, access):
        pass


def test_a_session_with_a_lifetime_is_used_for_most_of_it() -> None:
    def accept(header: RequestHeader, body: memoryview) -> Message:
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        return SaslAuthenticateResponse(session_lifetime_ms=10_000)

    access = Access(credentials=Credentials("PLAIN", "ann", "secret"))
    before_s = SystemClock().monotonic_s()
    with connected(accept, access) as connection:
        assert before_s + 8 <= connection.use_until_s <= SystemClock().monotonic_s() + 8


def versions_as(answer: bytes | Message) -> type[Exception]:
    """What a connection to a broker ends with that answers the question for its versions so."""
    with served(lambda header, body: answer, versions=None) as address, pytest.raises(PeerError) as caught:
        connect(address, Access(), "test", 5, SystemClock())
    return caught.type


@pytest.mark.parametrize("apis", [b"", struct.pack(">hhh", 18, 0, 2)])
def test_a_broker_that_is_too_old_to_be_asked_for_its_versions_is_named(apis: bytes) -> None:
    """It answers in the layout of version 0: correlation id, error, count of APIs."""
    body = struct.pack(">ihi", 1, ErrorCode.UNSUPPORTED_VERSION, len(apis) // 6) + apis
    assert versions_as(struct.pack(">i", len(body)) + body) is UnsupportedVersion


@pytest.mark.parametrize(
    "answer",
    [
        struct.pack(">iihi", 10, 1, 0, -1),
        struct.pack(">iihi", 10, 2, ErrorCode.UNSUPPORTED_VERSION, 0),  # to another question
        struct.pack(">iib", 5, 1, 0),
        b"\xff" * 40,
        ApiVersionsResponse(ErrorCode.UNKNOWN_SERVER_ERROR),
        ApiVersionsResponse(ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_unreadable_answer_about_versions_is_no_answer(answer: bytes | Message) -> None:
    assert versions_as(answer) is Unreachable


def test_nobody_there_is_unreachable() -> None:
    with served(found) as address:
        pass
    with pytest.raises(Unreachable):
        connect(address, Access(), "test", 1, SystemClock())
