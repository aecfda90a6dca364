"""Read all of a log that no process has open, and report what is damaged. Every block's checksum is compared.

Tables and write-ahead logs are named where the damage is in one; nothing is changed.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rocksdict import RdictIter

from delayline.names import installation
from mq.embedded.encrypted import PURPOSE, decrypted
from mq.embedded.entry import ENTRY_RECORDS_MAX, decode_entry, read_head
from mq.embedded.examine import Opened, opened_to_read
from mq.embedded.folder import Folder
from mq.embedded.mark import LogId
from mq.embedded.salvage import Accepted, losses
from mq.embedded.stored import KEY, LAST, stored_topics
from mq.embedded.tuning import options
from mq.embedded.verify import Witness, verify
from mq.errors import QueueDamaged, QueueError, QueueUnavailable
from mq.local.storage import StoredPartition

if TYPE_CHECKING:
    from delayline.encryption.cipher import Cipher
    from delayline.encryption.data_key import DataKey


class Scrubbed(NamedTuple):
    """A partition as it was read: records that are there, of those that should be, and that a loss has taken."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    lost: int
    damage: str = ""


class Report(NamedTuple):
    """Everything that was read; `damage` is what is wrong with the log as a whole."""

    partitions: tuple[Scrubbed, ...]
    losses: tuple[Accepted, ...]
    damage: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return not self.damage and not any(one.damage for one in self.partitions)


def scrub(
    folder: Path,
    namespace: str,
    second: Path | None = None,
    witness: Witness = lambda ends, vouched: None,
    data_key: "DataKey | None" = None,
) -> Report:
    """It is judged as at a start: `second`, `witness` and `data_key` as there (`EmbeddedQueue.open`). Raises
    QueueLocked (a process has it open), QueueFormat, QueueUnavailable (there is none, or it may not be read)."""
    ours = Folder(folder, namespace, data_key)
    cipher = None if data_key is None else data_key.cipher(PURPOSE)
    with closing(ours):
        try:
            loss = verify(ours, installation(namespace), second, witness).of_log
            problems = tuple(filter(None, (ours.trouble, "" if loss is None else str(loss))))
        except QueueDamaged as error:
            problems = (str(error),)
        if not problems and not ours.log.exists():
            raise QueueUnavailable(f"there is no queue in {folder}")
        try:
            return _read(ours.log, problems, cipher)
        except QueueError as error:
            return Report((), (), (*problems, str(error)))


def _read(log: Path, problems: tuple[str, ...], cipher: "Cipher | None") -> Report:
    chosen = options()
    chosen.set_paranoid_checks(True)
    with opened_to_read(log, chosen) as opened:
        db = opened.db
        topics = list(stored_topics(db.iter()))
        read = tuple(
            _partition(opened, topic.name, (topic.number, number), held, cipher)
            for topic in topics
            for number, held in enumerate(topic.partitions)
        )
        return Report(read, tuple(losses(db.iter())), (*problems, *map(opened.real, _everything(db.iter()))))


def _everything(found: RdictIter) -> Iterator[str]:
    """What a walk over everything meets: also rows that no partition holds."""
    found.seek_to_first()
    while found.valid():
        found.next()
    try:
        found.status()
    except Exception as error:  # noqa: BLE001 - the binding raises plain exceptions
        yield str(error)


def _partition(opened: Opened, topic: str, log_id: LogId, held: StoredPartition, cipher: "Cipher | None") -> Scrubbed:
    records = lost = 0
    damage = ""
    try:
        for base, entry in _entries(opened.db.iter(), log_id):
            head = read_head(entry)
            behind = base + head.records
            kept = max(0, behind - max(base, held.start))
            if head.lost:
                lost += kept
            else:
                _check(decrypted(KEY.pack(*log_id, base), entry, cipher), base, head.records)
                records += kept
        expected = held.next_offset - held.start
        if records + lost != expected:
            damage = f"{expected - records - lost} records are missing"
    except (QueueError, ValueError, IndexError) as error:
        damage = opened.real(error)
    return Scrubbed(topic, log_id[1], held.start, held.end, records, lost, damage)


def _check(entry: bytes, base: int, count: int) -> None:
    found = decode_entry(entry, base, base, max(count, ENTRY_RECORDS_MAX), LAST)
    if len(found) != count:
        raise QueueDamaged(f"the entry at {base} holds {len(found)} records, and its head has {count}")


def _entries(found: RdictIter, log_id: LogId) -> Iterator[tuple[int, bytes]]:
    """Raises QueueDamaged where a block cannot be read."""
    found.seek(KEY.pack(*log_id, 0))
    while found.valid():
        topic, partition, base = KEY.unpack(found.key())
        if (topic, partition) != log_id:
            return
        yield base, found.value()
        found.next()
    try:
        found.status()
    except Exception as error:
        raise QueueDamaged(str(error)) from error
