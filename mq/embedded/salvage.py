"""Go on without what is missing, because the operator has ordered it (`--accept-loss`).

What can be read stays. Where records are gone, an entry records it (`entry.py`), so that their offsets, and with them
the ids of messages, are never given to others. A table that RocksDB gives up takes rows of the log's own tables with
it (`tables.py` puts them back as far as they can be known). A row of the log keeps what was accepted, and what is
given up is kept beside the log.
"""

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from rocksdict import Rdict, RdictIter

from delayline.process.links import irregular, linked
from mq.embedded.entry import encode_lost, read_head
from mq.embedded.examine import Loss
from mq.embedded.folder import LOST
from mq.embedded.mark import LogId
from mq.embedded.stored import (
    KEY,
    LOSSES,
    NUMBER,
    NUMBERS_KEY,
    TABLES,
    identity_of,
    stored_topics,
    table,
    valid,
)
from mq.embedded.tables import Rows, put_back, rows_of
from mq.embedded.topics_copy import Copied
from mq.embedded.tuning import options
from mq.errors import QueueUnavailable
from mq.local.storage import StoredTopic

SMALL = ("MANIFEST-", "CURRENT", "OPTIONS-", "IDENTITY")
TOPICS_SHOWN = 10

Hole = tuple[int, int]
"""From the first offset that is gone to the one behind the last."""


class Accepted(msgspec.Struct, frozen=True):
    """A loss that the operator has accepted, as the log remembers it: how many offsets have no record any more, also
    by topic."""

    at_ms: int
    detail: str
    records: int
    topics: dict[str, int] = {}

    @property
    def figures(self) -> str:
        """As a refusal and a start print it."""
        shown = sorted(self.topics.items(), key=lambda one: (-one[1], one[0]))
        parts = [f"{topic} {records}" for topic, records in shown[:TOPICS_SHOWN]]
        if len(shown) > TOPICS_SHOWN:
            parts.append(f"and {len(shown) - TOPICS_SHOWN} topics more")
        return f"{self.records} records" + (f" ({', '.join(parts)})" if parts else "")


def salvage(log: Path, loss: Loss, at_ms: int, copied: Copied | None = None) -> Accepted:
    """Make the log one that can be opened, and remember the loss in it. `copied` are the topics' rows, where a copy
    of them was kept. Raises QueueUnavailable, QueueFormat."""
    rows: Rows = {}
    if not log.exists() or not any(log.iterdir()):
        log.mkdir(exist_ok=True)
    else:
        kept = log.with_name(f"{LOST}{at_ms}")
        _keep_evidence(log, kept)
        rows = _repaired(log, kept)
    return _remember(log, loss, at_ms, rows, copied)


def dry_run(log: Path, loss: Loss, copied: Copied | None = None) -> Accepted:
    """What `salvage` would give up: it is done to links in a folder of their own. Reads all of the log, of which
    nothing is changed. Raises QueueUnavailable, QueueFormat, OSError."""
    if not log.is_dir():
        with TemporaryDirectory(prefix="delayline-links-") as scratch:
            return salvage(Path(scratch, "log"), loss, 0, copied)
    with linked(log) as links, TemporaryDirectory(prefix="delayline-links-") as kept:
        (links / "LOCK").unlink(missing_ok=True)
        rows = _repaired(links, Path(kept)) if any(links.iterdir()) else {}
        return _remember(links, loss, 0, rows, copied)


def _repaired(log: Path, kept: Path) -> Rows:
    """The rows of the log's own tables that could be read before RocksDB gave up tables."""
    _clear(log, kept)
    rows = rows_of(log)
    _repair(log)
    _keep_given_up(log / "lost", kept)
    return rows


def _remember(log: Path, loss: Loss, at_ms: int, rows: Rows, copied: Copied | None) -> Accepted:
    try:
        db = Rdict(str(log), options(create=True, salvage=True))
    except Exception as error:
        raise QueueUnavailable(f"the log in {log} cannot be opened, whatever is given up: {error}") from error
    with closing(db):
        ends = {} if loss.acknowledged is None else loss.acknowledged.ends
        put_back(db, rows, _of(copied, log, loss))
        topics = list(stored_topics(db.iter()))
        lost: Counter[str] = Counter()
        for topic in topics:
            for log_id, hole in _holes_of(db.iter(), topic, ends):
                lost[topic.name] += hole[1] - hole[0]
                for base, entry in encode_lost(*hole, at_ms):
                    db[KEY.pack(*log_id, base)] = entry
        for number, records in _nameless(topics, ends).items():
            lost[f"topic number {number}"] = records
        _never_again(db, [number for number, _ in ends])
        accepted = Accepted(at_ms, str(loss), lost.total(), dict(lost))
        db[KEY.pack(TABLES, LOSSES, at_ms)] = msgspec.json.encode(accepted)
        db.flush()
        db.flush_wal(True)
    return accepted


def _of(copied: Copied | None, log: Path, loss: Loss) -> Mapping[int, bytes]:
    """The rows, if they are of this log; without its identity the mark names which one it was."""
    if copied is None:
        return {}
    if loss.acknowledged is not None and loss.acknowledged.identity == copied.identity:
        return copied.rows
    try:
        return copied.rows if identity_of(log) == copied.identity else {}
    except OSError:
        return {}


def _nameless(topics: Iterable[StoredTopic], ends: Mapping[LogId, int]) -> Counter[int]:
    """Topics of which nothing is left, not even the row: how many offsets each had used, which is all that is known.
    No topic gets their number."""
    named = {topic.number for topic in topics}
    gone: Counter[int] = Counter()
    for (number, _), end in ends.items():
        if number not in named and end > 0:
            gone[number] += end
    return gone


def _never_again(db: Rdict, numbers: Iterable[int]) -> None:
    """The numbers are used up, as those of deleted topics are."""
    row = db.get(NUMBERS_KEY)
    db[NUMBERS_KEY] = NUMBER.pack(max([0 if row is None else NUMBER.unpack(row)[0], *numbers]))


def losses(found: RdictIter) -> list[Accepted]:
    """Everything that was ever accepted of this log."""
    return [msgspec.json.decode(row, type=Accepted) for _, row in table(found, LOSSES)]


def _keep_evidence(log: Path, copy: Path) -> None:
    copy.mkdir(mode=0o700, exist_ok=True)
    for file in log.iterdir():
        if file.is_file() and (file.suffix == ".log" or file.name.startswith(SMALL)):
            shutil.copy2(file, copy / file.name)


def _keep_given_up(lost: Path, kept: Path) -> None:
    """The tables that RocksDB has put aside; what else it has is there already."""
    for file in lost.iterdir() if lost.is_dir() else ():
        if (kept / file.name).exists():
            file.unlink()
        else:
            shutil.move(file, kept / file.name)
    if lost.is_dir():
        lost.rmdir()


def _clear(log: Path, kept: Path) -> None:
    """Of what would keep RocksDB from opening it, and holds no records: what has the place of files and is none, and
    an identity that is none, for which RocksDB makes another one."""
    for entry in list(log.iterdir()):
        if irregular(entry):
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
