"""What a message is called: shards, keys and message ids."""

import re
from typing import NamedTuple

from delayline.errors import MalformedMessageId

MESSAGE_ID_BYTES_MAX = 512
_OCCURRENCE = re.compile(r"~(0|[1-9][0-9]{0,9})\Z")
_OPERATION = "op~"
_DIGITS = re.compile(r"(0|[1-9][0-9]{0,18})\Z", re.ASCII)

Header = tuple[bytes, bytes | None]


class Shard(NamedTuple):
    """One partition of one buffer topic: the unit of ownership, order, failure and progress.

    `topic` is the target topic T (not the buffer's own name). `partition` is a number in decimal on Kafka and the
    embedded queue, `<broker>:<queue>` on RocketMQ.
    """

    topic: str
    partition: str


class Key(NamedTuple):
    """Order within a shard: by due time, then by the offset of the record that carries the message."""

    due_ms: int
    offset: int


BEFORE_ALL = Key(-1, -1)
"""Smaller than the key of any record: nothing has been delivered yet."""


class MessageId(NamedTuple):
    """`<topic>.<shard>.<offset>.<due_ms>` of the first acceptance; occurrence n of a series is `<id>~n`."""

    shard: Shard
    offset: int
    due_ms: int
    occurrence: int | None = None

    def __str__(self) -> str:
        base = first_id(*self.shard, self.offset, self.due_ms)
        return base if self.occurrence is None else f"{base}~{self.occurrence}"

    @classmethod
    def parse(cls, text: str) -> "MessageId":
        """Read from the right, because topics may hold dots. Raises MalformedMessageId."""
        if len(text.encode("utf-8", "replace")) > MESSAGE_ID_BYTES_MAX:
            raise MalformedMessageId(f"longer than {MESSAGE_ID_BYTES_MAX} bytes")
        occurrence: int | None = None
        if found := _OCCURRENCE.search(text):
            occurrence, text = int(found[1]), text[: found.start()]
        parts = text.rsplit(".", 3)
        if len(parts) != 4 or not parts[0] or not parts[1]:
            raise MalformedMessageId("expected <topic>.<shard>.<offset>.<due_ms>")
        topic, partition, offset, due_ms = parts
        if not _DIGITS.match(offset) or not _DIGITS.match(due_ms):
            raise MalformedMessageId("offset and due time must be decimal numbers")
        return cls(Shard(topic, partition), int(offset), int(due_ms), occurrence)


def first_id(topic: str, partition: str, offset: int, due_ms: int) -> str:
    """The text of a `MessageId` without an occurrence, from its parts. Hot: once per message of the HTTP API."""
    return f"{topic}.{partition}.{offset}.{due_ms}"


class OperationId(NamedTuple):
    """`op~<topic>.<shard>.<offset>` of an operation's record. No topic's name has a tilde: it is no message id."""

    shard: Shard
    offset: int

    def __str__(self) -> str:
        return f"{_OPERATION}{self.shard.topic}.{self.shard.partition}.{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "OperationId | None":
        """None where it is none."""
        parts = text.removeprefix(_OPERATION).rsplit(".", 2)
        if not text.startswith(_OPERATION) or len(text) > MESSAGE_ID_BYTES_MAX or len(parts) != 3 or not all(parts):
            return None
        topic, partition, offset = parts
        return cls(Shard(topic, partition), int(offset)) if _DIGITS.match(offset) else None
