"""The content of a dead letter: the record as it came, and behind its own headers the seven with its outcome.

`delay_service.core.dead` writes them, in the order in which they stand here.
"""

from typing import NamedTuple

from delayline.errors import MalformedRecord
from delayline.records import headers as names
from delayline.records.record import Record, decode_body

_OURS = (
    names.DEAD_ID,
    names.TOPIC,
    names.DEAD_PARTITION,
    names.DEAD_OFFSET,
    names.DEAD_DUE,
    names.REASON,
    names.DEAD_ERROR_CODE,
)


class DeadLetter(NamedTuple):
    """A message that could not be delivered: `original` is what was to be delivered, `offset` where it waited."""

    message_id: str
    topic: str
    partition: str
    offset: int
    due_ms: int
    reason: str
    code: str
    original: Record

    @property
    def is_left_out(self) -> bool:
        """Whether it has nothing of the message but its size and digest."""
        key, value, headers = self.original
        return key is None and value is None and [name for name, _ in headers] == [names.LEFT_OUT]


def read_dead_letter(body: bytes) -> DeadLetter | None:
    """None for a record that is no dead letter of ours. The original may have headers of the same names: those that
    count are the last ones."""
    try:
        record = decode_body(body)
    except MalformedRecord:
        return None
    headers, ours = record.headers[: -len(_OURS)], record.headers[-len(_OURS) :]
    if tuple(name for name, _ in ours) != _OURS:
        return None
    message_id, topic, partition, offset, due_ms, reason, code = [
        (value or b"").decode("utf-8", "replace") for _, value in ours
    ]
    if not (offset.isdecimal() and due_ms.isdecimal()):
        return None
    original = record._replace(headers=headers)
    return DeadLetter(message_id, topic, partition, int(offset), int(due_ms), reason, code, original)
