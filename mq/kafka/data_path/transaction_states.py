"""What coordinators and partitions answer about transactions, asked over one connection.

A coordinator reports how a transaction has ended (DescribeTransactions), a partition whether it has heard of it
(DescribeProducers, and the distance between its two ends by ListOffsets). `recovery.py` puts the two together.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from kafkawire.client.blocking import Connection
from kafkawire.client.steps import Place, by_topic
from kafkawire.protocol.apis import ApiKey
from kafkawire.protocol.errors import ErrorCode, NotAllowed, PeerError, Unreachable
from kafkawire.protocol.message import Message
from kafkawire.protocol.messages.facts import (
    LATEST,
    ListedPartition,
    ListedTopic,
    ListOffsetsRequest,
    ListOffsetsResponse,
    PartitionOffset,
)
from kafkawire.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionProducers,
    ProducerState,
    ProducersTopic,
)

A = TypeVar("A", bound=Message)

WRITTEN, READABLE = 0, 1
"""Isolation levels of ListOffsets: up to the high watermark, and to the last stable offset."""

VERSIONS = {
    ApiKey.LIST_OFFSETS: (4, 7),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 0),
    ApiKey.WRITE_TXN_MARKERS: (1, 1),
    ApiKey.INIT_PRODUCER_ID: (4, 4),
}
"""Oldest and newest that are spoken. A marker of version 1 may have its records' own epoch, as an operator's has."""

OUTCOMES = {"PrepareCommit": True, "CompleteCommit": True, "PrepareAbort": False, "CompleteAbort": False}
"""States of a transaction that is decided, and whether it was committed (`TransactionState`)."""

UNDER_WAY = frozenset({"Ongoing", "PrepareEpochFence"})

NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

INTERRUPTED = {**OUTCOMES, "PrepareEpochFence": False}

RIGHTS = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Alter on the cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Describe and Write on the transactional id",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Read on the topic",
}
"""What it takes, by the error that reports it."""


class Verdict(NamedTuple):
    """What a transaction has come to. `epoch` is the coordinator's behind it: one more than that of the records where
    every transaction has an epoch of its own (KIP-890), else the same. `places` is where it wrote, None if no broker
    reports it any more. `fenced`: no producer has begun another one with that epoch, nor can."""

    transactional_id: str
    producer_id: int
    epoch: int
    committed: bool
    places: frozenset[Place] | None = None
    fenced: bool = False

    def is_about(self, found: "OpenTransaction") -> bool:
        """For certain: the next transaction's records have another epoch."""
        in_it = found.producer_id == self.producer_id and (self.places is None or found.place in self.places)
        return in_it and (found.epoch == self.epoch - 1 or (self.fenced and found.epoch == self.epoch))

    def may_be_about(self, found: "OpenTransaction") -> bool:
        """Or about one that has begun since."""
        return self._replace(fenced=True).is_about(found)


class OpenTransaction(NamedTuple):
    """A transaction that a partition takes for open."""

    leader: int
    place: Place
    producer_id: int
    epoch: int
    coordinator_epoch: int
    first_offset: int


class Seen(NamedTuple):
    """Open transactions, and the partitions without a leader that could be asked."""

    standing: frozenset[OpenTransaction]
    unseen: frozenset[Place]

    def beside(self, other: "Seen") -> "Seen":
        return Seen(self.standing | other.standing, self.unseen | other.unseen)


class Busy(Unreachable):
    """To take the id has to be tried again: another transaction of it is just ending."""


def answer_of(asked: Connection, request: Message, answer: type[A]) -> A:
    oldest, newest = VERSIONS[request.api]
    return asked.ask(request, asked.version(request.api, newest, oldest), answer)


def log_ends(asked: Connection, places: Iterable[Place], level: int) -> dict[Place, int]:
    """Of partitions that report it. Raises NotAllowed."""
    topics = [
        ListedTopic(topic, [ListedPartition(row, timestamp=LATEST) for row in rows])
        for topic, rows in by_topic(places)
    ]
    answer = answer_of(asked, ListOffsetsRequest(isolation_level=level, topics=topics), ListOffsetsResponse)
    rows = [(topic.name, one) for topic in answer.topics for one in topic.partitions]
    return {(topic, one.partition_index): one.offset for topic, one in rows if _has_answered(topic, one)}


def active_producers(asked: Connection, places: Iterable[Place]) -> dict[Place, list[ProducerState]]:
    """The producers of partitions that report them. Raises NotAllowed."""
    topics = [ProducersTopic(topic, rows) for topic, rows in by_topic(places)]
    answer = answer_of(asked, DescribeProducersRequest(topics), DescribeProducersResponse)
    rows = [(topic.name, one) for topic in answer.topics for one in topic.partitions]
    return {(topic, one.partition_index): one.active_producers for topic, one in rows if _has_answered(topic, one)}


def _has_answered(topic: str, row: PartitionOffset | PartitionProducers) -> bool:
    """Whether a partition has answered what it was asked. Raises NotAllowed."""
    error = error_of(row.error_code, f"looking at {topic}, partition {row.partition_index}")
    if isinstance(error, NotAllowed):
        raise error
    return row.error_code == 0


def error_of(code: int, what: str) -> PeerError:
    """Most of it passes: coordinators load, leaders move."""
    if code in RIGHTS:
        return NotAllowed(f"{what}: we may not (error {code}); it takes {RIGHTS[ErrorCode(code)]}")
    if code == ErrorCode.CONCURRENT_TRANSACTIONS:
        return Busy(f"{what}: the coordinator is at it")
    return Unreachable(f"{what}: error {code}")


def offsets_row(group: str, partitions: int) -> int:
    """The partition that has a group's offsets: Java's hash of its name, without the sign
    (`GroupCoordinatorService.partitionFor`)."""
    hashed = 0
    for unit in struct.unpack(f">{len(group.encode('utf-16-be')) // 2}H", group.encode("utf-16-be")):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return 0 if signed == -(1 << 31) else abs(signed) % partitions
