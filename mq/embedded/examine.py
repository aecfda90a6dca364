"""Whether a log still holds what was acknowledged: it is compared with its high-water mark before it is opened.

Nothing is changed by it. RocksDB is opened to read only: opened for writing, it would delete the tables that its list
of files does not name, and a list that was cut names too few.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import structlog
from rocksdict import AccessType, Options, Rdict

from delayline.process.links import linked, no_file, unreadable
from mq.embedded.mark import Acknowledged, LogId, manifest_of, read_mark
from mq.embedded.stored import identity_of, name_in, stored_topics
from mq.embedded.topics_copy import Copied
from mq.embedded.tuning import options
from mq.errors import QueueUnavailable
from mq.local.storage import StoredTopic

_log = structlog.get_logger("queue")

IDENTITY_SHOWN = 60
PARTITIONS_SHOWN = 10


class Missing(NamedTuple):
    """What a partition lacks: it was acknowledged up to `acknowledged`, and ends at `held`."""

    topic: str
    partition: int
    acknowledged: int
    held: int

    @property
    def records(self) -> int:
        return self.acknowledged - self.held

    def __str__(self) -> str:
        ends = f"{self.topic}/{self.partition} ends at {self.held}, acknowledged up to {self.acknowledged}"
        return f"{ends} ({self.records} missing)"


class Loss(NamedTuple):
    """`detail` is what is wrong, with figures; `acknowledged` is the mark, where it can be read."""

    detail: str
    missing: tuple[Missing, ...] = ()
    acknowledged: Acknowledged | None = None

    def __str__(self) -> str:
        lacking = sorted((one for one in self.missing if one.records > 0), key=lambda one: -one.records)
        shown = [str(one) for one in lacking[:PARTITIONS_SHOWN]]
        if len(lacking) > PARTITIONS_SHOWN:
            shown.append(f"and {len(lacking) - PARTITIONS_SHOWN} partitions more")
        return "; ".join([self.detail, *shown])


class Found(NamedTuple):
    """What a log holds."""

    sequence: int
    topics: tuple[StoredTopic, ...]

    @property
    def ends(self) -> dict[LogId, int]:
        parts = (
            (topic.number, number, part) for topic in self.topics for number, part in enumerate(topic.partitions)
        )
        return {(topic, number): part.next_offset for topic, number, part in parts}


class Examined(NamedTuple):
    """What is missing, if anything is; the topics of a log that could be read."""

    loss: Loss | None
    topics: tuple[StoredTopic, ...] = ()


def examine(
    log: Path, mark: Path, second: Path | None = None, *, marked: bool, copied: Copied | None = None
) -> Examined:
    """What is missing in `log`, and what it holds. `marked`: there must be a mark. `second` is the mark's copy: it
    may be missing, or behind; where it is ahead, log and mark are older copies. `copied` are the rows of its topics
    a second time: they name what the log does not name any more.

    Raises QueueUnavailable where it cannot be looked at, QueueFormat."""
    _refuse_unreadable(log)
    known = None if second is None else _second(second)
    acknowledged, trouble = _first(mark)
    if acknowledged is None and (trouble or marked):
        detail = f"its high-water mark {mark} {trouble or 'is gone'}, so nothing proves that it is whole"
        return Examined(Loss(detail, acknowledged=known if _is_of(known, log) else None))
    if log.is_dir() and (obstacle := no_file(log)):
        return Examined(Loss(obstacle, acknowledged=acknowledged or (known if _is_of(known, log) else None)))
    if known is None:
        return _unmarked(log) if acknowledged is None else _compare(log, acknowledged, copied)
    if acknowledged is None or (acknowledged.identity == known.identity and known.sequence > acknowledged.sequence):
        found = _compare(log, known, copied)
        if found.loss is None:
            return found
        return found._replace(loss=found.loss._replace(detail=f"{found.loss.detail} (according to {second})"))
    found = _compare(log, acknowledged, copied)
    if found.loss is None and acknowledged.identity != known.identity:
        detail = f"{second} was written of another log ({known.identity}) than this one ({acknowledged.identity})"
        return found._replace(
            loss=Loss(f"{detail}: what was acknowledged there is not here", acknowledged=acknowledged)
        )
    return found


def _refuse_unreadable(log: Path) -> None:
    """What this user may not read is there all the same: no loss, and nothing to be given up. Raises
    QueueUnavailable."""
    if (path := unreadable(log)) is not None:
        raise QueueUnavailable(f"{path} cannot be read: Permission denied. {GIVE_RIGHTS}")


GIVE_RIGHTS = "Start as the user whose files these are, or give this one the right to read and write them."


def _first(mark: Path) -> tuple[Acknowledged | None, str]:
    """The mark, and what is wrong with it where it cannot be read; ("", None) where there is none."""
    try:
        acknowledged = read_mark(mark)
    except FileNotFoundError:
        return None, "is a link that leads nowhere" if mark.is_symlink() else ""
    except IsADirectoryError as error:
        return None, str(error.strerror)
    except OSError as error:
        raise QueueUnavailable(
            f"the high-water mark {mark} cannot be read: {error.strerror}. {GIVE_RIGHTS}"
        ) from error
    return acknowledged, "" if acknowledged is not None else "is damaged"


def _second(mark: Path) -> Acknowledged | None:
    """One that is damaged counts as none, as one that is gone: the first one is there."""
    try:
        acknowledged = read_mark(mark)
    except FileNotFoundError:
        return None
    except OSError as error:
        advice = f"While no server runs it may be deleted. {GIVE_RIGHTS}"
        raise QueueUnavailable(f"the second mark {mark} cannot be read: {error.strerror}. {advice}") from error
    if acknowledged is None:
        _log.warning("the second high-water mark is damaged and is made anew", file=str(mark))
    return acknowledged


def _is_of(acknowledged: Acknowledged | None, log: Path) -> bool:
    """Whether it was written of this log; true also where the log's own identity is gone."""
    if acknowledged is None:
        return False
    try:
        return identity_of(log) == acknowledged.identity
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _unmarked(log: Path) -> Examined:
    """Logs of earlier versions have none; RocksDB would make a new one in their place where its list is missing."""
    if not log.is_dir():
        return Examined(None)
    if not (log / "CURRENT").exists():
        if any(file.suffix in (".sst", ".log") and file.stat().st_size for file in log.iterdir()):
            return Examined(Loss(f"{log} holds tables, but no list of them (CURRENT)"))
        return Examined(None)
    return Examined(None, look(log).topics)


