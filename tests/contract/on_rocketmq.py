"""A RocketMQ cluster as the suite sees a queue."""

from delayline.clock import SystemClock
from delayline.names import is_topic_name
from delayline.records.message import Shard
from mq.rocketmq.queue import RocketmqQueue
from mq.rocketmq.session import Session
from mq.rocketmq.settings import RECORD_BYTES_MAX, RocketmqSettings
from rocketmq.client.client import Client
from rocketmq.client.settings import ClientSettings
from tests.brokers.rocketmq import BROKER
from tests.contract import on_brokers
from tests.contract.on_brokers import NAMESPACE, Translation, wrap


class SuiteClaim(on_brokers.SuiteClaim):
    @property
    def session(self) -> Session:
        """With the only broker."""
        found: Session = self._claim.sessions[BROKER]
        return found


class SuiteQueue(on_brokers.SuiteQueue):
    """`partitions` are those of the topics it makes; the limit of a record is the adapter's, for all topics. Rows are
    stored with their commits."""

    def __init__(
        self,
        name_server: str,
        *,
        namespace: str,
        partitions: int = 4,
        record_bytes_max: int = 0,
        rows_every_s: float = 0.0,
    ) -> None:
        names = Translation(f"{BROKER}:")
        self._partitions = partitions
        self._broker = Client(ClientSettings((name_server,)))
        assert namespace == NAMESPACE or not is_topic_name(namespace)
        settings = RocketmqSettings(
            name_servers=name_server,
            namespace=names.namespace if namespace == NAMESPACE else namespace,
            discovery_interval_s=0.2,
            landing_s=0.1,
            rows_every_s=rows_every_s,
            record_bytes_max=len(wrap(b"x" * record_bytes_max)) if record_bytes_max else RECORD_BYTES_MAX,
        )
        super().__init__(RocketmqQueue(settings, SystemClock()), names)

    def _make(self, name: str) -> None:
        self._broker.admin.create_topic(name, BROKER, self._partitions)

    def claim(self, name: str) -> SuiteClaim:
        return SuiteClaim(self._queue.claim(name), self._names)

    def session(self, shard: Shard) -> Session | None:
        """The open one with the shard's broker, where the shard is assigned to the only worker."""
        (member,) = self._queue.members
        found = member.sessions.get(BROKER)
        is_there = found is not None and found.is_open and member.is_assigned(self._names.shard_out(shard))
        return found if is_there else None

    def close(self) -> None:
        super().close()
        self._broker.close()
