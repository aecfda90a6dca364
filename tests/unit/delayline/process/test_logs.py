"""Log lines, ours and those of libraries."""

import json
import logging
from io import StringIO
from typing import Any

import pytest

from delayline.clock import ManualClock
from delayline.process import logs

pytestmark = pytest.mark.usefixtures("logging_as_it_was")


def lines(format: logs.Format = "json", level: logs.Level = "info") -> StringIO:
    stream = StringIO()
    logs.configure(format, level, stream=stream, clock=ManualClock(1_767_225_600_000))
    return stream


def only(stream: StringIO) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stream.getvalue())
    return found


def test_a_json_line_has_time_level_logger_event_and_fields() -> None:
    stream = lines()
    logs.get("store.rocks").warning("disk is full", free_bytes=7)
    assert only(stream) == {
        "at": "2026-01-01T00:00:00.000Z",
        "level": "warning",
        "logger": "store.rocks",
        "event": "disk is full",
        "free_bytes": 7,
    }


def test_a_line_of_the_standard_library_has_the_same_form() -> None:
    stream = lines()
    logging.getLogger("uvicorn.error").warning("stopped after %d s", 3)
    found = only(stream)
    assert (found["logger"], found["level"], found["event"]) == ("uvicorn.error", "warning", "stopped after 3 s")
    assert found["at"] == "2026-01-01T00:00:00.000Z"


@pytest.mark.parametrize("name", ["httpx", "httpcore.http11"])
def test_a_request_between_processes_is_no_line(name: str) -> None:
    stream = lines(level="debug")
    logging.getLogger(name).info("HTTP Request: POST ...")
    logging.getLogger(name).warning("trouble")
    assert only(stream)["event"] == "trouble"


def test_uvicorns_own_handlers_are_taken_away_so_that_no_line_comes_twice() -> None:
    other = StringIO()
    logging.getLogger("uvicorn").addHandler(logging.StreamHandler(other))
    stream = lines()
    logging.getLogger("uvicorn").warning("once")
    assert (stream.getvalue().count("once"), other.getvalue()) == (1, "")


@pytest.mark.parametrize(("level", "count"), [("debug", 2), ("info", 1), ("warning", 0)])
def test_lines_below_the_level_are_left_out(level: logs.Level, count: int) -> None:
    stream = lines(level=level)
    logs.get("a").info("ours")
    logging.getLogger("b").debug("theirs")
    assert len(stream.getvalue().splitlines()) == count


def test_a_logger_made_before_the_setup_follows_it() -> None:
    log = logs.get("early")
    stream = lines()
    log.info("late")
    assert only(stream)["event"] == "late"


def test_a_later_setup_replaces_an_earlier_one() -> None:
    first, second = lines(), lines()
    logs.get("a").info("x")
    assert (first.getvalue(), only(second)["event"]) == ("", "x")


def test_text_is_one_line_for_people() -> None:
    stream = lines("text")
    logs.get("a").info("taken over", shard="orders.0")
    line = stream.getvalue()
    assert line.startswith("2026-01-01T00:00:00.000Z [info")
    assert "taken over" in line
    assert "shard=orders.0" in line


def test_text_to_a_file_has_no_colours() -> None:
    stream = lines("text")
    logs.get("a").error("x")
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_traceback_shows_no_local_variables(format: logs.Format) -> None:
    stream = lines(format)
    payload = "what a user" + " sent"
    try:
        raise ValueError(len(payload))
    except ValueError:
        logs.get("a").exception("failed")
    assert "ValueError: 16" in stream.getvalue()
    assert "what a user sent" not in stream.getvalue()


def test_values_that_json_cannot_express_are_written_as_python_shows_them() -> None:
    stream = lines()
    logs.get("a").info("x", body=b"\xff", half="\ud800")
    assert (only(stream)["body"], only(stream)["half"]) == ("b'\\xff'", "\ud800")


def test_a_field_with_a_line_break_stays_on_its_line() -> None:
    stream = lines("text")
    logs.get("a").info("x", topic="a\n2026-01-01 [error] forged")
    assert len(stream.getvalue().splitlines()) == 1
