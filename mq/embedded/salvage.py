"""Go on without what is missing, because the operator has said so (`--accept-loss`).

What can be read stays. Where records are gone, an entry says so (`entry.py`), so that their offsets, and with them
the ids of messages, are never given to others. A row of the log keeps what was accepted, and what is thrown away of
RocksDB's small files (write-ahead logs, list of files) is copied beside the log before.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import msgspec
from rocksdict import Rdict, RdictIter

from mq.embedded.entry import encode_lost, read_head
from mq.embedded.examine import Loss
from mq.embedded.mark import LogId
from mq.embedded.stored import KEY, LOSSES, TABLES, stored_topics, table, valid
from mq.embedded.tuning import options
from mq.errors import QueueUnavailable
from mq.local.storage import StoredTopic

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
        _repair(log)
    try:
        db = Rdict(str(log), options(create=True, salvage=True))
    except Exception as error:
        raise QueueUnavailable(f"the log in {log} cannot be opened, whatever is given up: {error}") from error
    with closing(db):
        found = db.iter()
        records = 0
        for topic in list(stored_topics(found)):
            for log_id, hole in _holes_of(db.iter(), topic, {} if loss.said is None else loss.said.ends):
                records += hole[1] - hole[0]
                for base, entry in encode_lost(*hole, at_ms):
                    db[KEY.pack(*log_id, base)] = entry
        accepted = Accepted(at_ms, str(loss), records)
        db[KEY.pack(TABLES, LOSSES, at_ms)] = msgspec.json.encode(accepted)
        db.flush()
        db.flush_wal(True)
    return accepted


def losses(found: RdictIter) -> list[Accepted]:
    """Everything that was ever accepted of this log."""
    return [msgspec.json.decode(row, type=Accepted) for _, row in table(found, LOSSES)]


def _keep_evidence(log: Path, copy: Path) -> None:
    copy.mkdir(mode=0o700)
    for file in log.iterdir():
        if file.suffix == ".log" or file.name.startswith(("MANIFEST-", "CURRENT", "OPTIONS-")):
            shutil.copy2(file, copy / file.name)


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
