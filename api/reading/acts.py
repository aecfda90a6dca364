"""Reading who did what, where `api.http.act_log` keeps it. Everything here blocks and runs in threads."""

from functools import partial
from typing import NamedTuple

import msgspec

from api.bodies.acted import ActOut
from api.reading.own_topic import OwnTopic
from api.reading.reader import Positions
from delayline.errors import MalformedRecord
from delayline.records.record import decode_body
from mq.contract import Admin, Client, LogRecord

_LINE = msgspec.json.Decoder(ActOut)


class Wanted(NamedTuple):
    """Lines that a list shows: those with these fields, where they are given, stored from `since_ms` on and before
    `until_ms`."""

    principal: str | None
    operation: str | None
    topic: str | None
    since_ms: int
    until_ms: int

    def has(self, line: ActOut) -> bool:
        return (
            self.principal in (None, line.principal)
            and self.operation in (None, line.operation)
            and self.topic in (None, line.topic)
        )


class _Stored(NamedTuple):
    """A line, and the size of its record."""

    line: ActOut
    size: int


class Acts:
    """Those of one installation. Any thread."""

    def __init__(self, client: Client, admin: Admin, topic: str) -> None:
        """`topic` is where they are."""
        self._log = OwnTopic(client, admin, topic, "acts")

    def newest(self, wanted: Wanted, before: str | None, limit: int) -> tuple[list[ActOut], Positions | None]:
        """Lines, newest first; and the positions before which the list goes on, None at its end. Raises Refusal,
        TopicUnknown, QueueUnavailable."""
        found, positions = self._log.newest(before, limit, partial(_line, wanted), wanted.since_ms)
        return [stored.line for stored in found], positions


def _line(wanted: Wanted, partition: str, record: LogRecord) -> _Stored | None:
    """None also for what is no line of ours: a broker may let others write there."""
    if record.appended_at_ms >= wanted.until_ms:
        return None
    try:
        line = _LINE.decode(decode_body(record.body).value or b"")
    except (MalformedRecord, msgspec.DecodeError):
        return None
    return _Stored(line, len(record.body)) if wanted.has(line) else None
