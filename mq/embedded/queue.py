"""EmbeddedQueue: what users open."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import structlog

from delayline.clock import Clock
from delayline.names import Names, installation
from delayline.process.links import read_file
from mq.audited import Positions, decode_positions
from mq.embedded.accept_loss import go_on, would_give_up
from mq.embedded.encrypted import PURPOSE
from mq.embedded.examine import Loss
from mq.embedded.folder import Folder
from mq.embedded.log import RocksLog, disk_free_bytes
from mq.embedded.mark import LogId
from mq.embedded.verify import Witness, buffer_ends, verify
from mq.embedded.writer import GroupWriter
from mq.errors import QueueDamaged, QueueFormat, QueueUnavailable
from mq.group_topic_limit import GROUP_TOPICS_MAX
from mq.local.ledger import Ledger
from mq.local.queue import RECORD_BYTES_MAX, TOPICS_MAX, LocalLimits, LocalQueue
from mq.local.steps import TrimStep
from mq.local.storage import StoredTopic
from mq.local.topic import Partition, Topic

if TYPE_CHECKING:
    from delayline.encryption.data_key import DataKey

_log = structlog.get_logger("queue")

AUDITED = "reconcile.json"

DISK_FREE_MIN_BYTES = 512 << 20
"""Kept free for the commits of workers, and for the 256 MiB of write-ahead log and a compaction beside it."""


class Closable(Protocol):
    def close(self) -> None: ...


@contextmanager
def closing_on_error(held: Closable) -> Iterator[None]:
    """Let go of `held` where opening what needs it fails."""
    try:
        yield
    except BaseException:
        held.close()
        raise


class EmbeddedQueue(LocalQueue):
    """A queue in a folder, for one process. Durable and exactly-once on one machine, and no broker for others.

    What has been delivered into topics, and what is in the audit and dead-letter topics, is kept for ever, but
    for what `retention.py` deletes. Buffer topics are trimmed by the worker. How far the reconcile job has
    read them is in `reconcile.json` beside the folder.
    """

    def __init__(
        self,
        folder: Folder,
        log: RocksLog,
        names: Names,
        clock: Clock,
        limits: LocalLimits,
        second_mark: Path | None = None,
    ) -> None:
        """Takes over `folder` and `log`, failing or not. Raises as `open` does."""
        self._folder = folder
        self._log = log
        self.given_up = False
        """Whether this opening went on without a part of the log: cursors may be earlier ones."""
        self._audited: tuple[tuple[int, int] | None, Positions] = None, Positions()
        ledger = Ledger(names)
        with closing_on_error(log):
            ledger.restore(log.load(), log.last_number())
            marks = [folder.mark] if second_mark is None else [folder.mark, second_mark]
            log.keep_marks(marks, _ends(ledger))
            log.keep_topics(folder.topics_copy)
            folder.note_marked()
        writer = GroupWriter(ledger, log, clock)
        with closing_on_error(log), closing_on_error(writer):
            super().__init__(ledger, log, writer, clock, limits)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        namespace: str,
        clock: Clock,
        partitions: int = 4,
        record_bytes_max: int = RECORD_BYTES_MAX,
        topics_max: int = TOPICS_MAX,
        group_topics_max: int = GROUP_TOPICS_MAX,
        disk_free_min_bytes: int = DISK_FREE_MIN_BYTES,
        free_bytes: Callable[[Path], int] = disk_free_bytes,
        accept_loss: bool = False,
        witness: Witness = lambda ends, vouched: None,
        second_mark: Path | None = None,
        data_key: "DataKey | None" = None,
    ) -> "EmbeddedQueue":
        """Open the queue in `folder`, which is made where it does not exist. `partitions` counts for topics made from
        now on. Below `disk_free_min_bytes` of free disk (as `free_bytes` returns it) clients' appends are refused.
        `accept_loss` goes on where acknowledged records are missing, with what is left. `witness` is shown
        where the buffers end before anything is made, and whether a mark has vouched for the log; it may refuse.
        `second_mark` is where the mark is kept a second time. With a `data_key` what records hold is encrypted.

        Raises QueueDamaged (they are missing), QueueLocked, QueueFormat (also: encrypted with another data key, or
        not), QueueUnavailable (the folder cannot be used), ConfigError (the namespace). Where it raises without
        `accept_loss`, nothing has been changed."""
        names = installation(namespace)
        ours = Folder(folder, namespace, data_key)
        with closing_on_error(ours):
            found = verify(ours, names, second_mark, witness)
            if found.loss is None:
                ours.make()
                if accept_loss:
                    _log.info("there is no loss to accept", folder=str(folder))
            elif accept_loss:
                _refuse_other_namespace(ours, names, found.topics)
                left = go_on(ours, names, found.of_log, second_mark, clock.now_ms())
                witness(buffer_ends(names, left), ours.marked)
            else:
                _refuse(ours, found.loss, found.of_log)
            cipher = None if data_key is None else data_key.cipher(PURPOSE)
            log = RocksLog(ours.log, disk_free_min_bytes, free_bytes, cipher=cipher)
            limits = LocalLimits(partitions, record_bytes_max, topics_max, group_topics_max)
            queue = cls(ours, log, names, clock, limits, second_mark)
            queue.given_up = found.of_log is not None
            return queue

    def _positions(self) -> Positions:
        """Read again where the job has put another file in its place."""
        file = self._folder.path.with_name(AUDITED)
        try:
            found = file.stat()
            version = found.st_ino, found.st_mtime_ns
            if version != self._audited[0]:
                self._audited = version, decode_positions(read_file(file))
        except FileNotFoundError:
            self._audited = None, Positions()
        except OSError as error:
            raise QueueUnavailable(f"{file} cannot be read: {error.strerror}") from error
        return self._audited[1]

    # --- for `retention.py`

    def all_topics(self) -> list[Topic]:
        with self._ledger.lock:
            return list(self._ledger.topics.values())

    def first_since(self, partition: Partition, since_ms: int) -> int:
        """The offset of the first record that was appended at or after `since_ms`, or the partition's end."""
        low, high = self._range(partition)
        while low < high:
            middle = (low + high) // 2
            records = self._storage.read(partition, middle, high, 1, 1)
            if records and records[0].appended_at_ms < since_ms:
                low = records[0].offset + 1
            else:
                high = middle
        return low

    def sizes(self, partition: Partition, since: int) -> Iterator[tuple[int, int, int]]:
        """(append time, offset behind it, bytes) of the entries from `since` on."""
        return self._log.sizes(partition, since)

    def drop_below(self, partition: Partition, low_offset: int) -> int:
        """Give back the room below `low_offset`; how many records that are. Raises QueueUnavailable."""
        self._ledger.check()
        start, _ = self._range(partition)
        if not self._ledger.trim(partition, low_offset):
            return 0
        self._committer.submit(TrimStep(partition, low_offset)).result()
        return low_offset - start

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._folder.close()


def _refuse(ours: Folder, loss: Loss, of_log: Loss | None) -> None:
    """Raises QueueDamaged."""
    details = "; ".join(dict.fromkeys(filter(None, (ours.trouble, str(loss)))))
    raise QueueDamaged(
        f"the queue in {ours.path} is not whole: {details}. Nothing was changed. Put back what is missing; or start "
        f"once with --accept-loss, which goes on with what is left. {would_give_up(ours, of_log)}"
    )


def _refuse_other_namespace(ours: Folder, names: Names, topics: Sequence[StoredTopic]) -> None:
    """Without its settings a log does not show whose it is; but every installation has an audit topic. Raises
    QueueFormat."""
    found = [topic.name for topic in topics]
    if ours.trouble and found and names.audit not in found:
        raise QueueFormat(
            f"{ours.trouble}, and the log in {ours.log} has no topic {names.audit}, but {', '.join(found[:3])}: it "
            f"belongs to another namespace than {names.namespace!r}. Set namespace to what it was."
        )


def _ends(ledger: Ledger) -> dict[LogId, int]:
    parts = (part for topic in ledger.topics.values() for part in topic.partitions)
    return {(part.topic.number, part.number): part.next_offset for part in parts}
