"""Whether a log still holds what was acknowledged: it is compared with its high-water mark before it is opened.

Nothing is changed by it. RocksDB is opened to read only: opened for writing, it would delete the tables that its list
of files does not name, and a list that was cut names too few.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from rocksdict import AccessType, Rdict

from mq.embedded.mark import LogId, Said, manifest_of, read_mark
from mq.embedded.stored import identity_of, stored_topics
from mq.embedded.tuning import options
from mq.errors import QueueUnavailable
from mq.local.storage import StoredTopic

PARTITIONS_SHOWN = 10


class Missing(NamedTuple):
    """What a partition lacks: it was acknowledged up to `said`, and ends at `held`."""

    topic: str
    partition: int
    said: int
    held: int

    @property
    def records(self) -> int:
        return self.said - self.held

    def __str__(self) -> str:
        ends = f"{self.topic}/{self.partition} ends at {self.held}, acknowledged up to {self.said}"
        return f"{ends} ({self.records} missing)"


class Loss(NamedTuple):
    """`detail` says what is wrong, with figures; `said` is the mark, where it can be read."""

    detail: str
    missing: tuple[Missing, ...] = ()
    said: Said | None = None

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


def examine(log: Path, mark: Path, *, marked: bool) -> Loss | None:
    """What is missing in `log`; None where nothing is. `marked`: there must be a mark.

    Raises QueueUnavailable where it cannot be looked at, QueueFormat."""
    try:
        said = read_mark(mark)
    except FileNotFoundError:
        return _unmarked(log, mark, marked=marked)
    except OSError as error:
        raise QueueUnavailable(f"the high-water mark {mark} cannot be read: {error.strerror}") from error
    if said is None:
        return Loss(f"its high-water mark {mark} is damaged, so nothing says whether it is whole")
    loss = _compare(log, said)
    return None if loss is None else loss._replace(said=said)


def _unmarked(log: Path, mark: Path, *, marked: bool) -> Loss | None:
    """Logs of earlier versions have none; RocksDB would make a new one in their place where its list is missing."""
    if marked:
        return Loss(f"its high-water mark {mark} is gone, so nothing says whether it is whole")
    if log.is_dir() and not (log / "CURRENT").exists() and any(log.glob("*.sst")):
        return Loss(f"{log} holds tables, but no list of them (CURRENT)")
    return None


def _compare(log: Path, said: Said) -> Loss | None:
    figures = f"{said.sequence} writes in {len(said.ends)} partitions were acknowledged"
    if not log.exists():
        return Loss(f"there is no log: {figures}", tuple(_nothing(said)))
    try:
        manifest, size = manifest_of(log)
    except (OSError, ValueError) as error:
        return Loss(f"its list of files cannot be opened ({error}): {figures}")
    if manifest < said.manifest or (manifest == said.manifest and size < said.manifest_bytes):
        names = f"MANIFEST-{manifest:06} with {size} bytes, it was MANIFEST-{said.manifest:06} with"
        return Loss(
            f"its list of files is {names} {said.manifest_bytes} bytes: {figures}", _as_far_as_read(log, said)
        )
    try:
        found = look(log)
    except QueueUnavailable as error:
        return Loss(f"{error}: {figures}")
    if (identity := identity_of(log)) != said.identity:
        return Loss(f"it is another log ({identity}) than the one that was written ({said.identity}): {figures}")
    missing = tuple(_missing(found, said.ends))
    if found.sequence >= said.sequence and not missing:
        return None
    return Loss(f"{figures}, it holds {found.sequence}", missing)


def _as_far_as_read(log: Path, said: Said) -> tuple[Missing, ...]:
    try:
        return tuple(_missing(look(log), said.ends))
    except QueueUnavailable:
        return ()


def look(log: Path) -> Found:
    """Raises QueueUnavailable (damaged), QueueFormat."""
    try:
        db = Rdict(str(log), options(), access_type=AccessType.read_only(False))
    except Exception as error:
        raise QueueUnavailable(f"the log in {log} cannot be opened: {error}") from error
    with closing(db):
        return Found(db.latest_sequence_number(), tuple(stored_topics(db.iter())))


def _missing(found: Found, said: Mapping[LogId, int]) -> Iterator[Missing]:
    """Topics that the log does not know any more were deleted, or went with what is missing altogether."""
    for topic in found.topics:
        for number, part in enumerate(topic.partitions):
            if part.next_offset < said.get((topic.number, number), 0):
                yield Missing(topic.name, number, said[topic.number, number], part.next_offset)


def _nothing(said: Said) -> Iterator[Missing]:
    for (topic, partition), end in sorted(said.ends.items()):
        yield Missing(f"topic number {topic}", partition, end, 0)
