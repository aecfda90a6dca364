"""The Produces of one connection to delay-enabled topics: taken apart, and answered as if they had not been.

    ClientProduce --> one `PartitionBatch` each --> sequencer --> UpstreamProduces to the broker (T parts, probes)
                                                             \\-> writes to buffer topics (`buffer_topics.py`)

The sequencer decides what is sent where, and when; here its outputs are carried out, and their outcomes go
back. Outputs that belong together go to the broker in one request. A Produce is answered when each of its partitions
is.
"""

from collections import deque
from typing import TYPE_CHECKING

from kafkawire.batch.head import Batch as Records
from kafkawire.protocol.errors import CorruptBatch, ErrorCode, PeerError
from kafkawire.protocol.message import RequestHeader, encode
from kafkawire.protocol.messages.produce import ProducedPartition, ProducedTopic, ProduceRequest, ProduceResponse
from kafkawire.protocol.primitives import Buffer
from proxy.kafka.produce.buffer_topics import Unready, Write
from proxy.kafka.produce.inspection import Inspection, Looks
from proxy.kafka.produce.produces import (
    NO_OFFSET,
    ClientProduce,
    PartitionBatch,
    UpstreamProduce,
    acks_towards_target,
    probe,
    refused,
    target_part,
)
from proxy.kafka.produce.quotas import ConnectionQuota
from proxy.kafka.produce.screen import Refusal, Seen, fits, refusal_of
from proxy.kafka.produce.sequencer import (
    Answer,
    Ask,
    AskAnswered,
    AskFailed,
    Batch,
    BufferAnswered,
    Close,
    Event,
    LogRole,
    Output,
    ProbeTarget,
    SendBuffer,
    SendTarget,
    Sequencer,
    TargetAnswered,
)
from proxy.kafka.response_order import Turn
from proxy.kafka.view.rewrite import readdress_endpoints

if TYPE_CHECKING:
    from proxy.kafka.hub import Hub
    from proxy.kafka.produce.upstream import Upstream


