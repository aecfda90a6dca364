"""Go on without what is missing, because the operator has said so (`--accept-loss`).

What can be read stays. Where records are gone, an entry says so (`entry.py`), so that their offsets, and with them
the ids of messages, are never given to others. Where a topic's own row is gone, its number is not used again. A row
of the log keeps what was accepted, and what is thrown away of RocksDB's small files (write-ahead logs, list of files)
is copied beside the log before.
"""

import re
import shutil
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import msgspec
from rocksdict import Rdict, RdictIter

from mq.embedded.entry import encode_lost, read_head
from mq.embedded.examine import Loss
from mq.embedded.mark import LogId
from mq.embedded.stored import (
    KEY,
    LOSSES,
    NUMBER,
    NUMBERS_KEY,
    TABLES,
    end_of,
    identity_of,
    starts,
    stored_topics,
    table,
    valid,
)
from mq.embedded.tuning import options
from mq.errors import QueueUnavailable
from mq.local.storage import StoredTopic

SMALL = ("MANIFEST-", "CURRENT", "OPTIONS-", "IDENTITY")

Hole = tuple[int, int]
"""From the first offset that is gone to the one behind the last."""


class Accepted(msgspec.Struct, frozen=True):
    """A loss that the operator has accepted, as the log remembers it."""

    at_ms: int
    detail: str
    records: int


def salvage(log: Path, loss: Loss, at_ms: int) -> Accepted:
    """Make the log one that can be opened, and remember the loss in it. Raises QueueUnavailable, QueueFormat."""
    if not log.exists() or not any(log.iterdir()):
        log.mkdir(exist_ok=True)
    else:
        _keep_evidence(log, log.with_name(f"lost-{at_ms}"))
        _clear(log, log.with_name(f"lost-{at_ms}"))
        _repair(log)
    try:
        db = Rdict(str(log), options(create=True, salvage=True))
    except Exception as error:
        raise QueueUnavailable(f"the log in {log} cannot be opened, whatever is given up: {error}") from error
    with closing(db):
        ends = {} if loss.said is None else loss.said.ends
        topics = list(stored_topics(db.iter()))
        records = 0
        for topic in topics:
            for log_id, hole in _holes_of(db.iter(), topic, ends):
                records += hole[1] - hole[0]
                for base, entry in encode_lost(*hole, at_ms):
                    db[KEY.pack(*log_id, base)] = entry
        nameless = _nameless(db.iter(), {topic.number for topic in topics}, ends)
        records += sum(nameless.values())
        _never_again(db, [topic for topic, _ in nameless])
        accepted = Accepted(at_ms, str(loss), records)
        db[KEY.pack(TABLES, LOSSES, at_ms)] = msgspec.json.encode(accepted)
        db.flush()
        db.flush_wal(True)
    return accepted


def _nameless(found: RdictIter, named: Container[int], ends: Mapping[LogId, int]) -> dict[LogId, int]:
    """Partitions whose topic's row is gone, and how many records each had: nobody can say any more to whom they
    belong. They stay where they are, and no topic gets their number."""
    starts_of = starts(found)
    gone = {log_id: end for log_id, end in ends.items() if log_id[0] not in named}
    for log_id in _log_ids(found):
        if log_id[0] not in named:
            gone[log_id] = max(gone.get(log_id, 0), end_of(found, log_id))
    return {
        log_id: max(0, end - starts_of.get(log_id[0] << 32 | log_id[1], (0, 0))[0]) for log_id, end in gone.items()
    }


def _log_ids(found: RdictIter) -> Iterator[LogId]:
    """Of every partition that has an entry."""
    found.seek(KEY.pack(TABLES + 1, 0, 0))
    while valid(found):
        topic, partition, _ = KEY.unpack(found.key())
        yield topic, partition
        found.seek(KEY.pack(topic, partition + 1, 0))


def _never_again(db: Rdict, numbers: Iterable[int]) -> None:
    """The numbers are used up, as those of deleted topics are."""
    row = db.get(NUMBERS_KEY)
    db[NUMBERS_KEY] = NUMBER.pack(max([0 if row is None else NUMBER.unpack(row)[0], *numbers]))


def losses(found: RdictIter) -> list[Accepted]:
    """Everything that was ever accepted of this log."""
    return [msgspec.json.decode(row, type=Accepted) for _, row in table(found, LOSSES)]


def _keep_evidence(log: Path, copy: Path) -> None:
    copy.mkdir(mode=0o700)
    for file in log.iterdir():
        if file.is_file() and (file.suffix == ".log" or file.name.startswith(SMALL)):
            shutil.copy2(file, copy / file.name)


def _clear(log: Path, kept: Path) -> None:
    """Of what would keep RocksDB from opening it, and holds no records: folders that have the place of files, and an
    identity that is none, for which RocksDB makes another one."""
    for entry in list(log.iterdir()):
        if entry.is_dir() or not entry.exists():
            entry.rename(kept / entry.name)
    identity = log / "IDENTITY"
    if identity.exists() and re.fullmatch(r"[0-9a-f-]{36}", identity_of(log)) is None:
        identity.unlink()


def _repair(log: Path) -> None:
    """Let RocksDB make a new list of files of whatever is there. Opening it with a list that names too little would
    delete the tables that it does not name."""
    try:
        Rdict.repair(str(log), options(salvage=True))
    except Exception as error:
        raise QueueUnavailable(f"the log in {log} cannot be repaired: {error}") from error


def _holes_of(found: RdictIter, topic: StoredTopic, ends: Mapping[LogId, int]) -> Iterator[tuple[LogId, Hole]]:
    """Where offsets are missing, up to what was acknowledged."""
    for number, part in enumerate(topic.partitions):
        log_id = topic.number, number
        for hole in holes(found, log_id, part.start, max(part.next_offset, ends.get(log_id, 0))):
            yield log_id, hole


def holes(found: RdictIter, log_id: LogId, start: int, end: int) -> Iterator[Hole]:
    """Offsets of `[start, end)` for which there is no entry. Reads the whole partition. Raises QueueUnavailable."""
    expected = start
    found.seek(KEY.pack(*log_id, 0))
    while valid(found):
        topic, partition, base = KEY.unpack(found.key())
        if (topic, partition) != log_id:
            break
        behind = base + read_head(found.value()).records
        if base > expected:
            yield expected, base
        expected = max(expected, behind)
        found.next()
    if expected < end:
        yield expected, end
