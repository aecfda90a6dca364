"""The worker: a thin loop around the shards it owns.

One worker is one group member, one index, one committer. A turn of the loop:

    complete  the commit in flight, if it has ended: pass its outcome to each of its shards
    acquire   go on with taking over what was assigned, as far as there are answers (`acquisition.py`)
    dispatch  take what is due from every shard in turn, one batch, committed in the background
    read      records and assignments from the source, until something is due or happens
    answer    questions from other threads

Only three things in it wait for the network: the read, for new records; letting go of shards, for the end of their
commit; and an operator's way out of a stall.

What falls due while a commit is under way joins the next one (group commit), so that the worker is as prompt as the
queue when little is due, and as efficient as large batches when much is.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from delay_service.core.errors import BufferRecreated
from delay_service.core.in_flight import CommitResult
from delay_service.core.pace import Reading
from delay_service.core.shard import Shard
from delay_service.worker.acquisition import Acquisition
from delay_service.worker.batching import Batching
from delay_service.worker.buffer_maintenance import BufferMaintenance
from delay_service.worker.checkpoints import Checkpoints
from delay_service.worker.intake import Intake
from delay_service.worker.lapses import Lapses
from delay_service.worker.narrowing import HalvingObserver, Narrowing
from delay_service.worker.owned import Owned, ShardStatus
from delay_service.worker.questions import Questions
from delay_service.worker.settings import WorkerSettings
from delay_service.worker.shard_maintenance import ShardMaintenance
from delay_service.worker.stalls import OUT_OF_RANGE, Stalls
from delay_service.worker.way_out import Skipper
from delayline.clock import Clock
from delayline.process import logs
from delayline.records.message import Shard as ShardId
from mq.contract import Admin, Assigned, Event, Fetched, Lost, Revoked, ShardBatch, Sink, Source, Unreadable
from mq.errors import CommitError, QueueClosed, QueueUnavailable
from store.index import TimeIndex

T = TypeVar("T")
TIDIED_ONE_IN = 20
"""Of the loop's time, where it has thousands of shards: their status is older then."""
UNREACHABLE = "the queue cannot be reached"
COMMITS_FAIL = "commits fail"
log = logs.get(__name__)


class Observer(HalvingObserver, Protocol):
    """Hears what the worker did; must not raise and must not take long."""

    def finished(self, shard: ShardId, finished: CommitResult) -> None: ...

    def committed(self, seconds: float) -> None: ...


