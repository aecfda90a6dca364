"""What a commit writes where: a shard's part as batches, in the rounds in which they are sent.

    round 1, 2 ...   deliveries, one batch a round, so that they keep their order
    then             dead letters, copies of what is purged, and what goes to other partitions
    then             re-appends and decisions
    last             audit rows

A dead letter, or a copy, is stored before the decision that names it, a delivery before the re-append that continues
it, and all of them before their rows: a reader of the audit, and then of the other topics, finds every record that a
row names.

Everything goes to the shard's own broker. A write elsewhere could not be fenced with it, and would wait for another
broker to come back.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from delayline.buffer.outcome import spread
from delayline.errors import MalformedRecord
from delayline.records.message import Shard
from mq.contract import Append, ShardBatch
from mq.errors import CommitAborted, DeliveryRefused, PartitionUnknown, QueueError, Refused, TopicUnknown
from mq.group_topic_limit import GroupTopicLimit
from mq.rocketmq.body import MEMBERS_BYTES_MAX, chunks, to_member
from mq.rocketmq.cluster import RocketmqCluster, TopicOnBrokers
from mq.rocketmq.naming import Place, place_of
from mq.rocketmq.own_topics import OwnTopics
from mq.rocketmq.settings import RocketmqSettings
from rocketmq.errors import InvalidRequest
from rocketmq.wire.batch import BatchMember
from rocketmq.wire.bodies import Queue

_time = itemgetter(1)


class QueueBatch(NamedTuple):
    """Messages for one queue. `decides`: whether they are there is whether the commit took place. `is_rows`: they
    are rows of the audit, which may be stored later."""

    queue: Queue
    members: Sequence[BatchMember]
    born_ms: int | None = None
    decides: bool = False
    is_rows: bool = False


Rounds = list[list[QueueBatch]]


class Batches:
    """One thread at a time. Blocks where a topic has to be looked up, or made."""

    def __init__(
        self,
        settings: RocketmqSettings,
        cluster: RocketmqCluster,
        own_topics: OwnTopics,
        group_topic_limit: GroupTopicLimit,
    ) -> None:
        self._settings = settings
        self._names = settings.names
        self._cluster = cluster
        self._own_topics = own_topics
        self._group_topic_limit = group_topic_limit

    def rounds(self, part: ShardBatch) -> Rounds:
        """Raises DeliveryRefused; CommitAborted where a topic cannot be looked up."""
        try:
            return self._rounds(part)
        except QueueError as error:
            if isinstance(error, DeliveryRefused):
                raise
            raise CommitAborted(str(error)) from error

    def _rounds(self, part: ShardBatch) -> Rounds:
        shard = part.shard
        deliveries = self._deliveries(part)
        rounds: Rounds = [[batch] for batch in deliveries]
        others = self._cross_partition(part)
        if part.dead:
            dead = self._members(shard, part.dead, Refused.DEAD_LETTER)
            others.append((self._own(self._names.dead, shard), dead))
        if part.purged:
            copies = self._members(shard, part.purged, Refused.APPEND)
            others.append((self._own(self._names.purged, shard), copies))
        rounds += _side_by_side(others)
        if part.appends:
            buffer = self._cluster.queue(self._names.buffer(shard.topic), shard.partition)
            rounds += _side_by_side([(buffer, self._members(shard, part.appends, Refused.APPEND))])
        if part.audit:
            audit = self._own(self._names.audit, shard)
            # Behind the others: else a row could be read before the re-append that it announces is stored.
            members = self._members(shard, part.audit, Refused.APPEND)
            rounds += [[QueueBatch(audit, chunk, is_rows=True)] for chunk in chunks(members)]
        return rounds

    def _deliveries(self, part: ShardBatch) -> list[QueueBatch]:
        if not part.deliveries:
            return []
        shard = part.shard
        queue = self._target(shard)
        batches: list[QueueBatch] = []
        for born_ms, run in groupby(part.deliveries, _time):
            members = self._members(shard, [body for body, _ in run], Refused.DELIVERY)
            batches += [QueueBatch(queue, chunk, born_ms) for chunk in chunks(members)]
        batches[0] = batches[0]._replace(decides=True)
        return batches

    def _target(self, shard: Shard) -> Queue:
        """Brokers leave the right to write into a topic to their clients, which see it in the route: so do we. Raises
        DeliveryRefused."""
        try:
            queue, held = self._cluster.queue_held(shard.topic, shard.partition)
        except (TopicUnknown, PartitionUnknown) as error:
            raise DeliveryRefused(shard, str(error), of_record=False) from error
        if not held.is_writable:
            detail = f"topic {shard.topic!r} may not be written on {shard.broker}"
            raise DeliveryRefused(shard, detail, of_record=False)
        return queue

    def _cross_partition(self, part: ShardBatch) -> list[tuple[Queue, list[BatchMember]]]:
        found: dict[Queue, list[BatchMember]] = {}
        for append in part.cross_partition:
            members = self._members(part.shard, [append.body], Refused.DELIVERY)
            found.setdefault(self._cross_partition_queue(part.shard, append), []).extend(members)
        return list(found.items())

    def _cross_partition_queue(self, shard: Shard, append: Append) -> Queue:
        """Raises DeliveryRefused."""
        topic, name, _ = append
        try:
            if topic == self._names.buffer(shard.topic):
                return self._cluster.queue(topic, name)
            return self._in_group(topic, shard, name)
        except PartitionUnknown as error:
            raise DeliveryRefused(shard, str(error), of_record=False) from error
        except TopicUnknown as error:
            raise DeliveryRefused(shard, str(error), of_record=True) from error

    def _in_group(self, topic: str, shard: Shard, name: str) -> Queue:
        """The queue of this name; where the topic has none such on the shard's broker, one there that follows from
        the name. Raises TopicUnknown."""
        found = self._group_topic(topic, shard)
        if not found.brokers[shard.broker].is_writable:
            raise TopicUnknown(f"topic {found.name!r} may not be written on {shard.broker}")
        number = place_of(name, found.name).queue_id % found.brokers[shard.broker].queues
        return Place(shard.broker, number).of(found.wire)

    def _group_topic(self, topic: str, shard: Shard) -> TopicOnBrokers:
        """Made on first use. Raises TopicUnknown."""
        if not self._names.is_group(topic):
            raise TopicUnknown(f"{topic!r} is no topic of a consumer group")
        try:
            found = self._cluster.recall(topic)
            if shard.broker in found.brokers:
                return found
            is_new, trouble = False, TopicUnknown(f"topic {topic!r} has no queues on {shard.broker}")
        except TopicUnknown as error:
            is_new, trouble = True, error
        if not self._settings.topics_create:
            raise trouble
        if is_new:
            self._group_topic_limit.check(topic, shard.topic)
        made = self._own_topics.make_like(topic, shard.topic)
        if is_new:
            self._group_topic_limit.made(shard.topic)
        if shard.broker not in made.brokers:
            raise trouble
        return made

    def _own(self, topic: str, shard: Shard) -> Queue:
        """In audit and dead letters a shard has one queue, on its own broker, so that its rows stay in order. Raises
        TopicUnknown."""
        found = self._cluster.recall(topic)
        if shard.broker not in found.brokers:
            self._own_topics.ensure_own()
            found = self._cluster.describe(topic)
        if shard.broker not in found.brokers:
            raise TopicUnknown(f"topic {topic!r} has no queues on {shard.broker}")
        number = spread(shard, found.brokers[shard.broker].queues)
        return Place(shard.broker, number).of(found.wire)

    def _members(self, shard: Shard, bodies: Sequence[bytes], what: Refused) -> list[BatchMember]:
        """Hot: once per message. Raises DeliveryRefused."""
        try:
            members = list(map(to_member, bodies))
        except (InvalidRequest, MalformedRecord) as error:
            raise DeliveryRefused(shard, str(error), of_record=True, refused=what) from error
        limit = self._settings.record_bytes_max if what is Refused.DELIVERY else MEMBERS_BYTES_MAX
        if (largest := max(map(len, bodies))) > limit:
            reason = f"a record of {largest} bytes, the limit is {limit}"
            raise DeliveryRefused(shard, reason, of_record=True, refused=what)
        return members


def _side_by_side(parts: Sequence[tuple[Queue, Sequence[BatchMember]]]) -> Rounds:
    """Rounds in which each queue has one batch at most."""
    runs = [[QueueBatch(queue, chunk) for chunk in chunks(members)] for queue, members in parts]
    return [[run[number] for run in runs if number < len(run)] for number in range(max(map(len, runs), default=0))]
