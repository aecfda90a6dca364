"""Buffer topics as the split needs them: made at the first delayed record, written to, asked about producers.

A topic's buffer is made by the queue's own `Admin.ensure_buffer`, which blocks and therefore runs in a thread.
"""

import asyncio
from collections.abc import Set
from dataclasses import dataclass

from delayline.clock import Clock
from delayline.errors import DelaylineError
from delayline.process import logs
from kafkawire.batch.head import HEAD_BYTES
from kafkawire.protocol.errors import AnswerLost, ErrorCode, PeerError, TopicMissing, Unreachable
from kafkawire.protocol.messages.facts import (
    LATEST,
    EpochPartition,
    EpochTopic,
    ListedPartition,
    ListedTopic,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafkawire.protocol.messages.produce import ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from kafkawire.protocol.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionProducers,
    ProducersTopic,
)
from mq.contract import HEADER_ROOM_BYTES, Admin
from mq.errors import QueueError
from proxy.kafka.produce.coordinators import Coordinators
from proxy.kafka.produce.screen import Target
from proxy.kafka.produce.sequencer import SEQUENCES
from proxy.kafka.settings import ProxySettings
from proxy.kafka.upstream.backend import RAISED, Backend, Leader
from proxy.learned import Learned

FRESH_S = 30.0
"""How long a topic's settings are believed without asking again; those known are used while they are asked for."""

UNREADY_S = 1.0
"""How long a topic that could not be made ready is not tried again."""

ASK_S = 10.0
PAUSE_S = 0.05
PAUSE_MAX_S = 1.0

RECORD_OVERHEAD_BYTES = HEAD_BYTES + 20
"""A batch of one record: its head, and length, attributes, timestamp and offset of the record."""

LIST_OFFSETS_VERSION = 7
EPOCHS_VERSION = 4
EPOCH_OF_CONSUMERS = -1

_MOVED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
_UNSURE = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
_AGAIN = (
    _MOVED
    | _UNSURE
    | {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_LOST_TRACK = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})

TRANSACTION_VERSION_2 = 12
"""From this version of Produce on the leader itself adds the partition to the transaction (KIP-890)."""

