"""Answers in one write, beside uvicorn's own way of sending the same."""

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from delayline.http.whole import WholeAnswer

BODY = b'{"state":"accepted"}'
HEADERS = [(b"content-length", b"20"), (b"x-request-id", b"a-1"), (b"content-type", b"application/json")]
CLOSING = [*HEADERS, (b"connection", b"close")]


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = 0
        self.answered = 0

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self) -> None:
        self.closed += 1

    def count(self) -> None:
        self.answered += 1


def _cycle(wire: Any, *, method: str = "POST", keep_alive: bool = True) -> Any:
    log = logging.getLogger("unused")
    return RequestResponseCycle(
        scope={"type": "http", "method": method},  # type: ignore[typeddict-item]
        transport=wire,
        flow=FlowControl(wire),
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[(b"date", b"today")],
        message_event=asyncio.Event(),
        expect_100_continue=True,
        keep_alive=keep_alive,
        on_response=wire.count,
    )


@pytest.mark.parametrize("headers", [HEADERS, CLOSING])
@pytest.mark.parametrize("keep_alive", [True, False])
def test_an_answer_is_byte_for_byte_what_uvicorn_sends_and_leaves_at_once(
    headers: list[tuple[bytes, bytes]], keep_alive: bool
) -> None:
    ours, theirs = Wire(), Wire()
    cycle = _cycle(theirs, keep_alive=keep_alive)
    asyncio.run(cycle.send({"type": "http.response.start", "status": 201, "headers": headers}))
    asyncio.run(cycle.send({"type": "http.response.body", "body": BODY}))
    whole = _cycle(ours, keep_alive=keep_alive)
    assert WholeAnswer(whole).write(201, headers, BODY)
    assert ours.writes == [b"".join(theirs.writes)]
    assert (ours.closed, ours.answered) == (theirs.closed, theirs.answered)
    kept = ("response_started", "response_complete", "keep_alive", "waiting_for_100_continue")
    assert [getattr(whole, name) for name in kept] == [getattr(cycle, name) for name in kept]
    assert whole.message_event.is_set()


def test_an_answer_to_head_or_to_a_slow_reader_goes_the_long_way() -> None:
    wire = Wire()
    slow, head = _cycle(wire), _cycle(wire, method="HEAD")
    slow.flow.write_paused = True
    assert not WholeAnswer(slow).write(200, HEADERS, BODY)
    assert not WholeAnswer(head).write(200, HEADERS, BODY)
    assert wire.writes == []


def test_a_second_answer_is_not_taken() -> None:
    wire = Wire()
    cycle = _cycle(wire)
    whole = WholeAnswer(cycle)
    assert whole.write(201, HEADERS, BODY)
    assert not whole.write(201, HEADERS, BODY)
    assert len(wire.writes) == 1


def test_an_answer_that_nobody_reads_any_more_is_dropped() -> None:
    wire = Wire()
    cycle = _cycle(wire)
    cycle.disconnected = True
    assert WholeAnswer(cycle).write(201, HEADERS, BODY)
    assert wire.writes == []
