"""RocketmqQueue: what users open."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Event
from weakref import WeakSet

from delayline.buffer.cursor import Cursor
from delayline.clock import Clock
from delayline.errors import UnknownFormat
from delayline.process import logs
from delayline.records.message import Shard
from delayline.schedule.rules import Rules
from mq.broker_clock import BrokerClock
from mq.contract import Append, AppendRequest, Audited, Claim, Handover, LogRecord, Owner, Position, TopicInfo
from mq.each import append_each
from mq.errors import NotDoneHere, QueueClosed, QueueError, QueueUnavailable, TopicUnknown
from mq.group_topic_limit import GroupTopicLimit
from mq.rocketmq.appends import Appends
from mq.rocketmq.batches import Batches
from mq.rocketmq.claim import RocketmqClaim
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.journal import Journals, State
from mq.rocketmq.log_ends import LogEnds
from mq.rocketmq.membership import SessionMembership
from mq.rocketmq.naming import Place, place_of
from mq.rocketmq.own_topics import OwnTopics
from mq.rocketmq.ownership import Holding, Ownership
from mq.rocketmq.parts import PartSender
from mq.rocketmq.rows import LaterRows
from mq.rocketmq.session import writer_of
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.sink import RocketmqSink
from mq.rocketmq.source import RocketmqSource
from mq.rocketmq.stamps import Stamps
from rocketmq.client.broker import Sent
from rocketmq.client.client import Client
from rocketmq.wire.bodies import Queue
from rocketmq.wire.codes import Answer

WAIT_SLICE_S = 5.0
"""Of a wait for several queues: a pull that is not needed any more waits at its broker for so long."""

OWNERS_S = 2.0
"""For a broker's answer about its shards."""
BROKERS_ASKED_MAX = 16
"""At once."""

log = logs.get(__name__)


