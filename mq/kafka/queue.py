"""KafkaQueue: what users open."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Event, Thread
from uuid import uuid4
from weakref import WeakSet

from delayline.buffer.cursor import Cursor
from delayline.clock import Clock
from delayline.process import logs, threads
from delayline.records.message import Shard
from delayline.records.record import encode_body
from delayline.schedule.rules import Rules
from kafkawire.client.metadata import Nodes
from kafkawire.client.reader import WireReader
from mq.audited import decode_metadata
from mq.broker_clock import MEASURE_S, BrokerClock
from mq.clock_offset import ClockOffset
from mq.contract import Append, AppendRequest, Audited, Claim, Handover, Owner, Position, TopicInfo
from mq.each import append_each
from mq.errors import NotDoneHere, OffsetOutOfRange, QueueClosed, QueueError, QueueUnavailable, TopicUnknown
from mq.kafka.admin.access import Access
from mq.kafka.admin.buffers import Buffers, Change
from mq.kafka.admin.cluster import Cluster, Described, partition_number
from mq.kafka.admin.limits import Limits
from mq.kafka.admin.offsets import GroupOffsets
from mq.kafka.admin.readers import Readers
from mq.kafka.data_path.producer import WireTransactions
from mq.kafka.data_path.recovery import SWEEP_S, Hanging
from mq.kafka.data_path.spoken import Direct, check_brokers, direct
from mq.kafka.ingress.client import KafkaClient
from mq.kafka.librdkafka.log_throttle import limit
from mq.kafka.settings import LOGGER, KafkaSettings
from mq.kafka.worker.commit_pacing import CommitPacing
from mq.kafka.worker.cross_partition import CrossPartitionAppends
from mq.kafka.worker.cursors import MARK_KEY, Cursors, owner_of
from mq.kafka.worker.membership import Membership
from mq.kafka.worker.sink import KafkaSink
from mq.kafka.worker.source import KafkaSource

LEAVE_S = 15.0
CLOCK_MARKS = 5
"""The first ones take longer, and mean less: connections are made."""

log = logs.get(__name__)


class KafkaQueue:
    """Client and Admin, and the maker of Sources and Sinks, on a Kafka cluster. Any thread may call it."""

    def __init__(self, settings: KafkaSettings, clock: Clock) -> None:
        """Connects to nothing yet. Raises ConfigError for properties that are not spoken, or that the library does
        not take."""
        self.settings = settings
        self._clock = clock
        self.names = settings.names
        self._closing = Event()
        limit(LOGGER)
        self.nodes: list[Nodes] = []  # one of each worker, and of what is beside them
        self._beside = self.direct(f"{settings.namespace}-beside").nodes
        self.cluster = Cluster(settings, clock, self._closing.wait)
        self._buffers = Buffers(settings, self.cluster, clock, self._closing.wait)
        self._readers = Readers(settings, self.cluster, clock)
        self._brokers = BrokerClock(clock)
        self._finisher = Hanging(self._beside, self.names, settings.request_timeout_s, clock, self._closing.wait)
        self._cursors = Cursors(settings, self.cluster, self._readers, clock, self._finisher)
        self._audited = GroupOffsets(
            settings, settings.reconcile_group, stable=False, timeout_s=settings.request_timeout_s, clock=clock
        )
        appending = self.transactions(self.direct(f"{settings.namespace}-append"), self.names.client(str(uuid4())))
        client = KafkaClient(settings, self.cluster, self._readers, clock, self._finisher, appending)
        self._client = client
        self.append, self.read, self.offsets, self.wait = client.append, client.read, client.offsets, client.wait
        self.is_stable, self.record_bytes_max = client.is_stable, client.record_bytes_max
        self.trouble = client.trouble  # brokers recover by themselves, or report it for each partition
        self._members: WeakSet[Membership] = WeakSet()
        self._buffered: set[str] = set()  # topics whose buffers this process has asked for; bounded by the topics
        self._tending: Thread | None = None

    def open_worker(self, writer: str) -> tuple[KafkaSource, KafkaSink]:
        """A new member of the worker group, with a share of the shards. Makes this installation's own topics where
        they are missing. `writer` is the name that its cursors carry and its transactional id; it must be new with
        every start of a process. Raises QueueUnavailable, and TopicUnknown where topics may not be made."""
        self.ensure_own()
        path = self.direct(writer)
        check_brokers(path.nodes)
        settings = self.settings
        reader = WireReader(path.nodes, settings.request_timeout_s, self._clock, settings.set_aside_bytes_max)
        source = KafkaSource(self.settings, self.cluster, writer, self._clock, self._brokers, reader)
        try:
            sink = KafkaSink(
                self.names,
                self.cluster,
                self._cursors,
                CrossPartitionAppends(self.settings, self.cluster, self._buffers),
                source.membership,
                writer,
                self._clock,
                self._brokers,
                partial(self.transactions, path),
                self._finisher,
                CommitPacing(self._clock, self._closing.wait),
            )
        except BaseException:
            source.close()
            raise
        self._members.add(source.membership)
        if self._tending is None:
            self._tending = threads.lasting("kafka-tend", self._tend, self._closing)
            self._tending.start()
            threads.lasting("kafka-clocks", self._compare_clocks, self._closing).start()
            threads.lasting("kafka-hanging", self._sweep, self._closing).start()
        return source, sink

    def direct(self, client_id: str) -> Direct:
        """What a data path of its own is made of. Raises ConfigError."""
        made = direct(self.settings, client_id, self._clock)
        self.nodes.append(made.nodes)
        return made

    def transactions(self, path: Direct, transactional_id: str) -> WireTransactions:
        return WireTransactions(
            self.settings,
            transactional_id,
            path.nodes,
            path.codec,
            Limits(self.cluster),
            self._clock,
            self._closing.wait,
            self._finisher,
        )

    def _tend(self) -> None:
        try:
            self._cursors.prepare()
        except QueueError as error:
            log.debug("takeovers not prepared", detail=str(error))
        while True:
            try:
                self._buffers.tend()
            except QueueError as error:
                log.warning("buffer topics not looked after", detail=str(error))
            if self._closing.wait(self.settings.tend_interval_s):
                return

    def _sweep(self) -> None:
        while not self._closing.wait(SWEEP_S):
            try:
                self._finisher.sweep()
            except QueueUnavailable as error:
                log.debug("not looked for hanging transactions", detail=str(error))

    def _compare_clocks(self) -> None:
        """An idle worker commits nothing, and must all the same know how its clock stands to those of the brokers."""
        while not self._closing.wait(MEASURE_S):
            try:
                leaders = self.cluster.recall(self.names.cursor).leaders
            except QueueError:
                continue  # who cannot be asked stamps nothing, and commits report it anyway
            for row in {leader: row for row, leader in enumerate(leaders)}.values():
                self._compare_clock(row)

    def _compare_clock(self, row: int) -> None:
        topic, sent_s = self.names.cursor, self._clock.monotonic_s()

        def stamped(future: "Future[list[Position]]") -> None:
            if future.exception() is None:
                leader = self.cluster.leader(topic, row)
                self._brokers.measured(leader, future.result()[0].appended_at_ms, sent_s)

        self._client.append([Append(topic, str(row), encode_body(MARK_KEY, None))]).add_done_callback(stamped)

    # --- for operators

    def plan(self, targets: Sequence[str]) -> Sequence[Change]:
        """What is still to be made or changed of this installation's own topics, for delays to these topics."""
        self._check()
        return self._buffers.plan(targets)

    def carry_out(self, targets: Mapping[str, Rules]) -> None:
        """Make it so, for these topics and their rules."""
        self._check()
        self._buffers.tend_own()
        for name, rules in targets.items():
            self._buffers.ensure(name, rules)

    def describe(self, name: str) -> Described:
        """Replicas, leaders and rights of a topic, our own included. Raises TopicUnknown."""
        return self._open_cluster.describe(name)

    def operations(self) -> frozenset[str] | None:
        """What we may do with the cluster itself; None where the brokers do not report it."""
        return self._open_cluster.operations()

    def access(self) -> Access:
        """What brokers report about rights."""
        self._check()
        return Access(self.settings, self.cluster, self._clock, self._closing.wait)

    def check_brokers(self) -> None:
        """Whether they speak what a worker needs. Raises QueueUnavailable."""
        self._check()
        check_brokers(self._beside)

    def measure_clock(self) -> ClockOffset | None:
        """Our clock against the brokers', measured now by marks that mean nothing; None where the cursors' topic is
        not there yet."""
        topic = self.names.cursor
        try:
            leader = self._open_cluster.describe(topic).leaders[0]
        except TopicUnknown:
            return None
        for _ in range(CLOCK_MARKS):
            sent_s = self._clock.monotonic_s()
            (mark,) = self._client.append([Append(topic, "0", encode_body(MARK_KEY, None))]).result(LEAVE_S)
            self._brokers.measured(leader, mark.appended_at_ms, sent_s)
        return self._brokers.offset(leader)

    def close(self) -> None:
        """Let go. Later calls raise QueueUnavailable; workers are closed by their opener."""
        if not self._closing.is_set():
            self._closing.set()
            self._client.close()
            self._cursors.close()
            self._audited.close()
            self._readers.close()
            self._finisher.close()
            for nodes in self.nodes:
                nodes.close()
            if self._tending is not None:
                self._tending.join(LEAVE_S)

    @property
    def _open_cluster(self) -> Cluster:
        """Raises QueueClosed."""
        self._check()
        return self.cluster

    def _check(self) -> None:
        if self._closing.is_set():
            raise QueueClosed("the queue is closed")

    # --- Client: the rest is the client's own

    def append_each(self, requests: Sequence[AppendRequest]) -> None:
        append_each(self.append, requests)

    def claim(self, name: str) -> Claim:
        self._check()
        return self._client.claim(self.names.claim(name))

    # --- Admin

    def topics(self) -> Sequence[str]:
        names = self._open_cluster.names()
        return [name for name in names if not name.startswith("__") and not self.names.is_own(name)]

    def reach(self) -> None:
        self._open_cluster.names()

    def topic(self, name: str) -> TopicInfo:
        return self._open_cluster.describe(name).info

    def ensure_topic(self, name: str) -> TopicInfo:
        """Topics of users are never made on Kafka. Raises TopicUnknown."""
        self._check()
        return self._buffers.target(name).info

    def ensure_own(self) -> None:
        self._check()
        self._buffers.ensure_own()

    def ensure_buffer(self, name: str, rules: Rules) -> TopicInfo:
        self._check()
        info = self._buffers.ensure(name, rules)
        if name not in self._buffered:
            self._buffered.add(name)
            for member in list(self._members):
                member.look_for_buffers()
        return info

    def takeover(self, shard: Shard) -> Handover:
        self._check()
        return self._cursors.takeover(shard)

    def log_range(self, shard: Shard) -> tuple[int, int]:
        return self._open_cluster.log_range(*self._partition(shard))

    def trim(self, shard: Shard, low_offset: int) -> None:
        topic, number = self._partition(shard)
        start, end = self._open_cluster.log_range(topic, number)
        if low_offset > end:
            raise OffsetOutOfRange(f"{'.'.join(shard)}: trim to {low_offset}, behind the log's end")
        if low_offset > start:
            self._open_cluster.trim(topic, number, low_offset)

    def identity(self) -> str:
        return self._open_cluster.cluster_id()

    def read_cursor_unfenced(self, shard: Shard) -> Cursor | None:
        self._partition(shard)
        return self._cursors.read_cursor_unfenced(shard)

    def kept_s(self, shard: Shard) -> float | None:
        return None

    def audited(self, shard: Shard) -> Audited | None:
        position = self._audited.committed(*self._partition(shard))
        if position.offset >= 0:
            return decode_metadata(position.offset, position.metadata or "")
        of_audit = self._audited.committed(self.names.audit, 0)
        if of_audit.offset < 0:
            return None
        return decode_metadata(0, of_audit.metadata or "")  # it has run, and the buffer is newer

    def buffer(self, shard: Shard) -> TopicInfo:
        return self._open_cluster.recall(self.names.buffer(shard.topic)).info

    def target_trouble(self, shard: Shard) -> str | None:
        return self._open_cluster.target_trouble(shard.topic, shard.partition)

    def create_topic(self, name: str, partitions: int | None = None) -> TopicInfo:
        raise NotDoneHere(f"topic {name!r}: topics of users are made with Kafka's own tools")

    def delete_topic(self, name: str) -> None:
        raise NotDoneHere(f"topic {name!r}: topics of users are deleted with Kafka's own tools")

    def owners(self) -> Mapping[Shard, Owner]:
        members = self._open_cluster.assignment()
        return {shard: owner_of(client_id) for client_id, shards in members.items() for shard in shards}

    def appended_at_ms(self, shard: Shard, offset: int) -> int | None:
        topic, number = self._partition(shard)
        start, end = self._open_cluster.log_range(topic, number, readable=True)
        records = self._readers.read(topic, number, max(start, offset), 1, 1) if offset < end else ()
        return records[0].appended_at_ms if records else None

    def _partition(self, shard: Shard) -> tuple[str, int]:
        """Raises TopicUnknown, PartitionUnknown."""
        buffer = self.names.buffer(shard.topic)
        partitions = len(self._open_cluster.recall(buffer).info.partitions)
        return buffer, partition_number(shard.partition, partitions, buffer)
