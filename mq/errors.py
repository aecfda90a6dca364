"""What a message queue may answer instead of doing what it was asked.

QueueError
├── QueueUnavailable      not now: nothing was stored, or it is unknown whether; try again later
│   └── QueueClosed       nor later: it is closed, or has failed in a way that only opening it anew can mend
│       └── QueueDamaged  what was acknowledged is missing, or cannot be read: it is not opened
├── TopicUnknown          the topic does not exist and may not be made
│   ├── GroupTopicsBound  it is a consumer group's, and enough were made in this hour
│   └── TooManyTopics     it would be made, and the queue has as many as it may have
├── TopicExists           a topic of this name is there already
├── TopicBusy             messages wait for the topic, so it is not deleted
├── NotDoneHere           this queue does not do that: its own tools do, or nothing
├── PartitionUnknown      the topic has no such partition
├── RecordTooLarge        beyond the queue's record limit; nothing was stored
├── ClaimLost             another process has claimed the same name since; nothing was stored
├── OffsetOutOfRange      a read below the log's start or behind its end: never skipped silently
└── CommitError           a commit that did not take place as asked
    ├── CommitAborted     for certain nothing of it was written; the same batch may be taken again
    ├── CommitUnknown     it, or parts of it, may or may not have been written: read back their cursors (takeover)
    ├── Fenced            another owner has claimed a shard of the batch; nothing was written
    └── DeliveryRefused   for certain nothing was written, and one shard's target is why
QueueLocked, QueueFormat  the embedded queue's folder is in use, or of another format
"""

from collections.abc import Collection
from enum import Enum

from delayline.errors import DelaylineError
from delayline.records.message import Shard


class QueueError(DelaylineError):
    """Base of what a queue may answer."""


class QueueUnavailable(QueueError):
    """Nothing was stored, or it is unknown whether; try again later."""


class QueueClosed(QueueUnavailable):
    """Closed, or failed permanently: no later call can succeed."""


class QueueDamaged(QueueClosed):
    """What was acknowledged is missing from the disk, or cannot be read."""


class TopicUnknown(QueueError):
    """The topic does not exist and may not be made."""


class TooManyTopics(TopicUnknown):
    """It does not exist and would be made, but the queue has as many topics as it may have."""


class TopicExists(QueueError):
    """A topic of this name is there already."""


class TopicBusy(QueueError):
    """Messages wait for the topic, so it is not deleted."""


class NotDoneHere(QueueError):
    """This queue does not do that: its own tools do (topics of brokers), or nothing does (a claim's append to several
    brokers of RocketMQ)."""


class GroupTopicsBound(TopicUnknown):
    """A consumer group's topic is missing, and as many were made in an hour as may be."""


class PartitionUnknown(QueueError):
    """The topic has no such partition."""


class RecordTooLarge(QueueError):
    """Beyond the queue's record limit; nothing was stored."""


class ClaimLost(QueueError):
    """Another process has claimed the same name since: nothing was stored, nor will be under this claim."""


class OffsetOutOfRange(QueueError):
    """A read below the log's start or behind its end."""


class CommitError(QueueError):
    """A commit that did not take place as asked."""

    def concerns(self, _: Shard) -> bool:
        """Whether this shard's part may not have been written. The parts of others have been."""
        return True


class CommitAborted(CommitError):
    """For certain nothing was written; the same batch may be taken again."""


class CommitUnknown(CommitError):
    """The batch may or may not have been written: read the cursors back before anything else. Where `shards` are
    named it is about those alone: the parts of all others have been written."""

    def __init__(self, detail: str, shards: Collection[Shard] | None = None) -> None:
        super().__init__(detail)
        self.shards = shards

    def concerns(self, shard: Shard) -> bool:
        return self.shards is None or shard in self.shards


class Fenced(CommitError):
    """Another owner has claimed `shards`; nothing was written."""

    def __init__(self, shards: list[Shard]) -> None:
        super().__init__(f"fenced: {', '.join('.'.join(shard) for shard in shards)}")
        self.shards = shards


class Refused(Enum):
    """What of a record a topic has not taken."""

    DELIVERY = "its delivery, by the target"
    DEAD_LETTER = "its dead letter, by the topic of dead letters"
    APPEND = "the record that carries it on, by the buffer topic"


class DeliveryRefused(CommitError):
    """Nothing was written, because the target of `shard` refuses: for good where `of_record` (one record of the
    batch is at fault), else until the target is mended. Of that record, `refused` is what cannot be written."""

    def __init__(self, shard: Shard, reason: str, *, of_record: bool, refused: Refused = Refused.DELIVERY) -> None:
        super().__init__(reason)
        self.shard = shard
        self.reason = reason
        self.of_record = of_record
        self.refused = refused


class QueueLocked(QueueError):
    """The embedded queue's folder is in use by another process."""


class QueueFormat(QueueError):
    """The embedded queue's folder is of another format."""
