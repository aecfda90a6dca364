"""What the split handles: a client's Produce, its batch for one partition, and the Produces made of them."""

from dataclasses import dataclass, field

from delayline.access.ledger import Account
from kafkawire.batch.head import header_only, read_batch
from kafkawire.protocol.message import RequestHeader
from kafkawire.protocol.messages.produce import (
    NodeEndpoint,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from kafkawire.protocol.primitives import Buffer
from proxy.kafka.produce.scan import Parts
from proxy.kafka.produce.screen import Refusal
from proxy.kafka.produce.sequencer import Batch
from proxy.kafka.response_order import Turn

NO_OFFSET = -1
"""Kafka's own for "not known": the records of a batch in two logs have no single place."""


@dataclass(slots=True, eq=False)
class ClientProduce:
    """A client's Produce. `turn` is None where it takes no answer."""

    turn: Turn | None
    paid: Turn  # the same, also where it takes no answer
    header: RequestHeader
    request: ProduceRequest
    size: int
    missing: int
    results: dict[tuple[str, int], ProducedPartition] = field(default_factory=dict)
    throttle_time_ms: int = 0
    account: Account | None = None  # None where no quota is for the client
    is_paid: bool = False  # out of its quota
    endpoints: list[NodeEndpoint] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class PartitionBatch:
    """What a Produce has for one partition. `parts` and `batch` only where it goes through the sequencer."""

    production: ClientProduce
    topic: str
    index: int
    records: Buffer | None
    parts: Parts | None = None
    refusal: Refusal | None = None
    denied: Refusal | None = None  # by the broker, before its records are looked at
    batch: Batch | None = None
    result: ProducedPartition | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.index


@dataclass(slots=True, eq=False)
class UpstreamProduce:
    """A Produce of ours on the client's connection."""

    header: RequestHeader
    request: ProduceRequest
    partitions: dict[tuple[str, int], PartitionBatch] = field(default_factory=dict)

    def takes(self, partition: PartitionBatch) -> bool:
        """A request holds one batch of a partition, and one transaction's."""
        production = partition.production
        return (
            partition.key not in self.partitions
            and production.header.version == self.header.version
            and production.request.transactional_id == self.request.transactional_id
            and acks_towards_target(production.request) == self.request.acks
        )

    def load(self, partition: PartitionBatch, records: Buffer) -> None:
        self.partitions[partition.key] = partition
        topics = self.request.topic_data
        if not topics or topics[-1].name != partition.topic:
            topics.append(ProduceTopic(partition.topic))
        topics[-1].partition_data.append(ProducePartition(partition.index, records))


def acks_towards_target(request: ProduceRequest) -> int:
    """The sequencer needs T's word even where the client does not."""
    return request.acks or 1


def target_part(partition: PartitionBatch, base_sequence: int) -> Buffer:
    """The immediate records; what changes nothing is what came."""
    immediate = partition.parts.immediate if partition.parts is not None else None
    assert immediate is not None, "it has immediate records"
    assert partition.records is not None, "a batch was read from it"
    if not immediate.is_rebuilt and base_sequence == immediate.head.base_sequence:
        return partition.records
    return b"".join(immediate.encode(base_sequence))


def probe(partition: PartitionBatch, batch: Batch) -> bytes:
    assert partition.records is not None, "a batch was read from it"
    transactional = read_batch(partition.records).head.is_transactional
    return header_only(batch.producer_id, batch.epoch, max(batch.base_sequence, 0), transactional=transactional)


def refused(partition: PartitionBatch, refusal: Refusal) -> ProducedPartition:
    return ProducedPartition(
        partition.index,
        refusal.code,
        NO_OFFSET,
        record_errors=list(refusal.record_errors),
        error_message=refusal.message,
    )
