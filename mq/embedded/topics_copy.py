"""The rows of the log's topics a second time, in `topics.json`: one damaged table can take a topic's row with it, and
without the row it is unknown whose the records are.

    {"crc32": of the value of "held", as it is there, "held": {"identity", "topics": [{"number", "row"}]}}

It is written anew, durably, before a group that makes or deletes topics is: so it has every topic that was ever
acknowledged, and may have one that was not. It is a copy: one that is gone or damaged is made anew at the next start.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from delayline.process.durably import write_durably
from delayline.process.links import read_file

_log = structlog.get_logger("queue")

TOPICS_COPY = "topics.json"


class Copied(NamedTuple):
    """The topics' rows by number, and whose they are: the identity of the database."""

    identity: str
    rows: Mapping[int, bytes]


class _Topic(msgspec.Struct, frozen=True):
    number: int
    row: bytes


class _Held(msgspec.Struct, frozen=True):
    identity: str
    topics: list[_Topic]


class _Sealed(msgspec.Struct, frozen=True):
    crc32: int
    held: msgspec.Raw


def read_copy(file: Path) -> Copied | None:
    """None where there is none, or it cannot be believed. Raises OSError where it cannot be read, or is no file."""
    try:
        sealed = msgspec.json.decode(read_file(file), type=_Sealed)
        if sealed.crc32 != zlib.crc32(sealed.held):
            raise ValueError("another checksum")
        held = msgspec.json.decode(sealed.held, type=_Held)
    except FileNotFoundError:
        return None
    except ValueError as error:  # also what msgspec raises
        _log.warning("the copy of the topics' rows is damaged and is made anew", file=str(file), detail=str(error))
        return None
    return Copied(held.identity, {topic.number: topic.row for topic in held.topics})


class TopicsCopy:
    """The file, kept up to date by the thread that writes the log."""

    def __init__(self, file: Path, identity: str, rows: Iterable[tuple[int, bytes]]) -> None:
        """Make it anew. Raises OSError."""
        self._file = file
        self._identity = identity
        self._rows = dict(rows)
        self._write()

    def change(self, added: Iterator[tuple[int, bytes]], deleted: Iterable[int]) -> None:
        """Before the group that does so is written. Raises OSError."""
        for number in deleted:
            self._rows.pop(number, None)
        self._rows.update(added)
        self._write()

    def _write(self) -> None:
        topics = [_Topic(number, row) for number, row in sorted(self._rows.items())]
        held = msgspec.json.encode(_Held(self._identity, topics))
        write_durably(self._file, msgspec.json.encode(_Sealed(zlib.crc32(held), msgspec.Raw(held))) + b"\n")
