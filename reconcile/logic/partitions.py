"""How a ledger numbers partitions: positions, cells and Parquet files hold numbers.

On Kafka and on the embedded queue a partition's name is its number. On RocketMQ the name is `<broker>:<queue>`. A
ledger counts the brokers in the order in which it has met them and keeps that list in its manifest, so that a broker
keeps its number when others come; a partition is `broker << 10 | queue`.
"""

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from delayline.buffer.outcome import spread
from delayline.records.message import Shard
from reconcile.errors import CannotJudge

QUEUE_BITS = 10
QUEUES_MAX = 1 << QUEUE_BITS
BROKERS_MAX = 1 << 9
"""A shard has 19 bits of a position (ledger.POSITION_BITS)."""

NUMBER = r"^(0|[1-9][0-9]{0,8})$"
QUEUE = r"^([a-zA-Z0-9_-]{1,100}):(0|[1-9][0-9]{0,2}|10[01][0-9]|102[0-3])$"
"""A queue's name: broker and queue id, below QUEUES_MAX."""


class Partitions(NamedTuple):
    """`brokers` by number; none where names are numbers."""

    brokers: tuple[str, ...] = ()

    def name(self, number: int) -> str:
        """As the queue calls the partition. A number that no broker has stays a number."""
        broker, queue = divmod(number, QUEUES_MAX)
        return f"{self.brokers[broker]}:{queue}" if 0 <= broker < len(self.brokers) else str(number)

    def outward(self, number: int) -> int | str:
        """In reports and plans: a number on Kafka, a name on RocketMQ."""
        return self.name(number) if self.brokers else number

    def number(self, name: str) -> int | None:
        """None for what is no partition here."""
        if not self.brokers:
            return int(name) if re.fullmatch(NUMBER, name) else None
        found = re.fullmatch(QUEUE, name)
        if found is None or found[1] not in self.brokers:
            return None
        return self.brokers.index(found[1]) * QUEUES_MAX + int(found[2])

    def audit_partition(self, topic: str, shard: int, count: int) -> int:
        """The partition of the audit that has the rows of a shard, of the `count` that may have them (`beside`):
        on RocketMQ those of its own broker."""
        first = shard - shard % QUEUES_MAX if self.brokers else 0
        return first + spread(Shard(topic, self.name(shard)), max(count, 1))

    def beside(self, partition: int, audit: Collection[int]) -> int:
        """How many partitions of the audit share their shards with this one."""
        if not self.brokers:
            return len(audit)
        return sum(one // QUEUES_MAX == partition // QUEUES_MAX for one in audit)

    def with_brokers(self, found: Iterable[str]) -> "Partitions":
        """With brokers that the ledger has not met yet behind those that it has. Raises CannotJudge."""
        more = tuple(sorted(set(found) - set(self.brokers)))
        if len(self.brokers) + len(more) > BROKERS_MAX:
            raise CannotJudge(f"a ledger counts {BROKERS_MAX} brokers, and this would be one more: {more[0]}")
        return Partitions(self.brokers + more)


NUMBERS = Partitions()
"""Where names are numbers."""
