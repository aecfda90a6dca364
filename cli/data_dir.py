"""What is checked in `data_dir` before a server starts: who may read it, and what the index knows of the log."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from delayline.encryption.data_key import FILE, DataKey, Stored
from delayline.process import logs
from delayline.records.message import Shard
from mq.embedded.folder import data_key_id_of
from mq.embedded.verify import BufferEnd
from mq.errors import QueueDamaged
from store.errors import StoreDamaged
from store.index import Checkpoint
from store.rocks import checkpoints_in

log = logs.get(__name__)

SECOND_MARK = "index.mark"
"""The embedded queue's high-water mark a second time: it shows a queue that was put back with its own mark."""

OURS = ("queue", "queue.mark", "index", SECOND_MARK, "reconcile.json", FILE)
"""The rest of `data_dir`, and itself where it was there before us, may belong to another program as well."""

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def make_private() -> None:
    """Messages are in these files: only the server's own user may read what this process makes."""
    os.umask(0o077)


def keep_private(data_dir: Path) -> None:
    """Take looser rights away from what is there; called once it is known to be ours."""
    loose = [path for name in OURS for path in _tree(data_dir / name) if _is_loose(path)]
    kept = []
    for path in loose:
        try:
            path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
        except OSError as error:
            kept.append(f"{path}: {error.strerror}")
    if loose:
        log.warning(
            "others could read the data; rights were taken away",
            files=len(loose) - len(kept),
            example=str(loose[0]),
            failed=kept[:3],
        )


def stored_in(data_dir: Path) -> Stored:
    """What a queue or an index has written there."""
    if data_key_id_of(data_dir / "queue"):
        return Stored.ENCRYPTED
    folders = (data_dir / "queue" / "log", data_dir / "index" / "rocksdb")
    written = any(next(folder.glob("*"), None) is not None for folder in folders)
    return Stored.DATA if written else Stored.NOTHING


def _tree(path: Path) -> Iterator[Path]:
    """Links are left alone, and what they lead to."""
    if path.is_symlink() or not path.exists():
        return
    yield path
    if path.is_dir():
        for child in path.iterdir():
            yield from _tree(child)


def _is_loose(path: Path) -> bool:
    return bool(stat.S_IMODE(path.lstat().st_mode) & 0o077)


class Ahead(NamedTuple):
    """A shard of which the index has read more than the log holds."""

    shard: Shard
    read_to: int
    log_end: int

    def __str__(self) -> str:
        where = f"{self.shard.topic}/{self.shard.partition}"
        return f"{where}: the index has read up to {self.read_to}, the log ends at {self.log_end}"


class IndexWitness:
    """The index follows the log: where it is in front of it, the log has lost its end, or is an older copy."""

    def __init__(self, folder: Path, *, accept_loss: bool, data_key: DataKey | None = None) -> None:
        """`folder` is the index's, and is only read. Where the loss is accepted, `ahead` is what was found."""
        self._folder = folder
        self._data_key = data_key
        self._accept_loss = accept_loss
        self.ahead: list[Ahead] = []
        self.deleted: list[Shard] = []

    def __call__(self, ends: Mapping[Shard, BufferEnd], vouched: bool) -> None:
        """Of a log that has been compared with its mark, `vouched`, a topic that is missing was deleted. Raises
        QueueDamaged; StoreLocked, StoreFormat and StoreUnusable of the index."""
        for shard, checkpoint in self._checkpoints().items():
            known = shard in ends and ends[shard].topic_id == checkpoint.topic_id
            end = ends[shard].offset if known else 0
            if shard not in ends and vouched:
                self.deleted.append(shard)
            if (known or not vouched) and checkpoint.offset > end:
                self.ahead.append(Ahead(shard, checkpoint.offset, end))
        if self.ahead and not self._accept_loss:
            shown = "; ".join(str(one) for one in self.ahead[:10])
            raise QueueDamaged(
                f"the time index in {self._folder} knows more than the log, so the log lacks what was acknowledged: "
                f"{len(self.ahead)} shards, {shown}. Put the log back; or start once with --accept-loss, which puts "
                f"the index aside and goes on with what the log holds."
            )

    def _checkpoints(self) -> Mapping[Shard, Checkpoint]:
        """An index that is damaged is thrown away when it is opened: it has no checkpoints."""
        try:
            return checkpoints_in(self._folder, self._data_key)
        except StoreDamaged:
            return {}


def put_aside(folder: Path, now_ms: int) -> Path:
    """The index stays for who wants to look into it; a new one is made from the log."""
    return folder.rename(folder.with_name(f"{folder.name}.lost-{now_ms}"))