class ProduceSplitter:
    """Of one connection."""

    def __init__(self, hub: "Hub", upstream: "Upstream") -> None:
        self._hub = hub
        self._upstream = upstream
        self._sequencer = Sequencer()
        self._open: dict[ClientProduce, None] = {}
        # Of batches that the sequencer has: bounded by what is open.
        self._partitions: dict[Batch, PartitionBatch] = {}
        self._unnamed = hub.unnamed()
        self._quota = ConnectionQuota(hub, upstream)
        self.inspection = Inspection(hub, upstream, self._unnamed, self._inspected)
        self._events: deque[Event] = deque()
        self._shipments: list[UpstreamProduce] = []
        self._closed = False
        self.bytes_held = 0

    @property
    def busy(self) -> bool:
        """Whether a Produce has not been answered yet."""
        return bool(self._open) or self.blocked

    @property
    def blocked(self) -> bool:
        """Whether not even a Produce can be taken up."""
        return self.inspection.is_under_way

    def close(self) -> None:
        self._closed = True
        self.inspection.close()
        self._open.clear()
        self._partitions.clear()
        self._events.clear()

    def concerns(self, request: ProduceRequest) -> bool:
        """Whether the request cannot be relayed as it is. A broker answers null records by hanging up."""
        return any(
            self._hub.settings.is_delay_enabled(topic.name)
            or any(one.records is None for one in topic.partition_data)
            or self._unnamed.pass_by(topic.name, (one.records for one in topic.partition_data))
            for topic in request.topic_data
        )

    def produce(self, turn: Turn, header: RequestHeader, request: ProduceRequest, size: int) -> None:
        """Take a Produce. One that names the same partition twice is refused: it could not be answered."""
        sent = {(topic.name, one.index): one.records for topic in request.topic_data for one in topic.partition_data}
        if len(sent) < sum(len(topic.partition_data) for topic in request.topic_data):
            raise PeerError("a Produce with two batches for one partition")
        answered = turn if request.acks != 0 else None
        if answered is not None:
            self._upstream.join(answered)
        production = ClientProduce(answered, turn, header, request, size, missing=len(sent))
        production.account = self._quota.account()
        self._open[production] = None
        self.bytes_held += size
        self.inspection.begin([PartitionBatch(production, *key, records) for key, records in sent.items()])

    # --- to the sequencer

    def _inspected(self, partitions: list[PartitionBatch], seen: Looks) -> None:
        for partition in partitions:
            if partition in seen:
                self._enter(partition, *seen[partition])
            elif partition.refusal is not None:
                self._result(partition, refused(partition, partition.refusal))
            else:
                assert partition.records is not None, "null is refused"
                self._load(partition, partition.records)
        self._ship()

    def _enter(self, partition: PartitionBatch, records: Records, seen: Seen | None) -> None:
        """A batch goes to the sequencer."""
        delayed = 0
        if seen is not None:
            partition.refusal = seen.refusal
            partition.parts = seen.scan.split(frozenset() if seen.refusal else seen.delayed)
            delayed = len(partition.parts.delayed_at)
            if delayed:
                partition.refusal = self._unfit(partition, seen)
                self._pay(partition)
            elif seen.breached and partition.production.account is not None:
                partition.production.account.note_refused(seen.breached)
        head, request = records.head, partition.production.request
        batch = partition.batch = Batch(
            partition.topic,
            partition.index,
            head.producer_id,
            head.producer_epoch,
            head.base_sequence,
            max(head.record_count, 1),
            delayed,
            request.acks,
            partition.refusal.code if partition.refusal else ErrorCode.NONE,
        )
        self._partitions[batch] = partition
        self._feed(batch)

    def _unfit(self, partition: PartitionBatch, seen: Seen) -> Refusal | None:
        target = self._hub.buffer_topics.target(partition.topic)
        if isinstance(target, Unready):
            return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, target.reason)
        assert partition.parts is not None, "it was split"
        full = self._hub.full(partition.topic, adds=seen.adds, repeats=seen.repeats) if seen.adds else None
        if full is not None:
            return Refusal(ErrorCode.POLICY_VIOLATION, full)
        return fits(seen, partition.parts, target) or self._quota.refusal(partition, seen)

    def _pay(self, partition: PartitionBatch) -> None:
        """Before it is answered, which may be at once."""
        delayed = partition.parts.delayed if partition.parts is not None else None
        if partition.refusal is None and delayed is not None:
            self._quota.pay(partition.production, delayed.head.length)

    # --- what the sequencer wants done

    def _feed(self, event: Event) -> None:
        """An event that an output causes at once waits until the outputs before it are carried out."""
        if self._closed:
            return
        self._events.append(event)
        if len(self._events) > 1:
            return
        while self._events:
            for output in self._sequencer.handle(self._events[0]):
                if not self._closed:
                    self._do(output)
            if self._events:
                self._events.popleft()

    def _feed_and_ship(self, event: Event) -> None:
        if not self._closed:
            self._feed(event)
            self._ship()
            self._upstream.take_up()

    def _do(self, output: Output) -> None:
        partition = self._partitions[output.batch]
        match output:
            case SendTarget(batch, base_sequence):
                self._send_target(partition, batch, base_sequence)
            case ProbeTarget(batch):
                self._load(partition, probe(partition, batch))
            case SendBuffer(batch, base_sequence):
                self._upstream.run(self._write_buffer(batch, self._write(partition, base_sequence)))
            case Ask(batch, side):
                self._upstream.run(self._ask(batch, side))
            case Answer(batch, code, verbatim):
                self._answer(partition, batch, code, verbatim)
            case Close(_, reason):
                self._upstream.close(reason)

    def _send_target(self, partition: PartitionBatch, batch: Batch, base_sequence: int) -> None:
        try:
            records = target_part(partition, base_sequence)
        except CorruptBatch as error:
            partition.result = refused(partition, refusal_of(error))
            self._feed(TargetAnswered(batch, error.code))
        else:
            self._load(partition, records)

    def _write(self, partition: PartitionBatch, base_sequence: int) -> Write:
        delayed = partition.parts.delayed if partition.parts is not None else None
        assert delayed is not None, "it has delayed records"
        records = b"".join(delayed.encode(base_sequence))
        head, header = delayed.head, partition.production.header
        return Write(
            topic=partition.topic,
            partition=partition.index,
            records=records,
            version=header.version,
            transactional_id=partition.production.request.transactional_id if head.is_transactional else None,
            producer_id=head.producer_id,
            epoch=head.producer_epoch,
        )

    async def _write_buffer(self, batch: Batch, write: Write) -> None:
        self._feed_and_ship(BufferAnswered(batch, await self._hub.buffer_topics.append(write)))

    async def _ask(self, batch: Batch, side: LogRole) -> None:
        topic = batch.topic
        if side is LogRole.BUFFER:
            topic = self._hub.settings.names.buffer(topic)
        else:
            self._hub.metrics.recoveries.inc()
        try:
            state = await self._hub.buffer_topics.next_sequence(
                topic, batch.partition, batch.producer_id, batch.epoch
            )
        except PeerError:
            self._feed_and_ship(AskFailed(batch))
        else:
            self._feed_and_ship(AskAnswered(batch, side, state.next_sequence, state.other_epoch))

    # --- to the broker, and back

    def _load(self, partition: PartitionBatch, records: Buffer) -> None:
        if not self._shipments or not self._shipments[-1].takes(partition):
            production = partition.production
            request = ProduceRequest(
                production.request.transactional_id,
                acks_towards_target(production.request),
                production.request.timeout_ms,
            )
            self._shipments.append(UpstreamProduce(production.header, request))
        self._shipments[-1].load(partition, records)

    def _ship(self) -> None:
        shipments, self._shipments = self._shipments, []
        for shipment in shipments:
            if not self._closed:
                self._upstream.ship(shipment)

    def answered(self, shipment: UpstreamProduce, response: ProduceResponse) -> None:
        """The broker's answer. Raises PeerError for one that leaves something out."""
        readdress_endpoints(response, self._hub.view)
        results = {(topic.name, one.index): one for topic in response.responses for one in topic.partition_responses}
        if results.keys() != shipment.partitions.keys():
            raise PeerError("the broker answered other partitions than it was sent")
        for key, partition in shipment.partitions.items():
            production = partition.production
            production.throttle_time_ms = max(production.throttle_time_ms, response.throttle_time_ms)
            production.endpoints = response.node_endpoints or production.endpoints
            self._answered(partition, results[key])
        self._ship()

    def _answered(self, partition: PartitionBatch, result: ProducedPartition) -> None:
        if partition.batch is None:
            self._result(partition, result)
            return
        partition.result = result
        if partition.parts is not None and partition.parts.immediate_at:
            for error in result.record_errors:
                error.batch_index = partition.parts.immediate_at[error.batch_index]
        self._feed(TargetAnswered(partition.batch, result.error_code))

    # --- to the client

    def _answer(self, partition: PartitionBatch, batch: Batch, code: int, verbatim: bool) -> None:
        del self._partitions[batch]
        if verbatim and partition.result is not None:
            result = partition.result
        elif partition.refusal is not None and code == partition.refusal.code:
            result = refused(partition, partition.refusal)
            self._hub.metrics.refused_batches.inc()
        else:
            result = ProducedPartition(partition.index, code, NO_OFFSET)
        if code == ErrorCode.NONE and batch.delayed:
            self._hub.metrics.accepted.labels(partition.topic, "kafka").inc(batch.delayed)
        self._result(partition, result)

    def _result(self, partition: PartitionBatch, result: ProducedPartition) -> None:
        production = partition.production
        production.results[partition.key] = result
        production.missing -= 1
        if production.turn is None and result.error_code != ErrorCode.NONE:
            self._upstream.end(f"error {result.error_code} for a producer that takes no answers")
        if not production.missing and production in self._open:
            self._finish(production)

    def _finish(self, production: ClientProduce) -> None:
        del self._open[production]
        self.bytes_held -= production.size
        self._upstream.release(production.paid)
        if production.turn is None:
            return
        response = ProduceResponse(
            responses=[
                ProducedTopic(topic.name, [production.results[topic.name, one.index] for one in topic.partition_data])
                for topic in production.request.topic_data
            ],
            throttle_time_ms=production.throttle_time_ms,
            node_endpoints=production.endpoints,
        )
        self._upstream.answer(production.turn, encode(response, production.header.version))
