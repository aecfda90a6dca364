"""librdkafka's own log lines, kept from drowning everything else: while a broker is away, every client complains of
every try to reach it, some hundred lines a second.
"""

import logging
from threading import Lock

EVERY_S = 30.0
"""A line of a kind, and how many were left out before it."""

RAISED_AS_WELL = frozenset({"TXNERR"})
"""Kinds that the caller gets as an exception: an ordinary rebalance ends a transaction, and is no error."""


class Limit(logging.Filter):
    """Lets a line of each kind (librdkafka's word for it: FAIL, REQTMOUT, ...) through per `EVERY_S`, by the time
    that the line itself carries. Any thread."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        self._kinds: dict[tuple[int, str], tuple[float, int]] = {}  # next line at, left out; some dozen kinds exist

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        name = text.partition(" ")[0]
        if name in RAISED_AS_WELL:
            record.levelno, record.levelname = logging.DEBUG, logging.getLevelName(logging.DEBUG)
            if not logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
                return False
        kind = record.levelno, name
        with self._lock:
            next_s, left_out = self._kinds.get(kind, (0.0, 0))
            if record.created < next_s:
                self._kinds[kind] = next_s, left_out + 1
                return False
            self._kinds[kind] = record.created + EVERY_S, 0
        if left_out:
            record.msg, record.args = f"{text} (and {left_out} more like it)", ()
        return True


def limit(logger: logging.Logger) -> None:
    """Once is enough, and more does no harm."""
    if not any(isinstance(found, Limit) for found in logger.filters):
        logger.addFilter(Limit())
