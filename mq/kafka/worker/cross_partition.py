"""What a commit writes into other partitions than a shard's own: groups' topics, and the rest of its buffer."""

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException

from delayline.records.message import Shard
from mq.contract import Append, DispatchBatch
from mq.errors import CommitAborted, DeliveryRefused, PartitionUnknown, QueueError, TopicUnknown
from mq.kafka.admin.buffers import Buffers
from mq.kafka.admin.cluster import Cluster, partition_number
from mq.kafka.data_path.sends import Send
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.producers import Failure
from mq.kafka.settings import KafkaSettings

Placed = Mapping[Shard, Sequence[Send]]
"""By the shard whose commit it belongs to."""


class CrossPartitionAppends:
    """One thread at a time. Blocks where a topic has to be looked up, or made."""

    def __init__(self, settings: KafkaSettings, cluster: Cluster, buffers: Buffers) -> None:
        self._names = settings.names
        self._cluster = cluster
        self._buffers = buffers

    def place(self, batch: DispatchBatch) -> Placed:
        """Where everything goes; missing topics of groups have been made. Raises DeliveryRefused, CommitAborted."""
        return {
            part.shard: [self._send(part.shard, append) for append in part.cross_partition]
            for part in batch
            if part.cross_partition
        }

    def _send(self, shard: Shard, append: Append) -> Send:
        topic, name, body = append
        try:
            if topic == self._names.buffer(shard.topic):
                partitions = len(self._cluster.recall(topic).info.partitions)
                return Send(topic, partition_number(name, partitions, topic), body)
            found = self._buffers.ensure_group(topic, shard.topic)
            return Send(topic, int(name) % len(found.info.partitions), body)
        except QueueError as error:
            if isinstance(error, PartitionUnknown):
                raise DeliveryRefused(shard, str(error), of_record=False) from error
            if isinstance(error, TopicUnknown) or _for_good(error):
                raise DeliveryRefused(shard, str(error), of_record=True) from error
            raise CommitAborted(str(error)) from error

    def is_of_record(self, failure: Failure) -> bool:
        """Whether what was refused is at fault, and not the topic. A group's topic that may not be written concerns
        the group's records alone; one that has been deleted is looked up again, and made again, with the next try."""
        topic, error = failure.topic, failure.error
        if self._names.is_group(topic):
            if trouble.no_topic(error):
                self._cluster.forget(topic)
                return False
            return trouble.of_record(error) or trouble.forbidden(error)
        return False

    def trouble(self, sends: Sequence[Send]) -> str | None:
        """Why one of these would be refused, as far as that shows. Raises QueueError."""
        places = dict.fromkeys((send.topic, str(send.partition)) for send in sends)
        return next((seen for place in places if (seen := self._cluster.target_trouble(*place))), None)


def _for_good(error: QueueError) -> bool:
    return isinstance(error.__cause__, KafkaException) and trouble.forbidden(trouble.cause(error.__cause__))
