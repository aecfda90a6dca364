"""Rows of a log's own tables that went with a table of RocksDB, put back as far as they can be known.

Before RocksDB gives up a damaged table, its other blocks can still be read, and these rows are in the first ones. A
topic's row also is in the copy (`topics_copy.py`). Where neither has it, the topic's records are kept under a
name that shows it.
"""

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from rocksdict import Rdict, RdictIter

from delayline.buffer.cursor import Cursor
from delayline.errors import UnknownFormat
from mq.embedded.examine import opened_to_read
from mq.embedded.mark import LogId
from mq.embedded.stored import (
    CURSORS,
    KEY,
    NUMBER,
    NUMBERS_KEY,
    START,
    STARTS,
    TABLES,
    TOPIC,
    TOPIC_VERSION,
    TOPICS,
    table,
    valid,
)
from mq.embedded.tuning import options
from mq.errors import QueueUnavailable

Rows = dict[tuple[int, int], bytes]
"""By table, and number within it."""

RECOVERED = "recovered.topic-"
"""What the topic is called whose name is lost; its number follows."""

_WORTH = (TOPICS, STARTS, CURSORS)


def rows_of(log: Path) -> Rows:
    """What can be read of them, before a repair; nothing where a write-ahead log is damaged as well: opened to read
    with the options of a salvage, RocksDB 9.8 ends the process (SIGSEGV) on a list of files that was cut."""
    rows: Rows = {}
    try:
        with opened_to_read(log, options()) as opened:
            for number_of in _WORTH:
                rows |= {(number_of, number): row for number, row in _readable(opened.db.iter(), number_of)}
    except QueueUnavailable:
        return rows
    return rows


def _readable(found: RdictIter, number_of: int) -> Iterator[tuple[int, bytes]]:
    try:
        yield from table(found, number_of)
    except QueueUnavailable:
        return


def put_back(db: Rdict, rows: Rows, copied: Mapping[int, bytes]) -> None:
    """Into the log as it was repaired. What was read before may be older, where the list of files was cut; so of two
    rows the one that reaches further counts. The copy alone decides which topics there were, where there is one."""
    topics = dict(table(db.iter(), TOPICS))
    known = copied or {number: row for (number_of, number), row in rows.items() if number_of == TOPICS}
    used = db.get(NUMBERS_KEY)
    for number, row in known.items():
        if number not in topics:
            topics[number] = row
            db[KEY.pack(TABLES, TOPICS, number)] = row
    _one_for_each_name(db, topics)
    for number, partitions in _nameless(db.iter(), topics).items():
        topics[number] = _recovered(number, partitions, topics)
        db[KEY.pack(TABLES, TOPICS, number)] = topics[number]
    highest = max([0 if used is None else NUMBER.unpack(used)[0], *topics])
    db[NUMBERS_KEY] = NUMBER.pack(highest)
    for (number_of, id_), row in rows.items():
        key = KEY.pack(TABLES, number_of, id_)
        if number_of in (STARTS, CURSORS) and id_ >> 32 in topics and _reaches_further(number_of, row, db.get(key)):
            db[key] = row


def _one_for_each_name(db: Rdict, topics: dict[int, bytes]) -> None:
    """Where a topic was deleted and made again, the deletion may be lost: the later one has the name, and the
    records of the earlier one are kept as those of a topic without a name."""
    latest = {row[TOPIC.size :]: number for number, row in sorted(topics.items())}
    for number in sorted(set(topics) - set(latest.values())):
        del topics[number]
        del db[KEY.pack(TABLES, TOPICS, number)]


def _nameless(found: RdictIter, topics: Mapping[int, bytes]) -> dict[int, int]:
    """Topics of which there are records, and no row: how many partitions they had at least."""
    partitions: dict[int, int] = {}
    for number, partition in _log_ids(found):
        if number not in topics:
            partitions[number] = partition + 1
    return partitions


def _log_ids(found: RdictIter) -> Iterator[LogId]:
    """Of every partition that has an entry, in order."""
    found.seek(KEY.pack(TABLES + 1, 0, 0))
    while valid(found):
        topic, partition, _ = KEY.unpack(found.key())
        yield topic, partition
        found.seek(KEY.pack(topic, partition + 1, 0))


def _recovered(number: int, partitions: int, topics: Mapping[int, bytes]) -> bytes:
    taken = {row[TOPIC.size :].decode() for row in topics.values()}
    name = f"{RECOVERED}{number}"
    while name in taken:
        name += "-again"
    return TOPIC.pack(TOPIC_VERSION, uuid.uuid4().bytes, partitions) + name.encode()


def _reaches_further(number_of: int, row: bytes, there: bytes | None) -> bool:
    if there is None:
        return True
    if number_of == STARTS:
        return START.unpack(row) > START.unpack(there)
    try:
        return Cursor.decode(row).progress > Cursor.decode(there).progress
    except UnknownFormat:
        return False
