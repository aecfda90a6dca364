"""Whether a queue may be opened: the same check for a start and for a scrub. Nothing is changed by it."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from delayline.names import Names
from delayline.records.message import Shard
from mq.embedded.examine import Loss, examine, opened_to_read
from mq.embedded.folder import Folder
from mq.embedded.stored import first_is_encrypted
from mq.embedded.tuning import options
from mq.errors import QueueFormat, QueueUnavailable
from mq.local.ledger import Ledger
from mq.local.storage import StoredTopic


class BufferEnd(NamedTuple):
    """Where the log of a shard's buffer partition ends, and the buffer's identity."""

    topic_id: bytes
    offset: int


Witness = Callable[[Mapping[Shard, BufferEnd], bool], None]


class Verification(NamedTuple):
    """Why the queue is not whole, if it is not; what is missing in its log, as far as that is known; its topics."""

    loss: Loss | None
    of_log: Loss | None
    topics: tuple[StoredTopic, ...]


def verify(ours: Folder, names: Names, second: Path | None, witness: Witness) -> Verification:
    """`witness` is asked about a log that seems whole. Raises what it does, QueueUnavailable, QueueFormat."""
    if ours.trouble:
        _refuse_encrypted(ours)
    found = examine(ours.log, ours.mark, second, marked=ours.marked, copied=ours.copied)
    loss = Loss(ours.trouble) if ours.trouble and found.loss is None else found.loss
    if loss is None:
        witness(buffer_ends(names, found.topics), ours.marked)
    return Verification(loss, found.loss, found.topics)


def _refuse_encrypted(ours: Folder) -> None:
    """Its settings are lost, and with them whether it is encrypted; without a key it would go on with records that
    cannot be read. Raises QueueFormat."""
    if ours.data_key_id or not ours.log.is_dir():
        return
    try:
        with opened_to_read(ours.log, options()) as opened:
            encrypted = first_is_encrypted(opened.db.iter())
    except QueueUnavailable:
        return  # the examination names what is wrong
    if encrypted:
        raise QueueFormat(
            f"{ours.trouble}, and {ours.log} is encrypted: set store.encryption_key. Nothing was changed"
        )


def buffer_ends(names: Names, topics: Iterable[StoredTopic]) -> dict[Shard, BufferEnd]:
    """Where the log of each shard ends."""
    ledger = Ledger(names)
    ledger.restore(topics)
    parts = (part for topic in ledger.topics.values() for part in topic.partitions)
    return {part.shard: BufferEnd(part.topic.topic_id, part.end) for part in parts if part.shard is not None}
