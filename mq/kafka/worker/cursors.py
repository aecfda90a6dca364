"""Where the cursors stand, and the takeover of a shard.

A cursor's next offset is the worker group's committed offset, and the whole cursor its commit metadata: base 85 text
and a full stop, because the library writes a NUL behind metadata and may read on behind metadata that lacks one. In
the same transaction the cursor goes to the mirror (`mq.kafka.worker.mirror`), and the newer of the two is believed: a
group's offsets expire when it has had no members for a week, an operator may delete the group, and a coordinator that
was killed may come back without the last minutes of what it had (seen on Kafka 4.3.1, ADR 0015).

The order of a takeover (each step was seen to fail without the others):

    1. who wrote last     a claim carries nothing but the cursor, so even a read that may be outdated names its writer
    2. fence it           unless it is a member of the group: then it has let the shard go in good order. Its open
                          transaction is aborted, a later one refused; but first its last one is finished, where an
                          outage made brokers forget some of its markers (`mq.kafka.data_path.recovery`). A worker of
                          this process is no stranger: what an outage has left open of its own commit it ends itself
    3. read the mirror    as far as no open transaction hides it, which any worker's may that has a row beside. It
                          comes first: a commit that it shows is one that the group has as well
    4. read, stable       while a transaction is open on the offset the answer is refused; never use an outdated one
    5. or the mirror only where the group lacks what the mirror has, or does not become stable, the mirror's end
                          decides, once no transaction hides it; where that names another writer, all begins anew
"""

from base64 import b85decode, b85encode
from contextlib import suppress
from threading import Lock
from typing import Protocol

from confluent_kafka import KafkaException

from delayline.buffer.cursor import Cursor, newest
from delayline.clock import Clock
from delayline.errors import UnknownFormat
from delayline.process import logs
from delayline.records.message import Shard
from mq.contract import Handover, Owner
from mq.errors import QueueUnavailable, TopicUnknown
from mq.kafka.admin.cluster import Cluster, partition_number
from mq.kafka.admin.offsets import GroupOffsets
from mq.kafka.admin.readers import Readers
from mq.kafka.data_path.finishing import Finisher
from mq.kafka.librdkafka import trouble
from mq.kafka.librdkafka.producers import initialised
from mq.kafka.settings import KafkaSettings
from mq.kafka.worker.mirror import Mirror

STABLE_S = 2.0
"""How long a takeover waits for a transaction that is being finished; the caller tries again later."""

MIRROR_ONLY_S = 20.0
"""How long a group that has waited for what is over, by the mirror, is not asked again for what is stable."""

FENCE_S = 0.1
"""The patience with which a dead writer's id is first taken; it doubles up to the timeout of requests."""

WRITERS_MAX = 3
"""Cursors that a takeover may find, each of another writer: a second one where the group had lost commits."""

MARK_KEY = b""
"""Of records in the cursor topic that are no cursor: no shard is called so. They have no value, and are compacted
away."""

log = logs.get(__name__)


def encode_metadata(cursor: Cursor) -> str:
    return b85encode(cursor.encode()).decode() + "."


def decode_metadata(text: str) -> Cursor:
    """Raises UnknownFormat."""
    data, stop, _ = text.partition(".")
    try:
        return Cursor.decode(b85decode(data) if stop else b"")
    except ValueError as error:
        raise UnknownFormat("commit metadata that is not ours") from error


def writer_of(client_id: str) -> str:
    """The worker that a member's client id names, `<writer>` or `<writer>@<address>`, or a cursor's writer:
    `<writer>`, or `<writer>@<number>` where it has given ids up."""
    return client_id.partition("@")[0]


def owner_of(client_id: str) -> Owner:
    """The worker that a member's client id names, and its address."""
    writer, _, address = client_id.partition("@")
    return Owner(writer, address)


