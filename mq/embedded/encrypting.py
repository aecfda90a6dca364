"""Encrypt a queue that is not: every entry is written anew, then RocksDB gives up the tables that held them.

It may be broken off and begun again. Until it is done, `queue.json` has the queue refused everywhere else.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from rocksdict import BottommostLevelCompaction, CompactOptions, Rdict, RdictIter, WriteBatch

from delayline.names import installation
from mq.embedded.encrypted import PURPOSE, encrypted
from mq.embedded.entry import VERSION, read_head
from mq.embedded.folder import Folder
from mq.embedded.stored import KEY, TABLES, valid
from mq.embedded.tuning import options
from mq.embedded.verify import Witness, verify
from mq.errors import QueueDamaged, QueueUnavailable

if TYPE_CHECKING:
    from delayline.encryption.cipher import Cipher
    from delayline.encryption.data_key import DataKey

BATCH_BYTES = 4 << 20


def encrypt_queue(
    folder: Path,
    namespace: str,
    known: "DataKey | None",
    make_key: "Callable[[], DataKey]",
    second: Path | None,
    witness: Witness,
    free_bytes: Callable[[Path], int],
) -> int | None:
    """How many records were encrypted, with the data key `known`, or else with one that is made once the queue is
    known to be whole; None where all of it was already. Raises QueueLocked, QueueFormat (also: it was begun with
    another data key), QueueDamaged (it is not whole), QueueUnavailable (also: the disk lacks room)."""
    ours = Folder(folder, namespace, to_encrypt=True)
    with closing(ours):
        ours.refuse_other_key(known)
        if ours.encrypted:
            return None
        found = verify(ours, installation(namespace), second, witness)
        if found.loss is not None:
            raise QueueDamaged(f"the queue in {folder} is not whole: {found.loss}. Nothing was changed.")
        if not ours.log.is_dir():
            raise QueueUnavailable(f"there is no queue in {folder}")
        _check_room(ours.log, free_bytes(folder))
        data_key = known or make_key()
        ours.note_encrypting(data_key, done=False)
        records = _encrypt(ours.log, data_key.cipher(PURPOSE))
        ours.note_encrypting(data_key, done=True)
        return records


def _check_room(log: Path, free: int) -> None:
    """Raises QueueUnavailable."""
    needed = 2 * sum(file.stat().st_size for file in log.iterdir() if file.is_file())
    if free < needed:
        raise QueueUnavailable(f"encrypting {log} takes {needed >> 20} MiB, and {free >> 20} are free")


def _encrypt(log: Path, cipher: "Cipher") -> int:
    try:
        db = Rdict(str(log), options())
    except Exception as error:
        raise QueueUnavailable(f"the log in {log} cannot be opened: {error}") from error
    with closing(db):
        records = 0
        start = KEY.pack(TABLES + 1, 0, 0)
        while plain := _plain(db.iter(), start):
            batch = WriteBatch(raw_mode=True)
            for key, entry in plain:
                batch.put(key, encrypted(key, entry, cipher))
                records += read_head(entry).records
            db.write(batch)
            start = plain[-1][0]
        _give_up_old_tables(db)
    return records


def _plain(found: RdictIter, start: bytes) -> list[tuple[bytes, bytes]]:
    """The next entries that are not encrypted yet. Another iterator for each batch: it keeps what it sees in
    memory."""
    entries: list[tuple[bytes, bytes]] = []
    size = 0
    found.seek(start)
    while valid(found) and size < BATCH_BYTES:
        entry = found.value()
        if entry[0] == VERSION:
            entries.append((found.key(), entry))
            size += len(entry)
        found.next()
    return entries


def _give_up_old_tables(db: Rdict) -> None:
    """Also those of the lowest level, which a compaction would otherwise leave alone; and the write-ahead logs."""
    db.flush_wal(True)
    db.flush()
    wholly = CompactOptions()
    wholly.set_bottommost_level_compaction(BottommostLevelCompaction.force())
    db.compact_range(None, None, wholly)
