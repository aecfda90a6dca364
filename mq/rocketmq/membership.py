"""Which shards a worker has: sessions with every broker, and what the members of each broker's group share.

Its thread beats, looks for new buffers and at who is there, and tells the worker. A shard that becomes ours is
assigned when its journal shows that it is free; one that becomes another's is revoked, and let go in
order when the worker has released it.
"""

from collections.abc import Callable, Sequence
from threading import Condition
from threading import Event as Flag

from delayline.clock import Clock
from delayline.errors import UnknownFormat
from delayline.process import logs, threads
from delayline.records.message import Shard
from mq.contract import Assigned, Event, Lost, Revoked
from mq.errors import QueueError, QueueUnavailable, TopicUnknown
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.naming import Place, place_of
from mq.rocketmq.ownership import Holding, Ownership
from mq.rocketmq.retention import RetentionWatch
from mq.rocketmq.session import Session
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


class SessionMembership:
    """`tell` hears of assignments in the thread; it must not block."""

    def __init__(
        self,
        settings: RocketmqSettings,
        client: Client,
        cluster: RocketmqCluster,
        ownership: Ownership,
        stamps: Stamps,
        writer: str,
        clock: Clock,
        tell: Callable[[Event], None],
    ) -> None:
        self._settings = settings
        self._client = client
        self._cluster = cluster
        self.ownership = ownership
        self._stamps = stamps
        self._retention = RetentionWatch(cluster, clock)
        self._writer = writer
        self._clock = clock
        self._tell = tell
        self._changed = Condition()
        self._look = True
        self._closing = Flag()
        self.sessions: dict[str, Session] = {}
        self._beaten_s: dict[str, float] = {}
        self._kept_s: dict[Shard, float] = {}
        self._shards: dict[Shard, Queue] = {}  # all there are, with their journals
        self._found_s = float("-inf")
        self._assigned: set[Shard] = set()
        self._revoked: set[Shard] = set()
        self._alive_s = clock.monotonic_s()
        self._thread = threads.lasting("rocketmq-member", self._run, self._closing)
        self._thread.start()

    # --- from the worker's threads

    def alive(self) -> None:
        """The worker is at work. Without this call for `poll_interval_max_s` its shards go to others."""
        self._alive_s = self._clock.monotonic_s()

    @property
    def is_open(self) -> bool:
        """Whether the worker has not left."""
        return not self._closing.is_set()

    def is_assigned(self, shard: Shard) -> bool:
        with self._changed:
            return shard in self._assigned

    def hold(self, shard: Shard) -> Holding | None:
        """The shard, taken where it has not been; None where it is not assigned. Raises QueueUnavailable,
        UnknownFormat."""
        with self._changed:
            journal = self._shards.get(shard) if shard in self._assigned else None
            session = self.sessions.get(journal.broker) if journal is not None else None
        if journal is None:
            return None
        if session is None or not session.is_open:
            raise QueueUnavailable(f"there is no session with {journal.broker} now")
        return self.ownership.take(shard, journal, session, self.is_assigned)

    def release(self, shards: Sequence[Shard]) -> None:
        """The worker has let go of them."""
        for shard in shards:
            with self._changed:
                self._revoked.discard(shard)
                self._assigned.discard(shard)
            if (holding := self.ownership.holding(shard)) is not None:
                self.ownership.release(holding)
        self.look()

    def look(self) -> None:
        """Something may have changed."""
        with self._changed:
            self._look = True
            self._changed.notify_all()

    def look_for_buffers(self) -> None:
        """There is a new buffer topic."""
        self._found_s = float("-inf")
        self.look()

    def close(self) -> None:
        """Let go of everything, in order, and leave."""
        if self._closing.is_set():
            return
        self._closing.set()
        self.look()
        self._thread.join(LEAVE_S)
        for holding in self.ownership.held().values():
            if holding.is_ours:
                self.ownership.release(holding)
        for session in self.sessions.values():
            session.leave()

    # --- the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                waits = self._turn()
            except (QueueError, UnknownFormat) as error:
                log.debug("the shards cannot be shared now", detail=str(error))
                waits = True
            with self._changed:
                self._changed.wait_for(lambda: self._look, LOOK_S if waits else self._settings.discovery_interval_s)
                self._look = False

    def _turn(self) -> bool:
        """Whether something is waited for."""
        if self._clock.monotonic_s() - self._alive_s > self._settings.poll_interval_max_s:
            self._give_up()
            return False
        self._find()
        self._lose_ended()
        waits = False
        for broker in sorted({journal.broker for journal in self._shards.values()}):
            try:
                waits = self._share(self._session(broker)) or waits
            except (QueueError, RocketmqError, UnknownFormat) as error:
                log.debug("the shards of a broker cannot be shared now", broker=broker, detail=str(error))
                waits = True
        self._keep()
        self._retention.look(self.ownership.held().values())
        return waits or bool(self._revoked)

    def _give_up(self) -> None:
        """The worker hangs, or has stopped asking."""
        if self.sessions:
            log.warning("the worker has not polled for long: its shards go to others", writer=self._writer)
        for session in self.sessions.values():
            session.leave()
        self._lose_ended()

    def _find(self) -> None:
        """What buffers there are."""
        if self._clock.monotonic_s() - self._found_s < self._settings.discovery_interval_s:
            return
        started_s = self._clock.monotonic_s()
        names, wire_names = self._settings.names, self._settings.wire_names
        found: dict[Shard, Queue] = {}
        for name in map(wire_names.back, self._cluster.all_wire_names()):
            if (target := names.target(name)) is not None:
                for place in self._places(name):
                    found[Shard(target, place.name)] = place.of(wire_names.journal(target))
        with self._changed:
            gone = self._assigned - found.keys()
            self._shards = found
            self._found_s = max(self._found_s, started_s)
        self._lose(gone)

    def _places(self, buffer: str) -> list[Place]:
        try:
            return self._cluster.describe(buffer).places
        except TopicUnknown:
            return []  # it is only just being made, or was deleted

    def _session(self, broker: str) -> Session:
        """Raises RocketmqError."""
        session = self.sessions.get(broker)
        if session is None:
            topic = next(journal.topic for journal in self._shards.values() if journal.broker == broker)
            session = Session(self._settings, self._client, broker, topic, self._writer, self.look)
            with self._changed:
                self.sessions[broker] = session
            self._beaten_s[broker] = self._clock.monotonic_s()
        elif self._clock.monotonic_s() - self._beaten_s[broker] > BEAT_S:
            session.beat()
            self._beaten_s[broker] = self._clock.monotonic_s()
        return session

    def _lose_ended(self) -> None:
        """A session that has ended takes its shards with it."""
        ended = [broker for broker, session in self.sessions.items() if not session.is_open]
        with self._changed:
            for broker in ended:
                del self.sessions[broker]
            gone = {shard for shard in self._assigned if place_of(shard.partition, shard.topic).broker in ended}
        self._lose(gone)

    def _lose(self, shards: set[Shard]) -> None:
        if not shards:
            return
        with self._changed:
            self._assigned -= shards
            self._revoked -= shards
        for shard in shards:
            self.ownership.drop(shard)
        self._tell(Lost(tuple(sorted(shards))))

    def _share(self, session: Session) -> bool:
        """Take and give what the members' shares say. Whether a shard is waited for."""
        there = {shard: journal for shard, journal in self._shards.items() if journal.broker == session.broker}
        ours = share_of(session.id, session.members(), there)
        with self._changed:
            held = self._assigned & there.keys()
        wanted = ours - held
        gained = tuple(sorted(shard for shard in wanted if self.ownership.is_free(there[shard], session)))
        if gained:
            with self._changed:
                self._assigned.update(gained)
            self._tell(Assigned(gained))
        with self._changed:
            revoked = tuple(sorted((held & self._assigned) - ours - self._revoked))
            self._revoked.update(revoked)
        if revoked:
            self._tell(Revoked(revoked))
        return len(gained) < len(wanted)

    def _keep(self) -> None:
        """Cursors are written again before they are old; one of each broker sooner, so that its clock is known."""
        now_s = self._clock.monotonic_s()
        for shard, holding in self.ownership.held().items():
            if holding.is_ours and (
                now_s - self._kept_s.setdefault(shard, now_s) > KEEP_S or self._stamps.is_due(holding.session.broker)
            ):
                self._kept_s[shard] = now_s
                self.ownership.keep(holding)