class RocketmqQueue:
    """Client and Admin, and the maker of Sources and Sinks, on a RocketMQ cluster. Any thread may call it."""

    def __init__(self, settings: RocketmqSettings, clock: Clock) -> None:
        """Sends no request yet."""
        self._settings = settings
        self._names = settings.names
        self._wire_names = settings.wire_names
        self._clock = clock
        self._closing = Event()
        self._client = Client(settings.client())
        requests = self._client.broker
        self._cluster = RocketmqCluster(settings, self._client, clock)
        self._own_topics = OwnTopics(settings, self._cluster, self._client, clock, self._closing.wait)
        self._journals = Journals(self._cluster, requests)
        self._broker_clock = BrokerClock(clock)
        self._stamps = Stamps(requests, self._broker_clock, clock)
        self._group_topic_limit = GroupTopicLimit(settings.group_topics_max, clock)
        self._ends = LogEnds()
        self._appends = Appends(settings, self._cluster, requests, clock, self._ends)
        self._asking = ThreadPoolExecutor(BROKERS_ASKED_MAX, thread_name_prefix="rocketmq-owners")
        self.members: WeakSet[SessionMembership] = WeakSet()
        self._buffered: set[str] = set()  # topics whose buffers this process has asked for; bounded by the topics

    def open_worker(self, writer: str) -> tuple[RocketmqSource, RocketmqSink]:
        """A new member of the worker group, with a share of the shards. Makes this installation's own topics where
        they are missing. Raises QueueUnavailable, and TopicUnknown where topics may not be made."""
        self.ensure_own()
        requests, ownership = self._client.broker, self._ownership()
        source = RocketmqSource(
            self._settings, self._cluster, requests, self._clock, self._broker_clock, self._wait_readable
        )
        member = SessionMembership(
            self._settings,
            self._client,
            self._cluster,
            self._own_topics,
            ownership,
            self._stamps,
            writer,
            self._clock,
            source.notify,
        )
        source.on_poll, source.on_release, source.on_close = member.alive, member.release, member.close
        self.members.add(member)
        sink = self._sink(writer, member.hold, lambda: member.patience_s)
        sink.start()
        return source, sink

    def _ownership(self) -> Ownership:
        requests, noted = self._client.broker, self._noted
        return Ownership(self._settings, self._cluster, self._journals, requests, self._rest, noted, self._clock)

    def _noted(self, sent: Sent, journal: Queue, sent_s: float) -> None:
        """A journal's record was stored; what is stored less safely than its broker is set to is not counted on."""
        if sent.code == Answer.SUCCESS:
            self._ends.stored(journal, sent.answer.queue_offset)
        self._stamps.sent(sent, journal, sent_s)

    def _sink(
        self, writer: str, hold: Callable[[Shard], Holding | None], patience_s: Callable[[], float | None]
    ) -> RocketmqSink:
        batches = Batches(self._settings, self._cluster, self._own_topics, self._group_topic_limit)
        sender = PartSender(self._clock, self._closing.wait, patience_s)
        rows, noted = LaterRows(self._settings, sender, self._clock), self._noted
        return RocketmqSink(writer, self._cluster, batches, hold, self._clock, noted, patience_s, sender, rows)

    def close(self) -> None:
        """Let go. Later calls raise QueueUnavailable; workers are closed by those who opened them."""
        if not self._closing.is_set():
            self._closing.set()
            self._cluster.close()
            self._appends.close()
            self._client.close()
            self._asking.shutdown(cancel_futures=True)

    def _check(self) -> None:
        if self._closing.is_set():
            raise QueueClosed("the queue is closed")

    def _wait_readable(self, broker: str) -> bool:
        return self._cluster.wait_readable(broker, self._settings.request_timeout_s, self._rest)

    def _rest(self, seconds: float) -> None:
        """The whole time. Raises QueueClosed if the queue is closed meanwhile."""
        if self._closing.wait(seconds):
            raise QueueClosed("the queue is closed")

    # --- Client

    def append(self, records: Sequence[Append]) -> "Future[list[Position]]":
        return self._appends.append(records)

    def append_each(self, requests: Sequence[AppendRequest]) -> None:
        append_each(self.append, requests)

    def claim(self, name: str) -> Claim:
        self.ensure_own()
        brokers = self._own_topics.ensure_claim(name)
        steps = self._sink(name, _no_shard, lambda: None)  # each of its steps is one broker's
        return RocketmqClaim(self._settings, name, brokers, self._client, self._cluster, self._ownership(), steps)

    def read(
        self, topic: str, partition: str, offset: int, records_max: int, bytes_max: int = 4 << 20
    ) -> list[LogRecord]:
        self._check()
        return self._cluster.read(self._cluster.queue(topic, partition), offset, records_max, bytes_max)

    def offsets(self, topic: str, partition: str) -> tuple[int, int]:
        self._check()
        return self._cluster.range(self._cluster.queue(topic, partition))

    def wait(self, topic: str, positions: Mapping[str, int], timeout_s: float) -> bool:
        self._check()
        queues = {self._cluster.queue(topic, name): offset for name, offset in positions.items()}
        until_s = self._clock.monotonic_s() + timeout_s
        while True:
            left_s = until_s - self._clock.monotonic_s()
            if self._has_grown(topic, queues, max(0.0, min(left_s, WAIT_SLICE_S))):
                return True
            if left_s <= 0:
                return False

    def _has_grown(self, topic: str, queues: Mapping[Queue, int], wait_s: float) -> bool:
        with self._cluster.translated_errors(f"waiting for {topic}"):
            pulls = {
                self._client.broker.pull_later(queue, offset, messages_max=1, wait_s=wait_s)
                for queue, offset in queues.items()
            }
            until_s = self._clock.monotonic_s() + wait_s + self._settings.request_timeout_s
            while pulls and (left_s := until_s - self._clock.monotonic_s()) > 0:
                done, pulls = wait(pulls, left_s, FIRST_COMPLETED)
                if any(pull.result().messages for pull in done):
                    return True
        return False

    def is_stable(self, topic: str, partition: str, timeout_s: float) -> bool:
        """What is stored can be read a moment later, when its broker has put it into the queue."""
        self.ensure_own()
        queue = self._cluster.queue(topic, partition)
        return self._cluster.wait_readable(queue.broker, timeout_s, self._rest)

    def record_bytes_max(self, topic: str) -> int:
        self._check()
        self._cluster.recall(topic)
        return self._settings.record_bytes_max

    # --- Admin: topics

    def topics(self) -> Sequence[str]:
        self._check()
        system = self._cluster.clusters() | set(self._cluster.masters())
        found = [name for name in self._cluster.all_wire_names() if self._wire_names.is_users(name)]
        return sorted(set(found) - system)

    def topic(self, name: str) -> TopicInfo:
        self._check()
        return self._cluster.describe(name).info

    def ensure_topic(self, name: str) -> TopicInfo:
        """Topics of users are never made here. Raises TopicUnknown."""
        self._check()
        return self._own_topics.target(name).info

    def create_topic(self, name: str, partitions: int | None = None) -> TopicInfo:
        raise NotDoneHere(f"topic {name!r}: topics of users are made with RocketMQ's own tools")

    def delete_topic(self, name: str) -> None:
        raise NotDoneHere(f"topic {name!r}: topics of users are deleted with RocketMQ's own tools")

    def ensure_own(self) -> None:
        self._check()
        self._own_topics.ensure_own()

    def ensure_buffer(self, name: str, rules: Rules) -> TopicInfo:
        self.ensure_own()
        info = self._own_topics.ensure(name, rules)
        if name not in self._buffered:
            self._buffered.add(name)
            for member in list(self.members):
                member.look_for_buffers()
        return info

    def buffer(self, shard: Shard) -> TopicInfo:
        self._check()
        found = self._cluster.recall(self._names.buffer(shard.topic))
        broker = place_of(shard.partition, shard.topic).broker
        return found.info._replace(topic_id=found.identity(broker)) if broker in found.brokers else found.info

    def target_trouble(self, shard: Shard) -> str | None:
        self._check()
        place = place_of(shard.partition, shard.topic)
        held = self._cluster.held(self._wire_names.out(shard.topic)).get(place.broker)
        if held is None or place.queue_id >= held.queues:
            return f"topic {shard.topic!r} has no queue {shard.partition}"
        return None if held.is_writable else f"topic {shard.topic!r} may not be written on {place.broker}"

    def reach(self) -> None:
        self._check()
        self._cluster.reach()

    def trouble(self) -> str | None:
        """None: brokers recover by themselves, or each of their shards reports its trouble."""
        return None

    def identity(self) -> str:
        """Of the audit's topic: it is made once, with the installation."""
        self.ensure_own()
        return self._cluster.recall(self._names.audit).info.topic_id.hex()

    # --- Admin: shards

    def takeover(self, shard: Shard) -> Handover:
        """Where a worker of this process has the shard, it is taken, and what the last owner left half done is
        finished. Elsewhere it is only looked at: raises QueueUnavailable where anything is half done."""
        self._check()
        member = next((one for one in list(self.members) if one.is_assigned(shard)), None)
        held = None if member is None else member.hold(shard)
        if held is not None:
            return Handover(held.last, self.buffer(shard).topic_id, held.session.run, self._is_journal_new(shard))
        state = self._state(shard, self._cluster.buffer_queue(shard))
        if state.step is not None or any(one.is_open for one in list(self.members)):
            raise QueueUnavailable(f"{'.'.join(shard)} is not assigned to a worker of this process")
        return Handover(_cursor(state.cursor), self.buffer(shard).topic_id)

    def _is_journal_new(self, shard: Shard) -> bool:
        """Whether it was made when the buffer held messages: an earlier one was deleted (`OwnTopics`)."""
        journal = self._cluster.remembered(self._wire_names.journal(shard.topic))
        buffer = self._cluster.remembered(self._wire_names.out(self._names.buffer(shard.topic)))
        broker = place_of(shard.partition, shard.topic).broker
        return broker in journal and broker in buffer and journal[broker].sys_flag != buffer[broker].sys_flag

    def _state(self, shard: Shard, queue: Queue) -> State:
        return self._journals.state(queue._replace(topic=self._wire_names.journal(shard.topic)))

    def log_range(self, shard: Shard) -> tuple[int, int]:
        self._check()
        return self._cluster.range(self._cluster.buffer_queue(shard))

    def trim(self, shard: Shard, low_offset: int) -> None:
        """The brokers delete by age alone; what is below is out of this process's sight."""
        self._check()
        self._cluster.trim(self._cluster.buffer_queue(shard), low_offset)

    def read_cursor_unfenced(self, shard: Shard) -> Cursor | None:
        self._check()
        return _cursor(self._state(shard, self._cluster.buffer_queue(shard)).known_cursor)

    def audited(self, shard: Shard) -> Audited | None:
        """Brokers delete by age, whatever the reconcile job has read."""
        self._check()
        self._cluster.buffer_queue(shard)
        return None

    def owners(self) -> Mapping[Shard, Owner]:
        """By the journals: who has claimed a shard last, and not let go of it. Brokers are asked at once; what they
        do not answer soon is left out."""
        self._check()
        of_broker: dict[str, list[tuple[Shard, Queue]]] = defaultdict(list)
        for shard, journal in self._cluster.shards(self._cluster.buffers(), self._cluster.remembered):
            of_broker[journal.broker].append((shard, journal))
        until_s = self._clock.monotonic_s() + OWNERS_S / 2  # what is found by then is in time
        asked = [self._asking.submit(self._owners_of, journals, until_s) for journals in of_broker.values()]
        answered, _ = wait(asked, OWNERS_S)
        return {shard: owner for answer in answered for shard, owner in answer.result().items()}

    def _owners_of(self, journals: Sequence[tuple[Shard, Queue]], until_s: float) -> dict[Shard, Owner]:
        """Of shards of one broker. A journal that cannot be read leaves out its own shard alone."""
        found: dict[Shard, Owner] = {}
        for shard, journal in journals:
            if self._clock.monotonic_s() > until_s:
                break
            try:
                state = self._journals.recall(journal)
            except (QueueError, UnknownFormat) as error:
                log.debug("a shard's owner is not known", shard=".".join(shard), detail=str(error))
                continue
            if not state.released:
                found[shard] = Owner(*writer_of(state.session))
        return found

    def kept_s(self, shard: Shard) -> float | None:
        self._check()
        return self._cluster.kept_s(place_of(shard.partition, shard.topic).broker)

    # --- for an operator

    def masters(self) -> Sequence[str]:
        """Names of the brokers that take writes. Raises QueueUnavailable."""
        self._check()
        return self._cluster.masters()

    def rights_missing(self, topic: str) -> str | None:
        """What brokers answer if this account may not read the topic, or its buffer. Raises QueueError."""
        self._check()
        found = self._cluster.describe(topic)
        queues = [Place(broker, 0).of(found.wire) for broker in found.shape]
        with suppress(TopicUnknown):
            buffer = self._cluster.describe(self._names.buffer(topic))
            queues += [Place(broker, 0).of(buffer.wire) for broker in buffer.shape]
        answers = (self._cluster.read_right_missing(queue) for queue in queues)
        return next((answer for answer in answers if answer is not None), None)

    def broker_settings(self, broker: str) -> Mapping[str, str]:
        """As the broker has them. Raises QueueUnavailable."""
        self._check()
        return self._cluster.configuration(broker)

    def buffer_of(self, topic: str) -> TopicInfo:
        """Raises TopicUnknown, QueueUnavailable."""
        return self.topic(self._names.buffer(topic))

    def oldest_age_s(self, shard: Shard, now_ms: int) -> float:
        """Since the first record that may be pending was stored; 0 where there is none. Raises QueueError."""
        cursor = self.read_cursor_unfenced(shard)
        stored_ms = self.appended_at_ms(shard, 0 if cursor is None else cursor.low_offset)
        return 0.0 if stored_ms is None else (now_ms - stored_ms) / 1000

    def appended_at_ms(self, shard: Shard, offset: int) -> int | None:
        self._check()
        queue = self._cluster.buffer_queue(shard)
        start, end = self._cluster.range(queue)
        records = self._cluster.read(queue, max(start, offset), 1, 1) if offset < end else ()
        return records[0].appended_at_ms if records else None


def _no_shard(_: Shard) -> None:
    """A claim has none."""


def _cursor(data: bytes | None) -> Cursor | None:
    return None if data is None else Cursor.decode(data)
