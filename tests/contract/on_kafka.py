"""A Kafka cluster as the suite sees a queue."""

from contextlib import closing

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from delayline.clock import SystemClock
from delayline.names import is_topic_name
from delayline.records.message import Shard
from delayline.records.record import encode_varint
from mq.kafka.queue import KafkaQueue
from mq.kafka.settings import KafkaSettings
from tests.contract import on_brokers
from tests.contract.on_brokers import NAMESPACE, Translation, wrap


def batch_bytes(raw_bytes: int) -> int:
    """The size of a batch of one record with a value of `raw_bytes` (Kafka protocol, RecordBatch)."""
    record = 3 + len(wrap(b"x" * raw_bytes))
    return 61 + len(encode_varint(record)) + record


class SuiteQueue(on_brokers.SuiteQueue):
    """`partitions` and `record_bytes_max` are those of the topics it makes."""

    holes = True
    """Every transaction leaves a marker in the logs that it wrote to: offsets have gaps."""

    def __init__(
        self, bootstrap_servers: str, *, namespace: str, partitions: int = 4, record_bytes_max: int = 0
    ) -> None:
        names = Translation()
        self._partitions = partitions
        self._config = {"max.message.bytes": str(batch_bytes(record_bytes_max))} if record_bytes_max else {}
        self._broker = AdminClient({"bootstrap.servers": bootstrap_servers})
        assert namespace == NAMESPACE or not is_topic_name(namespace)
        self._settings = KafkaSettings(
            bootstrap_servers=bootstrap_servers,
            namespace=names.namespace if namespace == NAMESPACE else namespace,
            discovery_interval_s=0.2,
            session_timeout_s=3.0,
        )
        super().__init__(KafkaQueue(self._settings, SystemClock()), names)

    def _make(self, name: str) -> None:
        made = self._broker.create_topics([NewTopic(name, self._partitions, 1, config=self._config)])
        made[name].exception()

    def commit_audited(self, shard: Shard, offset: int, metadata: str) -> None:
        """As the reconcile job commits it."""
        topic, name = self._names.shard_out(shard)
        settings = self._settings
        of_buffer = TopicPartition(settings.names.buffer(topic), int(name), offset, metadata=metadata)
        of_audit = TopicPartition(settings.names.audit, 0, 1, metadata=metadata)
        with closing(Consumer({**settings.reader(), "group.id": settings.reconcile_group})) as consumer:
            consumer.commit(offsets=[of_buffer, of_audit], asynchronous=False)