class OwnWriter(Protocol):
    """A worker of this process, which may have left a transaction open. A takeover passes it what it has read."""

    def end_abandoned(self, within_s: float) -> None:
        """End what a producer that was given up has left open, once no commit is under way: unless that takes longer
        than `within_s`. 0 in the course of a commit. Raises QueueUnavailable."""

    def finish(self, within_s: float) -> None:
        """Have the last commit's markers written where brokers that were killed have forgotten them, likewise. Raises
        QueueUnavailable."""

    def tenure(self, shard: Shard) -> int | None:
        """Under which it has the shard now; None where it has not. Neither blocks nor raises."""

    def has_read(self, shard: Shard, tenure: int | None, epoch: int) -> None:
        """The shard's cursor was read by a takeover that began under that tenure: no other member could change it
        any more, as long as that lasts. Neither blocks nor raises."""


class Cursors:
    """Any thread may call it."""

    def __init__(
        self,
        settings: KafkaSettings,
        cluster: Cluster,
        readers: Readers,
        clock: Clock,
        finisher: Finisher,
    ) -> None:
        self._finisher = finisher
        self._settings = settings
        self._cluster = cluster
        self._mirror = Mirror(settings, cluster, readers, clock)
        group, timeout_s = settings.group, settings.request_timeout_s
        self._latest = GroupOffsets(settings, group, stable=False, timeout_s=timeout_s, clock=clock)
        self._stable = GroupOffsets(settings, group, stable=True, timeout_s=STABLE_S, clock=clock)
        self._clock = clock
        self._mirror_only_until_s = 0.0
        self._fenced_until_s: dict[str, float] = {}  # writers are new with every process: bounded by their restarts
        self._fencing = Lock()
        self._own: list[OwnWriter] = []  # the open workers of this process

    def add(self, writer: "OwnWriter") -> None:
        """Add a worker of this process. Before a cursor is read, its abandoned transaction is ended: the read would
        otherwise wait until that has timed out."""
        self._own.append(writer)

    def remove(self, writer: "OwnWriter") -> None:
        """That worker is gone: the next owner fences it like any other."""
        self._own.remove(writer)

    def close(self) -> None:
        self._latest.close()
        self._stable.close()

    def prepare(self) -> None:
        """Do beforehand what the first takeover would have to wait for. Raises QueueUnavailable, TopicUnknown."""
        self._mirror.prepare()

    def takeover(self, shard: Shard) -> Handover:
        """See the module docstring. Raises QueueUnavailable, UnknownFormat, TopicUnknown, PartitionUnknown."""
        tenures = [(writer, writer.tenure(shard)) for writer in tuple(self._own)]
        found = self._handover(shard)
        for writer, tenure in tenures:
            writer.has_read(shard, tenure, 0 if found.cursor is None else found.cursor.owner_epoch)
        return found

    def _handover(self, shard: Shard) -> Handover:
        buffer = self._settings.names.buffer(shard.topic)
        info = self._cluster.describe(buffer).info
        number = partition_number(shard.partition, len(info.partitions), buffer)
        seen = newest(self._committed(self._latest, buffer, number), self._mirror.cursor(shard))
        for _ in range(WRITERS_MAX):
            if seen is not None and seen.writer:
                self._fence(seen.writer)
            cursor = self._believed(shard, buffer, number, self._settings.request_timeout_s)
            if newest(cursor, seen) is not cursor:
                raise QueueUnavailable(f"{'.'.join(shard)}: its cursor went back while it was read")
            if cursor is None or (seen is not None and cursor.writer == seen.writer):
                return Handover(cursor, info.topic_id)
            seen = cursor
        raise QueueUnavailable(f"{'.'.join(shard)}: another writer keeps writing its cursor")

    def epoch(self, shard: Shard) -> int:
        """Owner epoch of the shard's cursor, 0 where there is none: for a commit, in the course of it. Raises
        QueueUnavailable, UnknownFormat."""
        cursor = self._believed(shard, self._settings.names.buffer(shard.topic), int(shard.partition), 0.0)
        return 0 if cursor is None else cursor.owner_epoch

    def _believed(self, shard: Shard, buffer: str, partition: int, within_s: float) -> Cursor | None:
        """The cursor that stays unless a new transaction writes one, once nothing is open that is ours to end. The
        worker that has the shard is asked between two of its commits, for which a takeover waits `within_s`: the one
        under way may not have ended yet what the one before it has left open. Raises QueueUnavailable,
        UnknownFormat."""
        own = [(writer, within_s if writer.tenure(shard) is not None else 0.0) for writer in tuple(self._own)]
        for writer, wait_s in own:
            writer.end_abandoned(wait_s)
        try:
            return self._decided(shard, buffer, partition)
        except QueueUnavailable:
            for writer, wait_s in own:
                writer.finish(wait_s)
            return self._decided(shard, buffer, partition)

    def _decided(self, shard: Shard, buffer: str, partition: int) -> Cursor | None:
        """By the group, and else by the end of the mirror: in each transaction of ours records come before offsets,
        so that what the group may be waiting for is there already. Raises QueueUnavailable, UnknownFormat."""
        mirrored = self._mirror.cursor(shard)
        latest = self._committed(self._latest, buffer, partition)
        waited = _covers(latest, mirrored) and self._clock.monotonic_s() >= self._mirror_only_until_s
        if waited:
            with suppress(QueueUnavailable):
                stable = self._committed(self._stable, buffer, partition)
                if _covers(stable, mirrored):
                    return stable
        cursor = self._mirror.cursor(shard, whole=True)
        if cursor is None:  # nobody has claimed the shard yet, or somebody has made the topic anew
            return self._committed(self._stable, buffer, partition)
        if newest(cursor, latest) is not cursor:
            raise QueueUnavailable(f"{'.'.join(shard)}: the group's offset is not stable, and the mirror lacks it")
        if latest is not None:
            log.info("the worker group lacks what the mirror has", topic=shard.topic, shard=shard.partition)
        if waited:
            self._mirror_only_until_s = self._clock.monotonic_s() + MIRROR_ONLY_S
        return cursor

    def read_cursor_unfenced(self, shard: Shard) -> Cursor | None:
        """The shard's cursor as it is or was a moment ago: for readers that take nothing over. Where there is no
        topic of cursors, it is the group's. Raises QueueUnavailable, UnknownFormat, and TopicUnknown where that topic
        is not there and the group has none either."""
        committed = self._committed(self._latest, self._settings.names.buffer(shard.topic), int(shard.partition))
        try:
            return newest(committed, self._mirror.cursor(shard, whole=committed is None))
        except TopicUnknown:
            if committed is None:
                raise
            return committed

    def _committed(self, offsets: GroupOffsets, buffer: str, partition: int) -> Cursor | None:
        """None where the group has no offset, or one without our metadata (an operator has reset it): ask the
        mirror."""
        position = offsets.committed(buffer, partition)
        if position.offset < 0 or not position.metadata:
            return None
        return decode_metadata(position.metadata)

    def _fence(self, writer: str) -> None:
        """Make sure that a writer which is no member any more writes nothing. Raises QueueUnavailable.

        Once for all its shards, and again after a session: a frozen process that was fenced may have woken up,
        joined again under the same name, and died with a transaction open. It was a member for a session at least."""
        with self._fencing:
            now_s = self._clock.monotonic_s()
            if now_s < self._fenced_until_s.get(writer, now_s):
                return
            if writer_of(writer) in map(writer_of, self._cluster.members()):
                return
            if not self._finisher.recover(writer):
                with trouble.translated_errors(f"fencing {writer}"):
                    self._shut_out(writer)
            self._fenced_until_s[writer] = now_s + self._settings.session_timeout_s

    def _shut_out(self, writer: str) -> None:
        """Several new owners may try at once, and a producer whose coordinator is busy with another's request asks
        again half a second later, whatever is set (librdkafka 2.16): a new one is there sooner. Raises
        KafkaException."""
        timeout_s, most_s = FENCE_S, self._settings.request_timeout_s
        while True:
            try:
                initialised(self._settings, writer, timeout_s)
                return
            except KafkaException as error:
                found = trouble.cause(error)
                if timeout_s >= most_s or not (found.retriable() or trouble.local(found)):
                    raise
            timeout_s = min(2 * timeout_s, most_s)


def _covers(found: Cursor | None, mirrored: Cursor | None) -> bool:
    """Whether the group has what the mirror has. A mirror without a cursor proves nothing."""
    if found is None or mirrored is None:
        return False
    return mirrored == found or newest(mirrored, found) is found
