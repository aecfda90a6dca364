"""A worker among those of one broker: its session there, and which of the broker's shards it has.

Its thread beats, looks at who is there, and passes events to the worker. It assigns a shard that becomes ours when
the shard's journal shows that it is free; one that becomes another's is revoked, and let go in order when the worker
has released it.

While the broker cannot be reached its shards cannot be taken. They are assigned all the same, among the workers that
are seen with other brokers: a shard that is assigned to a worker stalls there, with the reason.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from threading import Condition
from threading import Event as Flag

from delayline.clock import Clock
from delayline.errors import UnknownFormat
from delayline.process import logs, threads
from delayline.records.message import Shard
from mq.contract import Assigned, Event, Lost, Revoked
from mq.errors import PartitionUnknown, QueueError, QueueUnavailable
from mq.rocketmq.ownership import Holding, Ownership
from mq.rocketmq.retention import RetentionWatch
from mq.rocketmq.session import Session, writer_of
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.shares import share_of
from mq.rocketmq.stamps import Stamps
from rocketmq.client.client import Client
from rocketmq.errors import RocketmqError
from rocketmq.wire.bodies import Queue

BEAT_S = 10.0
LOOK_S = 0.2
"""Between two looks at what has changed, where something is waited for; else a push wakes the thread."""
KEEP_S = 3600.0
LEAVE_S = 10.0

log = logs.get(__name__)


class BrokerMember:
    """Any thread may ask. `notify` gets assignments in the member's thread; it must not block."""

    def __init__(
        self,
        broker: str,
        settings: RocketmqSettings,
        client: Client,
        ownership: Ownership,
        stamps: Stamps,
        retention: RetentionWatch,
        writer: str,
        clock: Clock,
        is_at_work: Callable[[], bool],
        others: Callable[[str], set[str]],
        notify: Callable[[Event], None],
    ) -> None:
        """`is_at_work`: whether the worker still asks for its events. `others` names the workers that are seen with
        brokers other than this one."""
        self.broker = broker
        self._settings = settings
        self._client = client
        self._ownership = ownership
        self._stamps = stamps
        self._retention = retention
        self._writer = writer
        self._clock = clock
        self._is_at_work = is_at_work
        self._others = others
        self._notify = notify
        self._changed = Condition()
        self._look = True
        self._closing = Flag()
        self.session: Session | None = None
        self.writers: set[str] = set()
        """Workers that are seen here."""
        self._trouble = ""
        self._beaten_s = 0.0
        self._rewritten_s: dict[Shard, float] = {}
        self._shards: Mapping[Shard, Queue] = {}  # all there are, with their journals
        self._assigned: set[Shard] = set()
        self._revoked: set[Shard] = set()
        self._thread = threads.lasting(f"rocketmq-member-{broker}", self._run, self._closing)
        self._thread.start()

    # --- from other threads

    def know(self, shards: Mapping[Shard, Queue]) -> None:
        """That the broker has these, with their journals, and no others."""
        with self._changed:
            known, self._shards = self._shards, dict(shards)
            changed = known != self._shards
        if gone := sorted(known.keys() - self._shards.keys()):
            detail = "buffer and journal have no queue for them any more: what waits there waits until they have"
            first = ".".join(gone[0])
            log.warning("shards are gone", broker=self.broker, shards=len(gone), first=first, detail=detail)
        if changed:
            self.look()

    @property
    def shards(self) -> Collection[Shard]:
        """All that the broker has, as far as is known."""
        return self._shards.keys()

    def is_assigned(self, shard: Shard) -> bool:
        with self._changed:
            return shard in self._assigned

    def hold(self, shard: Shard) -> Holding | None:
        """The shard, taken where it has not been; None where it is not assigned. Raises QueueUnavailable,
        UnknownFormat."""
        with self._changed:
            journal = self._shards.get(shard) if shard in self._assigned else None
            session, trouble = self.session, self._trouble
        if journal is None:
            return None
        # Asked each by itself, its shards would hold up those of other brokers for a timeout each.
        if session is None or trouble or not session.is_open:
            raise QueueUnavailable(f"{self.broker} cannot be reached: {trouble or 'the session with it has ended'}")
        return self._ownership.take(shard, journal, session, self.is_assigned)

    def release(self, shard: Shard) -> None:
        """The worker has let go of it."""
        with self._changed:
            self._revoked.discard(shard)
            self._assigned.discard(shard)
        if (holding := self._ownership.holding(shard)) is not None:
            self._ownership.release(holding)
        self.look()

    def look(self) -> None:
        """Something may have changed."""
        with self._changed:
            self._look = True
            self._changed.notify_all()

    def close(self) -> None:
        """Let go of everything, in order, and leave."""
        self._closing.set()
        self.look()
        self._thread.join(LEAVE_S)
        for holding in self._held():
            if holding.is_ours:
                self._ownership.release(holding)
        if self.session is not None:
            self.session.leave()

    def _held(self) -> list[Holding]:
        return [one for one in self._ownership.held().values() if one.journal.broker == self.broker]

    # --- the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            waits = self._turn()
            with self._changed:
                self._changed.wait_for(lambda: self._look, LOOK_S if waits else self._settings.discovery_interval_s)
                self._look = False

    def _turn(self) -> bool:
        """Whether something is waited for."""
        if not self._is_at_work():
            self._give_up()
            return False
        self._notice_end()
        with self._changed:
            gone = self._assigned - self._shards.keys()
        self._lose(gone)
        if not self._shards and self.session is None:
            return False
        try:
            session = self._sessioned()
            members = session.members()
        except (QueueError, RocketmqError) as error:
            self._wait(str(error))
            return True
        self._reached(members)
        waits = self._share(session, members)
        self._keep()
        self._retention.look(self._held())
        return waits or bool(self._revoked)

    def _give_up(self) -> None:
        """The worker hangs, or has stopped asking."""
        if self.session is not None:
            log.warning("the worker has not polled for long: its shards go to others", writer=self._writer)
            self.session.leave()
        self._notice_end()

    def _notice_end(self) -> None:
        """A session that has ended takes its shards with it."""
        if self.session is None or self.session.is_open:
            return
        with self._changed:
            self.session = None
            gone = set(self._assigned)
        self.writers = set()
        self._lose(gone)

    def _lose(self, shards: set[Shard]) -> None:
        if not shards:
            return
        with self._changed:
            self._assigned -= shards
            self._revoked -= shards
        for shard in shards:
            self._ownership.drop(shard)
        self._notify(Lost(tuple(sorted(shards))))

    def _sessioned(self) -> Session:
        """Raises RocketmqError."""
        session = self.session
        if session is None:
            session = Session(self._settings, self._client, self.broker, self._writer, self.look)
            with self._changed:
                self.session = session
            self._beaten_s = self._clock.monotonic_s()
        elif self._clock.monotonic_s() - self._beaten_s > BEAT_S:
            session.beat()
            self._beaten_s = self._clock.monotonic_s()
        return session

    # --- a broker that cannot be reached

    def _wait(self, trouble: str) -> None:
        if not self._trouble:
            log.warning("a broker cannot be reached: its shards wait", broker=self.broker, detail=trouble)
        with self._changed:
            self._trouble = trouble
        self._notice_end()
        if self.session is not None:
            return  # it may only be slow: what is ours stays ours
        wanted = share_of(self._writer, self._others(self.broker) | {self._writer}, self._shards)
        with self._changed:
            assigned = set(self._assigned)
        self._lose(assigned - wanted)
        self._gain(wanted - assigned)

    def _reached(self, members: set[str]) -> None:
        if self._trouble:
            log.info("a broker is there again", broker=self.broker)
        with self._changed:
            self._trouble = ""
        self.writers = {writer_of(session)[0] for session in members}

    # --- shares

    def _share(self, session: Session, members: set[str]) -> bool:
        """Take and give by the members' shares. Whether a shard is waited for."""
        shards = self._shards
        ours = share_of(session.id, members, shards)
        with self._changed:
            held = set(self._assigned)
        wanted = ours - held
        gained = {shard for shard in wanted if self._is_free(shards[shard], session)}
        self._gain(gained)
        with self._changed:
            revoked = tuple(sorted((held & self._assigned) - ours - self._revoked))
            self._revoked.update(revoked)
        if revoked:
            self._notify(Revoked(revoked))
        return len(gained) < len(wanted)

    def _gain(self, shards: set[Shard]) -> None:
        if shards:
            with self._changed:
                self._assigned |= shards
            self._notify(Assigned(tuple(sorted(shards))))

    def _is_free(self, journal: Queue, session: Session) -> bool:
        """Also where its journal cannot be understood or read, or is not there: its owner reports that."""
        try:
            return self._ownership.is_free(journal, session)
        except (UnknownFormat, PartitionUnknown, QueueError) as error:
            log.debug("a journal cannot be read", journal=journal.topic, detail=str(error))
            return True

    def _keep(self) -> None:
        """Cursors are written again before they are old; one of them sooner, so that the broker's clock is known."""
        now_s = self._clock.monotonic_s()
        for holding in self._held():
            if holding.is_ours and (
                now_s - self._rewritten_s.setdefault(holding.shard, now_s) > KEEP_S
                or self._stamps.is_due(self.broker)
            ):
                self._rewritten_s[holding.shard] = now_s
                with suppress(QueueError):  # it may have ended the session: the next turn sees that
                    self._ownership.keep(holding)