log = logs.get(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Delayed records of one batch, as they go to the buffer of `topic`. `transactional_id` only where the batch is
    part of a transaction."""

    topic: str
    partition: int
    records: bytes
    version: int
    transactional_id: str | None
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Unready:
    """There is no buffer for the topic, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Expected:
    """What a log expects next of a producer in an epoch. `next_sequence` is None where it does not know the producer
    in that epoch; `other_epoch` is then the one that it knows it in, or -1."""

    next_sequence: int | None = None
    other_epoch: int = -1


class BufferTopics:
    """One per event loop."""

    def __init__(self, settings: ProxySettings, backend: Backend, admin: Admin, clock: Clock) -> None:
        self._settings = settings
        self._names = settings.names
        self._backend = backend
        self._coordinators = Coordinators(backend)
        self._admin = admin
        self._clock = clock
        self._targets: Learned[Target | Unready] = Learned(self._learn, clock)  # of delay-enabled topics
        self.hidden_ids: set[bytes] = set()

    def close(self) -> None:
        self._targets.close()

    # --- what is known of topics

    @property
    def known(self) -> Set[str]:
        """Topics that `target` knows."""
        return {topic for topic, found, believed in self._targets if believed or isinstance(found, Target)}

    def target(self, topic: str) -> Target | Unready:
        """What was learned. What is old is used once more, while it is learned anew."""
        return self._targets.get(topic)

    async def learn(self, topic: str) -> None:
        """Make the topic's buffer ready, or find out why it is not."""
        await self._targets.learn(topic)

    async def _learn(self, topic: str) -> tuple[Target | Unready, float]:
        try:
            return await self._make_ready(topic), FRESH_S
        except (QueueError, PeerError) as error:
            return _unready(topic, error), UNREADY_S

    async def _make_ready(self, topic: str) -> Target:
        config = await self._backend.topic_config(topic, "max.message.bytes", "cleanup.policy")
        info = await asyncio.to_thread(self._admin.ensure_buffer, topic, self._settings.rules_for(topic))
        self.hidden_ids.add(info.topic_id)
        bytes_max = int(config["max.message.bytes"])
        return Target(
            record_bytes_max=bytes_max - RECORD_OVERHEAD_BYTES - HEADER_ROOM_BYTES,
            batch_bytes_max=bytes_max + HEADER_ROOM_BYTES - HEAD_BYTES,
            compacted="compact" in config["cleanup.policy"],
        )

    # --- writing

    async def append(self, write: Write) -> int | None:
        """The broker's last word, after whatever repetitions; None where the records may have been written. For a
        producer without sequences nothing that may have been written is written again."""
        until_s = self._clock.monotonic_s() + self._settings.append_s
        pause_s = PAUSE_S
        unsure = False
        while True:
            code = await self._attempt(write)
            unsure = unsure or code is None or code in _UNSURE
            if code is not None and code not in _AGAIN:
                return code if code in (ErrorCode.NONE, *_LOST_TRACK) or not unsure else _final(code)
            give_up = self._clock.monotonic_s() + pause_s > until_s
            if give_up or (unsure and write.producer_id < 0):
                return None if unsure else code
            self._backend.forget(self._names.buffer(write.topic))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _attempt(self, write: Write) -> int | None:
        try:
            if write.transactional_id is not None and write.version < TRANSACTION_VERSION_2:
                buffer = self._names.buffer(write.topic)
                added = await self._coordinators.add_partition(
                    write.transactional_id, write.producer_id, write.epoch, buffer, write.partition
                )
                if added:
                    return added
            return await self._produce(write)
        except TopicMissing:
            await self.learn(write.topic)
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        except AnswerLost as error:
            log.warning("a write to a buffer topic is unsure", topic=write.topic, detail=str(error))
            return None
        except RAISED as error:
            log.warning("a buffer topic cannot be written to", topic=write.topic, detail=str(error))
            return ErrorCode.NOT_ENOUGH_REPLICAS

    async def _produce(self, write: Write) -> int:
        buffer = self._names.buffer(write.topic)
        leader = await self._backend.leader(buffer, write.partition)
        request = ProduceRequest(
            transactional_id=write.transactional_id,
            acks=-1,
            timeout_ms=int(self._settings.request_timeout_s * 900),
            topic_data=[ProduceTopic(buffer, [ProducePartition(write.partition, write.records)])],
        )
        answer = await self._backend.ask(leader.node_id, request, write.version, ProduceResponse)
        code = answer.responses[0].partition_responses[0].error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise TopicMissing(buffer)
        return code

    # --- producers' states

    async def next_sequence(self, topic: str, partition: int, producer_id: int, epoch: int) -> Expected:
        """What the log expects of the producer in the epoch, when all that it has is replicated. Raises PeerError."""
        until_s = self._clock.monotonic_s() + ASK_S
        while True:
            try:
                return await self._next_sequence(topic, partition, producer_id, epoch)
            except TopicMissing:
                return Expected()
            except RAISED:
                if self._clock.monotonic_s() > until_s:
                    raise
            self._backend.forget(topic)
            await asyncio.sleep(PAUSE_S)

    async def _next_sequence(self, topic: str, partition: int, producer_id: int, epoch: int) -> Expected:
        leader = await self._backend.leader(topic, partition)
        request = DescribeProducersRequest([ProducersTopic(topic, [partition])])
        answer = await self._backend.ask(leader.node_id, request, 0, DescribeProducersResponse)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise Unreachable(f"producers of {topic}, partition {partition}: error {found.error_code}")
        if leader.replicas > 1:
            await self._replicated(topic, partition, leader)
        return _expected(found, producer_id, epoch)

    async def _replicated(self, topic: str, partition: int, leader: Leader) -> None:
        """Until what the leader has now is on all replicas in sync. Raises Unreachable."""
        end = await self._log_end(topic, partition, leader)
        until_s = self._clock.monotonic_s() + ASK_S
        while await self._high_watermark(topic, partition, leader) < end:
            if self._clock.monotonic_s() > until_s:
                raise Unreachable(f"{topic}, partition {partition} is not replicated")
            await asyncio.sleep(PAUSE_S)

    async def _log_end(self, topic: str, partition: int, leader: Leader) -> int:
        asked = EpochPartition(partition, leader.epoch, leader.epoch)
        request = OffsetForLeaderEpochRequest(EPOCH_OF_CONSUMERS, [EpochTopic(topic, [asked])])
        answer = await self._backend.ask(leader.node_id, request, EPOCHS_VERSION, OffsetForLeaderEpochResponse)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise Unreachable(f"log end of {topic}, partition {partition}: error {found.error_code}")
        return found.end_offset

    async def _high_watermark(self, topic: str, partition: int, leader: Leader) -> int:
        asked = ListedPartition(partition, leader.epoch, LATEST)
        request = ListOffsetsRequest(topics=[ListedTopic(topic, [asked])])
        answer = await self._backend.ask(leader.node_id, request, LIST_OFFSETS_VERSION, ListOffsetsResponse)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise Unreachable(f"offsets of {topic}, partition {partition}: error {found.error_code}")
        return found.offset


def _final(code: int) -> int | None:
    """A definite refusal of a repetition means nothing for the attempts before it."""
    return code if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER else None


def _unready(topic: str, error: DelaylineError) -> Unready:
    log.warning("delayed messages cannot be taken", topic=topic, detail=str(error))
    return Unready(f"delayed messages cannot be taken for {topic} right now: {error}")


def _expected(found: PartitionProducers, producer_id: int, epoch: int) -> Expected:
    for one in found.active_producers:
        if one.producer_id == producer_id and one.producer_epoch == epoch:
            return Expected((one.last_sequence + 1) % SEQUENCES)
        if one.producer_id == producer_id:
            return Expected(other_epoch=one.producer_epoch)
    return Expected()
