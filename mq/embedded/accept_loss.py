"""What `--accept-loss` does to a queue's folder, and what it would do."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog

from delayline.names import Names
from delayline.process.links import irregular
from mq.embedded.examine import Loss, look
from mq.embedded.folder import LOST, SETTINGS, Folder, put_aside, translated_errors
from mq.embedded.salvage import dry_run, salvage
from mq.errors import QueueError
from mq.local.storage import StoredTopic

_log = structlog.get_logger("queue")

COUNTED_BYTES_MAX = 1 << 30
"""A log up to this size is read as a whole to show beforehand what would be given up: some seconds. A supervisor may
start a server that is refused again and again."""


def would_give_up(ours: Folder, loss: Loss | None) -> str:
    """One sentence with the figures that the start would log; `loss` is that of the log, if there is one."""
    if loss is None:
        return "That gives up 0 records."
    size = sum(file.lstat().st_size for file in ours.log.iterdir()) if ours.log.is_dir() else 0
    if size > COUNTED_BYTES_MAX:
        return f"How many records that gives up was not counted: the log has {size >> 20} MiB."
    try:
        return f"That gives up {dry_run(ours.log, loss, ours.copied).figures}."
    except (QueueError, OSError) as error:
        return f"How many records that gives up cannot be counted: {error}."


def go_on(
    ours: Folder, names: Names, loss: Loss | None, second_mark: Path | None, at_ms: int
) -> Sequence[StoredTopic]:
    """Accept that this is missing: the topics that are left. Raises QueueUnavailable, QueueFormat."""
    trouble = ours.trouble
    replaced = [path for path in (ours.path / SETTINGS, ours.mark, second_mark) if path is not None]
    with translated_errors(ours.path):
        _keep(replaced, ours.path / f"{LOST}{at_ms}")
        for path in replaced:
            put_aside(path, at_ms)
        put_aside(ours.log, at_ms, folder=True)
        ours.make()
        if loss is None:
            _log.warning("loss accepted", folder=str(ours.path), records=0, detail=trouble)
        else:
            done = salvage(ours.log, loss, at_ms, ours.copied)
            _log.warning(
                "loss accepted", folder=str(ours.path), records=done.records, lost=done.figures, detail=done.detail
            )
    topics = look(ours.log).topics if ours.log.exists() else ()
    _warn_of_lost_cursors(names, topics)
    return topics


def _keep(replaced: Iterable[Path], kept: Path) -> None:
    """Copies of small files that are written anew."""
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in replaced:
        if path.exists() and not irregular(path):
            shutil.copy2(path, kept / path.name)


def _warn_of_lost_cursors(names: Names, topics: Iterable[StoredTopic]) -> None:
    """A shard without a cursor begins with the first record that is there: what was delivered and not yet trimmed
    is delivered again."""
    lacking = [
        f"{topic.name}/{number}"
        for topic in topics
        if names.target(topic.name) is not None
        for number, part in enumerate(topic.partitions)
        if part.cursor is None and part.next_offset > 0
    ]
    if lacking:
        _log.warning(
            "cursors are lost: from these on, messages may be delivered a second time",
            shards=len(lacking),
            examples=lacking[:10],
        )
