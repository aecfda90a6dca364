"""A quiet broker of one node, topics on it, and loads that become readable all at once."""

import random
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from delayline.names import Names
from tests.brokers.kafka import Kafka

PARTITIONS = 8
VALUE_BYTES = 256
ANSWER_S = 30.0
QUEUED = 100_000
"""Records of a load that may be on their way at once."""

LOAD_S = 900.0
"""How long a load may take, and how long a held one may be held: what brokers allow a transaction at most."""

FULL_SPEED = ("-Xmx1g", "-XX:ReservedCodeCacheSize=240m")
"""Behind the test brokers' options, of which the one that cuts their throughput in half is left out."""

Headers = list[tuple[str, str | bytes | None]]


MEMORY = Path("/dev/shm")
"""A file system in memory, where there is one."""

ROOM = 2
"""So much more than the logs take: processes need memory, too."""


@contextmanager
def quiet_broker(log_bytes: float) -> Iterator[str]:
    """The address of a broker that serves nobody else. Where there is room for logs of that size in memory, there
    they stand: on disks that others use as well the same lap takes half or twice as long.
    Raises tests.brokers.distribution.Unavailable."""
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM * log_bytes
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(dir=MEMORY, prefix="delayline-")) if in_memory else None
        kafka = stack.enter_context(closing(Kafka(java_options=FULL_SPEED, folder=Path(folder) if folder else None)))
        kafka.start()
        yield kafka.bootstrap_servers


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace of its own on the broker, and a topic in it."""

    servers: str
    namespace: str
    topic: str

    @classmethod
    def make(cls, servers: str, partitions: int = PARTITIONS) -> "Place":
        """The target topic is stamped by the broker, so that early and late are judged by its clock."""
        tag = uuid4().hex[:8]
        place = cls(servers, f"bench-{tag}", f"orders-{tag}")
        place.make_topic(place.topic, partitions)
        return place

    @property
    def buffer(self) -> str:
        return Names(self.namespace).buffer(self.topic)

    def make_topic(self, name: str, partitions: int = PARTITIONS) -> None:
        admin = self._admin()
        topic = NewTopic(name, partitions, 1, config={"message.timestamp.type": "LogAppendTime"})
        admin.create_topics([topic])[name].result(ANSWER_S)

    def drop(self) -> None:
        """Give the broker's disk and memory back, for the rounds that follow."""
        admin = self._admin()
        marks = (self.namespace, self.topic)
        names = [name for name in admin.list_topics(timeout=ANSWER_S).topics if name.startswith(marks)]
        for future in admin.delete_topics(names).values():
            future.result(ANSWER_S)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers})


def headers(number: int, directive: tuple[str, bytes]) -> Headers:
    """The three headers of the record that the documents speak of: a directive, an id, a trace."""
    return [directive, ("id", b"%016d" % number), ("trace", b"t" * 55)]


def values(count: int = 4096) -> list[bytes]:
    """Values to take turns with, each of its own bytes, the same ones every time."""
    dice = random.Random(7)
    return [dice.randbytes(VALUE_BYTES) for _ in range(count)]


class Load:
    """Records `first`.. for all partitions in turn, in one transaction: none is readable before `release`, then all
    are. The key is the record's number, the directive the same for each or made from the number."""

    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        limit_ms = int(LOAD_S * 1000)
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": f"bench-load-{uuid4().hex[:8]}",
                "transaction.timeout.ms": limit_ms,
                "message.timeout.ms": limit_ms,
                "queue.buffering.max.messages": 2 * QUEUED,
                "linger.ms": 20,
            }
        )
        self._producer.init_transactions(ANSWER_S)
        self._producer.begin_transaction()

    def add(self, numbers: Iterable[int], directives: Sequence[tuple[str, bytes]]) -> None:
        """Raises RuntimeError when the broker does not keep up."""
        made, choices = values(), len(directives)
        for number in numbers:
            if number % QUEUED == QUEUED - 1:
                self._settle()
            self._producer.produce(
                self._topic,
                made[number % len(made)],
                b"%08d" % number,
                number % PARTITIONS,
                headers=headers(number, directives[number % choices]),
            )
        self._settle()

    def _settle(self) -> None:
        if self._producer.flush(LOAD_S):
            raise RuntimeError(f"{self._topic}: the load was not taken within {LOAD_S:.0f} s")

    def release(self) -> None:
        """Everything becomes readable."""
        try:
            self._producer.commit_transaction(ANSWER_S)
        except KafkaException as error:
            raise RuntimeError(f"{self._topic}: the load could not be released") from error