class Worker:
    """See the module docstring. `run` belongs to one thread; `stop`, `call`, `owns` and `statuses` to any."""

    def __init__(
        self,
        source: Source,
        sink: Sink,
        admin: Admin,
        index: TimeIndex,
        clock: Clock,
        settings: WorkerSettings,
        observer: Observer,
        acquirer: Executor | None = None,
        committer: Executor | None = None,
    ) -> None:
        """`acquirer` is where takeovers wait for the queue, `committer` where batches are committed, one after the
        other: a thread of their own each, unless they are named."""
        self._source = source
        self._sink = sink
        self._admin = admin
        self._index = index
        self._clock = clock
        self.settings = settings
        self._observer = observer
        self._owned: dict[ShardId, Owned] = {}
        self._committer = committer or ThreadPoolExecutor(1, thread_name_prefix="commit")
        self.buffer_maintenance = BufferMaintenance(admin, source.wake, clock, settings.hold_max_ms)
        self.stalls = Stalls(clock, settings.stall_max_s)
        self._checkpoints = Checkpoints(settings.checkpoint_interval_s)
        self._intake = Intake(source, self.stalls)
        self._keeper = ShardMaintenance(
            source, index, self.buffer_maintenance, self.stalls, settings.near_bytes_max, settings.clock_skew_max_ms
        )
        self.narrowing = Narrowing(index, self.stalls, clock, observer)
        self._batching = Batching(
            source, index, clock, settings, self.buffer_maintenance, self.stalls, self.narrowing, self._checkpoints
        )
        self.acquisition = Acquisition(
            source,
            admin,
            index,
            self.stalls,
            self._keeper,
            self._checkpoints,
            settings.writer,
            settings.shard_settings_of,
            self._commit,
            self._holds,
            acquirer,
        )
        self._lapses = Lapses(admin, index, clock, source.now_ms, source.wake, acquirer)
        self.way_out = Skipper(
            admin,
            source,
            self.stalls,
            self.narrowing,
            self._commit_alone,
            self.wait_for_commit,
            self.acquisition.finish,
            self.take_over,
            self._dispatch_alone,
        )
        self._in_flight: tuple[Future[None], Sequence[ShardBatch], float] | None = None
        self._questions = Questions(source.wake)
        self._stopping = threading.Event()
        self._reading = Reading(self._now_s)
        self._next_commit_s = 0.0
        self._next_trim_s = 0.0
        self._next_status_s = 0.0
        self._statuses: tuple[ShardStatus, ...] = ()
        self._polled = False
        self._wait_s = 0.0  # of the last read

    # --- from other threads

    def stop(self) -> None:
        """Ask `run` to end cleanly: finish the commit, write the last checkpoint of every shard, let go of it."""
        self._stopping.set()
        self._source.wake()

    def call(self, question: Callable[[], T]) -> "Future[T]":
        """Run `question` in the worker's thread, between two turns."""
        return self._questions.ask(question)

    @property
    def statuses(self) -> tuple[ShardStatus, ...]:
        """The shards as of half a second ago, with thousands of them a few seconds."""
        return self._statuses

    @property
    def joined(self) -> bool:
        """Whether the source has spoken, and how each of its shards stands is known."""
        return self._polled and len(self._statuses) == len(self._owned)

    @property
    def ready(self) -> bool:
        """Whether the source has spoken and every shard it assigned is caught up."""
        return self._polled and all(status.ready for status in self._statuses)

    # --- the loop

    def run(self) -> None:
        """Work until `stop`. An exception that is not the outside's doing ends it: better dead than wrong."""
        while not self._stopping.is_set():
            self.turn()
        self._finish()

    def turn(self) -> None:
        """One turn of the loop; waits at most `poll_wait_max_s`."""
        self._complete_commit()
        self._acquire()
        self.dispatch()
        self.read()
        self._questions.answer()
        self._housekeep()

    def wait_for_commit(self) -> None:
        """Block until no commit is in flight, a claim neither, and its shards know how it ended."""
        while self._in_flight is not None:
            self._in_flight[0].exception()
            self._complete_commit()
        self.acquisition.wait_for_claims()

    def owned(self, shard: ShardId) -> Owned | None:
        """A shard that is this worker's, running or not. Worker's thread only."""
        return self._owned.get(shard)

    def core(self, shard: ShardId) -> Shard | None:
        """The running core of a shard that this worker owns. Worker's thread only."""
        owned = self._owned.get(shard)
        return owned.core if owned else None

    def owns(self, shard: ShardId) -> bool:
        """Whether the shard is assigned to this worker right now. Any thread."""
        return shard in self._owned

    @property
    def writer(self) -> str:
        """The name that its cursors carry, and under which it is known to others."""
        return self.settings.writer

    def _now_s(self) -> float:
        return self._clock.monotonic_s()

    # --- acquire

    def _acquire(self) -> None:
        """Go on with takeovers; those in the commit in flight may have part in it, and wait for its end."""
        now_s = self._now_s()
        committing = {part.shard for part in self._in_flight[1]} if self._in_flight is not None else ()
        self.acquisition.turn(
            [
                owned
                for owned in self._owned.values()
                # rule ask-completed: the cursor might be read before the commit in flight has written it: delivered
                # twice.
                if owned.core is None and owned.ready(now_s) and owned.id not in committing
            ]
        )

    def take_over(self, owned: Owned) -> None:
        # rule take-completed: the shard may have part in the commit in flight: its claim would take that back.
        self.wait_for_commit()  # it may have part in it
        self.acquisition.take_over(owned)

    def _holds(self, owned: Owned) -> bool:
        return self._owned.get(owned.id) is owned

    def _commit(self, batch: Sequence[ShardBatch]) -> "Future[None]":
        return self._committer.submit(self._sink.commit, batch)

    def _commit_alone(self, batch: Sequence[ShardBatch]) -> None:
        self.wait_for_commit()
        self._commit(batch).result()

    # --- dispatch

    def dispatch(self) -> None:
        """Take one batch, in which no shard waits behind a busier one; commit it in the background."""
        # rule lapse: a record that ends what is due would be read behind its delivery.
        self._lapses.look(self._wait_s, self._owned.values())
        now_s = self._now_s()
        if self._in_flight is not None or now_s < self._next_commit_s:
            return
        batch = self._batching.take(list(self._owned.values()))
        if batch:
            future = self._commit(batch)
            self._in_flight = future, batch, now_s
            self._next_commit_s = now_s + self.settings.commit_interval_s
            future.add_done_callback(lambda _: self._source.wake())

    def _dispatch_alone(self, owned: Owned) -> None:
        """Commit one batch of this shard, and wait for the end."""
        self.wait_for_commit()
        if batch := self._batching.take([owned]):
            self._in_flight = self._commit(batch), batch, self._now_s()
            self.wait_for_commit()

    def _complete_commit(self) -> None:
        """Pass the outcome of an ended commit to its shards."""
        if self._in_flight is None or not self._in_flight[0].done():
            return
        future, batch, started_s = self._in_flight
        self._in_flight = None
        now_s = self._now_s()
        self._observer.committed(now_s - started_s)
        try:
            future.result()
        except CommitError as error:
            self._failed([part for part in batch if error.concerns(part.shard)], error)
            self._written([part for part in batch if not error.concerns(part.shard)])
        else:
            self.stalls.well(COMMITS_FAIL)
            self.narrowing.went_well()
            self._written(batch)

    def _written(self, parts: Sequence[ShardBatch]) -> None:
        if parts:
            self.stalls.success()
        for part in parts:
            self._succeeded(self._owned.get(part.shard), part)

    def _succeeded(self, owned: Owned | None, part: ShardBatch) -> None:
        if owned is None or owned.core is None or (taken := owned.core.in_flight) is None:
            return
        core, ends = owned.core, bool(taken.ended)
        finished = core.committed()
        self._observer.finished(owned.id, finished._replace(at_ms=self._source.now_ms(owned.id)))
        delivers = bool(part.deliveries or part.cross_partition)
        self.stalls.dead_lettered(owned)
        self.narrowing.succeeded(owned, core, ends=ends, delivers=delivers)
        if delivers or (owned.progress.refused_since_s is None and owned.bounds.suspect is None):
            self.stalls.recover(owned)

    def _failed(self, batch: Sequence[ShardBatch], error: CommitError) -> None:
        for owned in [self._owned[part.shard] for part in batch if part.shard in self._owned]:
            if owned.core is not None and owned.core.in_flight is not None:
                self.narrowing.failed(owned, owned.core, batch, error)
        self.stalls.trouble(COMMITS_FAIL, f"{type(error).__name__}: {error}")

    # --- read

    def read(self) -> None:
        self._wait_s = self.wait_s()
        try:
            events = self._source.poll(self._reading.bound(self.settings.poll_records_max), self._wait_s)
        except QueueClosed:
            raise
        except QueueUnavailable as error:
            self.stalls.trouble(UNREACHABLE, str(error))
            self._stopping.wait(self.settings.poll_wait_max_s)
            return
        self.stalls.well(UNREACHABLE)
        self._polled = True
        self._reading.take_in(events, self._handle)

    def wait_s(self) -> float:
        """Until something is due, a retry is, or the longest wait."""
        wait_s, now_s = self.settings.poll_wait_max_s, self._now_s()
        if self.acquisition.is_pressing:
            return 0.0
        if self._in_flight is not None:
            return wait_s
        if now_s < self._next_commit_s:
            return self._next_commit_s - now_s
        for owned in self._owned.values():
            # rule idle-takeover: a shard that waits would turn the loop without a pause.
            if owned.core is None and self.acquisition.is_under_way:
                continue  # woken when that can go on
            if owned.core is None or not owned.ready(now_s):
                wait_s = min(wait_s, max(0.0, owned.progress.retry_at_s - now_s))
            elif owned.held:
                continue  # it ends with an event, or is looked at with the status
            elif owned.core.caught_up and (next_due_ms := self._index.shard(owned.id).next_due_ms()) is not None:
                due_s = (next_due_ms - self._source.now_ms(owned.id)) / 1000
                wait_s = min(wait_s, max(due_s, self._batching.rates.wait_s(owned)))
        return wait_s

    def _handle(self, event: Event) -> None:
        match event:
            case Fetched() | Unreadable():
                owned = self._owned.get(event.shard)
                if owned is not None and owned.core is not None:
                    self._intake.handle(owned, owned.core, event)
                    self._lapses.took_in(owned)
            case Assigned(shards):
                for shard in shards:
                    self._owned[shard] = Owned(shard)
            case Revoked(shards):
                self._let_go(shards)
                self._source.release(shards)
            case Lost(shards):
                for shard in shards:
                    self._owned.pop(shard, None)
                    self._index.drop(shard)
            case _:
                if (owned := self._owned.get(event.shard)) is not None:
                    self.stalls.lose(owned, OUT_OF_RANGE, event.detail)

    def _let_go(self, shards: Sequence[ShardId]) -> None:
        """Revoked: the commit in flight must end first, then everything of the shards is dropped."""
        self.wait_for_commit()
        for shard in shards:
            self._owned.pop(shard, None)
            self._index.drop(shard)

    # --- the rest

    def _housekeep(self) -> None:
        now_s = self._now_s()
        if now_s >= self._next_status_s:
            self._statuses = self._keeper.tidy(self._owned.values(), now_s)
            self.stalls.write()
            took_s = self._now_s() - now_s
            self._next_status_s = now_s + max(self.settings.status_interval_s, TIDIED_ONE_IN * took_s)
        if now_s >= self._next_trim_s:
            self._next_trim_s = now_s + self.settings.trim_interval_s
            for owned in self._keeper.recreated(self._owned.values()):
                self.stalls.lose(owned, BufferRecreated.reason, "the buffer topic is gone, or another one")

    def _finish(self) -> None:
        """A clean stop: complete the commit, commit where every shard stands, flush the index, leave."""
        self.wait_for_commit()
        last = self._batching.take(list(self._owned.values()), last=True)
        if last:
            self._in_flight = self._commit(last), last, self._now_s()
            self.wait_for_commit()
        self.acquisition.close()
        self._lapses.close()
        self._committer.shutdown()
        self.buffer_maintenance.close()
        self._source.close()
        self._sink.close()
        self._index.close()
