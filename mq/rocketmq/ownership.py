"""Takes shards over: claims them, reads back what earlier owners wrote, and finishes a step that a crash cut off.

    1. the journal names the last session; its broker does not list it any more, or it has released the shard
    2. a claim is appended; of several claims of a term the first one in the journal counts
    3. `landing_s` has passed since the last session was known to have ended, unless the shard was released or never
       had an owner: the broker stores what it had read from that session
    4. the journal is read again. The first deliveries of a step that is not done decide. If the target has them, what
       is missing of the rest is written; if not, the step has not happened
    5. `Kept` is appended: nothing is open

A read before the claim and the wait would miss what is stored meanwhile: delivered twice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock

from delayline.buffer.cursor import Cursor
from delayline.clock import Clock
from delayline.errors import UnknownFormat
from delayline.process import logs
from delayline.records.message import Shard
from mq.errors import QueueError, QueueUnavailable
from mq.rocketmq import trouble
from mq.rocketmq.body import has_mark
from mq.rocketmq.cluster import RocketmqCluster
from mq.rocketmq.journal import (
    Claimed,
    Done,
    Journals,
    Kept,
    Record,
    Released,
    ShardStep,
    State,
    Write,
    encode,
    read_messages_between,
)
from mq.rocketmq.session import Session
from mq.rocketmq.settings import RocketmqSettings
from mq.rocketmq.stamps import Stamped
from rocketmq.client.broker import BrokerRequests
from rocketmq.errors import RocketmqError
from rocketmq.wire.bodies import Queue

ENDED_MAX = 10_000
"""Sessions of which it is kept since when they have ended; without it a takeover waits for `landing_s` itself."""

log = logs.get(__name__)


@dataclass
class Holding:
    """A shard that is ours. Hold `lock` while you write for it. Steps have numbers: `number` is the last one's,
    `happened` that of the last one that has happened. `ends`, by queue: an offset from which on the queue
    has none of our messages yet, and when that was known (monotonic seconds). `owed` are rows of steps that have
    happened, not stored yet: the last step is open as long as there are any. Rows were last stored at `rows_s`."""

    shard: Shard
    session: Session
    journal: Queue
    term: int
    cursor: bytes | None
    number: int = 0
    happened: int = 0
    is_recovered: bool = False
    may_land_until_s: float = float("-inf")
    """When requests of the last session have had their time (`landing_s`) to be stored (monotonic seconds)."""
    is_being_taken: bool = True
    ends: dict[Queue, tuple[int, float]] = field(default_factory=dict)
    owed: list[Write] = field(default_factory=list)
    rows_s: float = float("-inf")
    lock: RLock = field(default_factory=RLock)

    @property
    def name(self) -> str:
        """As marks have it."""
        return "/".join(self.shard)

    @property
    def done(self) -> Done:
        """That the last step is complete, if it has happened."""
        # rule done-happened: a step that has not happened would count: its messages would be lost.
        return Done(self.term, self.happened)

    @property
    def last(self) -> Cursor | None:
        """The committed cursor. Raises UnknownFormat."""
        return None if self.cursor is None else Cursor.decode(self.cursor)

    @property
    def is_ours(self) -> bool:
        """Whether the session lasts."""
        return self.session.is_open


class Ownership:
    """Of one worker. Any thread, but `take` one at a time."""

    def __init__(
        self,
        settings: RocketmqSettings,
        cluster: RocketmqCluster,
        journals: Journals,
        reader: BrokerRequests,
        rest: Callable[[float], object],
        stamped: Stamped,
        clock: Clock,
    ) -> None:
        """`rest` waits so many seconds."""
        self._settings = settings
        self._cluster = cluster
        self._journals = journals
        self._reader = reader
        self._rest = rest
        self._stamped = stamped
        self._clock = clock
        self._held: dict[Shard, Holding] = {}
        self._ended_s: dict[str, float] = {}  # since when sessions are known to have ended

    def holding(self, shard: Shard) -> Holding | None:
        """Where it is ours, and the session lasts."""
        found = self._held.get(shard)
        return found if found is not None and found.is_ours else None

    def held(self) -> Mapping[Shard, Holding]:
        return dict(self._held)

    def drop(self, shard: Shard) -> None:
        """It is not ours any more."""
        self._held.pop(shard, None)

    def is_free(self, journal: Queue, session: Session) -> bool:
        """Whether it could be taken now. Raises QueueUnavailable, UnknownFormat."""
        return self._blocks(self._journals.state(journal), session) is None

    def _blocks(self, state: State, session: Session) -> str | None:
        """The session that still has the shard."""
        if state.released or state.session == session.id:
            return None
        if state.session in session.members():
            return state.session
        if len(self._ended_s) >= ENDED_MAX:
            self._ended_s.clear()
        self._ended_s.setdefault(state.session, self._clock.monotonic_s())
        return None

    def _may_land_until_s(self, state: State) -> float:
        """When requests of the last session have had their time to be stored: counted from when its end was known,
        so that a worker's shards do not wait one after the other."""
        if state.released:
            return float("-inf")
        now_s = self._clock.monotonic_s()
        return self._ended_s.get(state.session, now_s) + self._settings.landing_s

    def has_gone_on(self, holding: Holding) -> bool:
        """Whether another session has claimed it since; False where the journal cannot be read."""
        try:
            return self._journals.state(holding.journal).term > holding.term
        except (QueueError, UnknownFormat):
            return False

    # --- taking

    def take(self, shard: Shard, journal: Queue, session: Session, is_wanted: Callable[[Shard], bool]) -> Holding:
        """The shard, with nothing open. `is_wanted`: whether it is still the worker's, asked when it has been taken.
        Raises QueueUnavailable, UnknownFormat."""
        held = self.holding(shard)
        if held is not None and held.session is session:
            with held.lock:
                if self._held.get(shard) is held:  # not released while its lock was waited for
                    if not held.is_recovered:
                        self._recover(held)
                    return held
        state = self._journals.state(journal)
        if (other := self._blocks(state, session)) is not None:
            raise QueueUnavailable(f"{'.'.join(shard)} still belongs to {other}")
        term = state.term + 1
        self.write(session, journal, Claimed(term, session.id))
        holding = self._held[shard] = Holding(
            shard, session, journal, term, None, may_land_until_s=self._may_land_until_s(state)
        )
        try:
            with holding.lock:
                self._recover(holding)
        finally:
            holding.is_being_taken = False
            # rule taken-unwanted: released meanwhile, it would be ours while the session lasts: delivered by none.
            if not is_wanted(shard):
                self.release(holding)
        return holding

    def _recover(self, holding: Holding) -> None:
        """Nothing is open behind it.

        A broker shows what it has stored in the order in which it has stored it, over all queues
        (`ReputMessageService`): when a record of now can be read, all that was stored before can be."""
        # rule answered: what a commit has left open would land behind our reading: sent twice.
        if not holding.session.check_answers():
            raise QueueUnavailable(f"{holding.shard.broker} has not answered yet")
        if (left_s := holding.may_land_until_s - self._clock.monotonic_s()) > 0:
            # rule landing: what its broker had read of the last session would land behind our reading: sent twice.
            self._rest(left_s)
            holding.may_land_until_s = float("-inf")
        # rule barrier: what the last session had stored would not be seen yet: sent twice.
        end = self.write(holding.session, holding.journal, Claimed(holding.term, holding.session.id))
        state = self._journals.state(holding.journal, end)
        # rule first-claim: two sessions that claim at once would both deliver.
        if (state.term, state.session) != (holding.term, holding.session.id):
            self.drop(holding.shard)
            raise QueueUnavailable(f"{'.'.join(holding.shard)} belongs to {state.session} now")
        holding.cursor = state.cursor if state.step is None else self._finish(holding, state.step)
        self.write(holding.session, holding.journal, Kept(holding.term, holding.session.id, holding.cursor))
        holding.owed.clear()
        holding.is_recovered = True

    def _finish(self, holding: Holding, step: ShardStep) -> bytes | None:
        """Carry out the rest of a step that has happened, and of those before it; the cursor that counts now."""
        # rule rows-owed: rows of steps that have happened would be lost with one that has not.
        stored = self._store_missing(holding, step.owed)
        if step.decides is not None and not self._is_written(step.decides):
            log.info(
                "a step that had not happened is left out", topic=holding.shard.topic, shard=holding.shard.partition
            )
            return step.before
        stored += self._store_missing(holding, [write for write in step.writes if write.members is not None])
        log.info("a step was finished", topic=holding.shard.topic, shard=holding.shard.partition, batches=stored)
        return step.cursor

    def _store_missing(self, holding: Holding, writes: Sequence[Write]) -> int:
        """In order; how many were missing."""
        missing = [write for write in writes if not self._is_written(write)]
        for write in missing:
            self._send(holding.session, write)
        return len(missing)

    def _is_written(self, write: Write) -> bool:
        """Whether the batch is in its queue. What was trimmed or expired behind `since` cannot be known: raises
        QueueUnavailable."""
        with self._cluster.translated_errors(f"reading back {write.topic}"):
            end = self._reader.max_offset(write.queue)
        begin = write.since
        while begin < end:
            found = read_messages_between(self._cluster, self._reader, write.queue, begin, min(end, begin + 10_000))
            if any(has_mark(message, write.mark) for message in found):
                return True
            begin += 10_000
        return False

    def _send(self, session: Session, write: Write) -> None:
        with self._cluster.translated_errors(f"finishing a step in {write.topic}"):
            session.send_later(write.queue, write.batch, write.born_ms).result()

    # --- the journal

    def write(self, session: Session, journal: Queue, record: Record) -> int:
        """Append, durably; the offset behind it. Where it is unknown whether, the session ends. Raises
        QueueUnavailable."""
        sent_s = self._clock.monotonic_s()
        try:
            sent = session.requests.send_batch(journal, [encode(record)])
        except RocketmqError as error:
            if not trouble.is_not_stored(error):
                session.end()
            raise QueueUnavailable(f"writing the journal {journal.topic}: {error}") from error
        self._stamped(sent, journal, sent_s)
        return sent.answer.queue_offset + 1

    def release(self, holding: Holding) -> None:
        """Let go, in order. Where that does not succeed the session ends, and with it all that it has. `take` itself
        lets go of a shard that is being taken."""
        if holding.is_being_taken:
            return
        with holding.lock:
            if self._held.get(holding.shard) is not holding:
                return  # another thread has let go of it
            self.drop(holding.shard)
            if not holding.is_ours:
                return
            try:
                if not holding.is_recovered:
                    self._recover(holding)
                self._store_owed(holding)
                self.write(holding.session, holding.journal, Released(holding.term))
            except (QueueError, UnknownFormat) as error:
                log.info("a shard is not released in order", shard=holding.shard.partition, detail=str(error))
                holding.session.end()

    def _store_owed(self, holding: Holding) -> None:
        if holding.owed:
            for write in holding.owed:
                self._send(holding.session, write)
            holding.owed.clear()
            self.write(holding.session, holding.journal, holding.done)

    def keep(self, holding: Holding) -> None:
        """Write the cursor again, so that no broker deletes its only copy for its age."""
        if holding.lock.acquire(blocking=False):
            try:
                if holding.is_ours and holding.is_recovered and not holding.owed:
                    self.write(
                        holding.session, holding.journal, Kept(holding.term, holding.session.id, holding.cursor)
                    )
            finally:
                holding.lock.release()
