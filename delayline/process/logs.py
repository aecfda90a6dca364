"""Log lines: structlog, and everything that logs through the standard library (uvicorn), in one format.

`text` is for people at a terminal, `json` for machines: one object per line with `at`, `level`, `logger`, `event` and
the fields of the call. Lines go to standard error; standard output belongs to what a command answers.
"""

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, Literal, TextIO

import structlog
from structlog.stdlib import BoundLogger, ProcessorFormatter

from delayline.clock import Clock, SystemClock
from delayline.times import format_moment

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error", "critical"]

_CHATTY = ("httpx", "httpcore")
"""They write a line for every request between processes, or many."""

Event = MutableMapping[str, Any]
Processor = Callable[[Any, str, Event], Any]


def get(name: str) -> BoundLogger:
    """The logger of a module: `log = logs.get(__name__)`. It may be made before `configure` is called."""
    return structlog.stdlib.get_logger(name)


def configure(format: Format, level: Level, *, stream: TextIO | None = None, clock: Clock | None = None) -> None:
    """Set up logging for the process; a later call replaces an earlier one. Standard error is the stream."""
    stream = stream or sys.stderr
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _stamp(clock or SystemClock()),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    _route(shared, _rendering(format, stream), stream, level)


def _route(shared: list[Processor], rendering: list[Processor], stream: TextIO, level: Level) -> None:
    """Make the root logger the only one that writes; others pass their lines on to it."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=shared, processors=[ProcessorFormatter.remove_processors_meta, *rendering]
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for name in ("uvicorn", "uvicorn.access", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


def _rendering(format: Format, stream: TextIO) -> list[Processor]:
    if format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    # Plain tracebacks: the default would print local variables, and with them what users sent.
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), timestamp_key="at", exception_formatter=plain)]


def _stamp(clock: Clock) -> Processor:
    def stamp(_: Any, __: str, event: Event) -> Event:
        event["at"] = format_moment(clock.now_ms())
        return event

    return stamp