def _compare(log: Path, acknowledged: Acknowledged, copied: Copied | None) -> Examined:
    names = names_in(copied, acknowledged)
    figures = f"{acknowledged.sequence} writes in {len(acknowledged.ends)} partitions were acknowledged"
    if not log.exists():
        return Examined(Loss(f"there is no log: {figures}", tuple(_nothing(acknowledged, names)), acknowledged))
    try:
        manifest, size = manifest_of(log)
    except (OSError, ValueError) as error:
        return Examined(Loss(f"its list of files cannot be opened ({error}): {figures}", acknowledged=acknowledged))
    if manifest < acknowledged.manifest or (manifest == acknowledged.manifest and size < acknowledged.manifest_bytes):
        listed = f"MANIFEST-{manifest:06} with {size} bytes, it was MANIFEST-{acknowledged.manifest:06} with"
        detail = f"its list of files is {listed} {acknowledged.manifest_bytes} bytes: {figures}"
        return Examined(Loss(detail, _as_far_as_read(log, acknowledged, names), acknowledged))
    try:
        found = look(log)
    except QueueUnavailable as error:
        return Examined(Loss(f"{error}: {figures}", acknowledged=acknowledged))
    try:
        identity = identity_of(log)
    except OSError as error:
        detail = f"its identity {log / 'IDENTITY'} cannot be read ({error.strerror})"
        return Examined(Loss(f"{detail}: {figures}", acknowledged=acknowledged), found.topics)
    if identity != acknowledged.identity:
        detail = (
            f"it is another log ({identity[:IDENTITY_SHOWN]}) than the one that was written ({acknowledged.identity})"
        )
        return Examined(Loss(f"{detail}: {figures}", acknowledged=acknowledged), found.topics)
    missing = tuple(_missing(found, acknowledged.ends, names))
    if found.sequence >= acknowledged.sequence and not missing:
        return Examined(None, found.topics)
    return Examined(Loss(f"{figures}, it holds {found.sequence}", missing, acknowledged), found.topics)


def names_in(copied: Copied | None, acknowledged: Acknowledged) -> Mapping[int, str]:
    """Of topics, by number, if the copy is of this log."""
    if copied is None or copied.identity != acknowledged.identity:
        return {}
    return {number: name_in(row) for number, row in copied.rows.items()}


def _as_far_as_read(log: Path, acknowledged: Acknowledged, names: Mapping[int, str]) -> tuple[Missing, ...]:
    try:
        return tuple(_missing(look(log), acknowledged.ends, names))
    except QueueUnavailable:
        return ()


def look(log: Path) -> Found:
    """Raises QueueUnavailable (damaged), QueueFormat."""
    with opened_to_read(log, options()) as opened:
        return Found(opened.db.latest_sequence_number(), tuple(stored_topics(opened.db.iter())))


class Opened(NamedTuple):
    """A database that is read through links to its files."""

    db: Rdict
    links: Path
    log: Path

    def real(self, text: object) -> str:
        """RocksDB's error, with the files' own names."""
        return str(text).replace(str(self.links), str(self.log))


@contextmanager
def opened_to_read(log: Path, chosen: Options) -> Iterator[Opened]:
    """The database, of which no file is changed. Raises QueueUnavailable."""
    with ExitStack() as held:
        try:
            obstacle = no_file(log)
            links = held.enter_context(linked(log))
        except OSError as error:
            raise QueueUnavailable(f"the log in {log} cannot be read: {error.strerror}") from error
        if obstacle:
            raise QueueUnavailable(f"the log in {log} cannot be read: {obstacle}")
        try:
            db = Rdict(str(links), chosen, access_type=AccessType.read_only(False))
        except Exception as error:
            detail = str(error).replace(str(links), str(log))
            raise QueueUnavailable(f"the log in {log} cannot be opened: {detail}") from error
        held.enter_context(closing(db))
        opened = Opened(db, links, log)
        try:
            yield opened
        except QueueUnavailable as error:
            raise type(error)(opened.real(error)) from error


def _missing(found: Found, acknowledged: Mapping[LogId, int], names: Mapping[int, str]) -> Iterator[Missing]:
    """Topics that the log does not know any more were deleted; or the copy still names them (`names`)."""
    for topic in found.topics:
        for number, part in enumerate(topic.partitions):
            if part.next_offset < acknowledged.get((topic.number, number), 0):
                yield Missing(topic.name, number, acknowledged[topic.number, number], part.next_offset)

    known = {topic.number for topic in found.topics}
    for (number, partition), end in sorted(acknowledged.items()):
        if number not in known and number in names and end > 0:
            yield Missing(names[number], partition, end, 0)


def _nothing(acknowledged: Acknowledged, names: Mapping[int, str]) -> Iterator[Missing]:
    for (topic, partition), end in sorted(acknowledged.ends.items()):
        yield Missing(names.get(topic, f"topic number {topic}"), partition, end, 0)
