"""Reading the dead-letter topic, with the letters of all topics. Everything here blocks and runs in threads."""

from functools import partial
from typing import NamedTuple

from api.reading.own_topic import OwnTopic
from api.reading.reader import Positions
from delayline.records.dead_letter import DeadLetter, read_dead_letter
from mq.contract import Admin, Client, LogRecord


class Letter(NamedTuple):
    """A dead letter and where it stands."""

    partition: str
    offset: int
    dead_at_ms: int
    content: DeadLetter

    @property
    def id(self) -> str:
        return f"{self.partition}.{self.offset}"

    @property
    def size(self) -> int:
        """About as many bytes as it takes."""
        key, value, headers = self.content.original
        return len(key or b"") + len(value or b"") + sum(len(name) + len(text or b"") for name, text in headers)


class DeadLetters:
    """Those of one installation. Any thread."""

    def __init__(self, client: Client, admin: Admin, topic: str) -> None:
        """`topic` is where they stand."""
        self._log = OwnTopic(client, admin, topic, "dead letters")

    def newest(self, topic: str, before: str | None, limit: int) -> tuple[list[Letter], Positions | None]:
        """Letters of the topic, newest first; and the positions before which the list goes on, None at its end.
        Raises Refusal, QueueUnavailable."""
        return self._log.newest(before, limit, partial(_letter, topic))

    def oldest(
        self, topic: str, until_ms: int, after: str | None, limit: int
    ) -> tuple[list[Letter], Positions | None]:
        """Letters of the topic that were written up to `until_ms`, oldest first in each partition; and the positions
        from which the list goes on, None at its end. Raises Refusal, QueueUnavailable."""
        return self._log.oldest(after, limit, partial(_letter, topic), until_ms)

    def get(self, topic: str, letter_id: str) -> Letter | None:
        """The letter with this id, if there is one and it is of the topic."""
        found = self._log.get(letter_id)
        return None if found is None else _letter(topic, *found)


def _letter(topic: str, partition: str, record: LogRecord) -> Letter | None:
    content = read_dead_letter(record.body)
    if content is None or content.topic != topic:
        return None
    return Letter(partition, record.offset, record.appended_at_ms, content)
