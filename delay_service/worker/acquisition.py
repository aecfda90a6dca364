"""Shards that are assigned and not taken over yet. The worker's other shards are delivered meanwhile.

A round takes over what waits, in the order of `delay_service.core.takeover`; one is under way at most:

    Fencing    takeover and log range of each shard, in a thread of its own
    Claiming   the claims in one commit, which waits its turn among the worker's others
    Measuring  log range and partitions of each claimed shard, in that thread again
    Starting   in the worker's thread: the plan; what of the index is reused, a step of it in each turn, because a
               million records take a second; the core and the seek

Rules, each of which a test breaks:

1. A shard is not asked about while a commit that it has part in has not ended: one that was lost and is assigned
   again, or whose log was out of range meanwhile. The cursor might be read before that commit has written it, and the
   claim, of the same epoch as if it had not, would take it back. Commits of other shards go on: they touch neither
   this shard's cursor nor its stability, and no fence reaches our own writer while it is a member of the group. What
   one of unknown fate has left open is for the queue's takeover to end before it reads.
2. What a round finds is of the very `Owned` with which it began. A shard that is revoked or lost has none any more,
   and another one if it is assigned again: then all is void. A fence that has been done is harmless, for it reaches
   only who is not in the group any more, and whom every other owner would have fenced as well.
3. The end up to which a shard is read comes from Measuring, after the claim; of the earlier range only the beginning
   counts.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any, NamedTuple, TypeVar

from delay_service.core.shard import Shard
from delay_service.core.shard_settings import ShardSettings
from delay_service.core.takeover import claim, plan, preparing
from delay_service.worker.checkpoints import Checkpoints
from delay_service.worker.owned import Owned
from delay_service.worker.shard_maintenance import ShardMaintenance
from delay_service.worker.stalls import Stalls, fields
from delayline.buffer.cursor import Cursor
from delayline.process import logs
from delayline.records.message import Shard as ShardId
from mq.contract import Admin, Handover, ShardBatch, Source
from mq.errors import CommitError, Fenced, QueueUnavailable
from store.index import TimeIndex

T = TypeVar("T")
Commit = Callable[[Sequence[ShardBatch]], "Future[None]"]
"""Puts a commit behind those that wait."""

_DONE = object()
log = logs.get(__name__)


class Left(NamedTuple):
    """A shard as its last owner left it, and where its log begins and ends."""

    handover: Handover
    log_range: tuple[int, int]


class Claimed(NamedTuple):
    """A shard, the cursor that claims it, and the run of its log (`mq.contract.Handover`)."""

    owned: Owned
    cursor: Cursor
    run: bytes


class Bounds(NamedTuple):
    """Of a shard that is claimed."""

    log_range: tuple[int, int]
    partitions: Sequence[str]


@dataclass(frozen=True, slots=True)
class Fencing:
    """-> Claiming, or the end where no shard can be claimed."""

    future: "Future[list[tuple[Owned, Left | Exception]]]"


@dataclass(frozen=True, slots=True)
class Claiming:
    """-> Measuring, or the end where the commit failed."""

    claims: dict[ShardId, Claimed]
    future: "Future[None]"


@dataclass(frozen=True, slots=True)
class Measuring:
    """-> Starting, or the end where nothing was found."""

    claims: dict[ShardId, Claimed]
    future: "Future[list[tuple[Owned, Bounds | Exception]]]"


@dataclass(frozen=True, slots=True)
class Starting:
    """-> the end."""

    steps: Iterator[None]


Waiting = Fencing | Claiming | Measuring


class Acquisition:
    """Called from the worker's thread, which it blocks only where documented. `holds` returns, in any thread, whether
    the worker still has this very `Owned`. `executor` replaces the thread that asks the queue, as in tests."""

    def __init__(
        self,
        source: Source,
        admin: Admin,
        index: TimeIndex,
        stalls: Stalls,
        keeper: ShardMaintenance,
        checkpoints: Checkpoints,
        writer: str,
        shard_settings_of: Callable[[str], ShardSettings],
        commit: Commit,
        holds: Callable[[Owned], bool],
        executor: Executor | None = None,
    ) -> None:
        self._source = source
        self._admin = admin
        self._index = index
        self._stalls = stalls
        self._keeper = keeper
        self._checkpoints = checkpoints
        self._writer = writer
        self._shard_settings_of = shard_settings_of
        self._commit = commit
        self._holds = holds
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="acquire")
        self._closing = Event()
        self._stage: Waiting | Starting | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a round is: the worker is woken when it can go on."""
        return self._stage is not None

    @property
    def is_pressing(self) -> bool:
        """Whether there is something to do in the next turn."""
        return isinstance(self._stage, Starting)

    def turn(self, waiting: Sequence[Owned]) -> None:
        """Go on with the round as far as answers are there; or begin one with the shards that wait, none of which
        has part in a commit that has not ended."""
        if self._stage is None and waiting:
            self._stage = Fencing(self._ask(waiting, self._look))
        while isinstance(self._stage, Waiting) and self._stage.future.done():
            self._stage = self._next(self._stage)
            if isinstance(self._stage, Claiming):
                break  # looked at in another turn, however fast it is
        if isinstance(self._stage, Starting) and next(self._stage.steps, _DONE) is _DONE:
            self._stage = None

    def wait_for_claims(self) -> None:
        """Block until no claim is being committed."""
        while isinstance(self._stage, Claiming):
            self._stage.future.exception()
            self.turn(())

    def finish(self) -> None:
        """Block until no round is under way."""
        while self._stage is not None:
            if isinstance(self._stage, Waiting):
                self._stage.future.exception()
            self.turn(())

    def take_over(self, owned: Owned) -> None:
        """Block until this shard has been taken over, or stalls: for an operator who waits for the answer."""
        self.finish()
        self.turn([owned])
        self.finish()

    def close(self) -> None:
        """Block until the call that is under way has ended; what comes behind it is left out."""
        self._closing.set()
        self._executor.shutdown(cancel_futures=True)

    # --- in the other thread

    def _ask(
        self, shards: Sequence[Owned], ask: Callable[[ShardId], T]
    ) -> "Future[list[tuple[Owned, T | Exception]]]":
        return self._waking(self._executor.submit(lambda: list(self._answers(shards, ask))))

    def _answers(self, shards: Sequence[Owned], ask: Callable[[ShardId], T]) -> Iterator[tuple[Owned, T | Exception]]:
        """Of one after the other, up to the first about which the queue does not answer: the others might wait for an
        answer as long each."""
        # rule ask-held: the others would wait for an answer about a shard that has gone.
        for owned in filter(self._holds, shards):
            # rule ask-closing: a worker that stops would wait for the rest of the round.
            if self._closing.is_set():
                return
            try:
                yield owned, ask(owned.id)
            except QueueUnavailable as error:
                yield owned, error
                return
            except Exception as error:  # noqa: BLE001 - raised again in the worker's thread
                yield owned, error

    def _look(self, shard: ShardId) -> Left:
        handover = self._admin.takeover(shard)
        return Left(handover, self._admin.log_range(shard))

    def _measure(self, shard: ShardId) -> Bounds:
        return Bounds(self._admin.log_range(shard), self._admin.buffer(shard).partitions)

    # --- in the worker's thread

    def _waking(self, future: "Future[T]") -> "Future[T]":
        def wake(_: "Future[Any]") -> None:
            self._source.wake()

        future.add_done_callback(wake)
        return future

    def _next(self, stage: Waiting) -> Claiming | Measuring | Starting | None:
        """What comes behind a stage that has ended."""
        match stage:
            case Fencing(future):
                return self._claim(future.result())
            case Claiming(claims, future):
                return self._measure_all(self._claimed(claims, future))
            case Measuring(claims, future):
                return Starting(self._start_all(claims, future.result()))

    def _claim(self, answers: Sequence[tuple[Owned, Left | Exception]]) -> Claiming | None:
        claims: dict[ShardId, Claimed] = {}
        for owned, left in filter(self._counts, answers):
            with self._stalls.stalling(owned):
                if isinstance(left, Exception):
                    raise left
                cursor = claim(left.handover, left.log_range, self._writer, owned.operator.accepted)
                claims[owned.id] = Claimed(owned, cursor, left.handover.run)
        if not claims:
            return None
        batch = [ShardBatch(shard, claimed) for shard, (_, claimed, _) in claims.items()]
        # rule fence-first: the end of the log counts after the claim: a decision of the last owner would be missed.
        return Claiming(claims, self._waking(self._commit(batch)))

    def _claimed(self, claims: dict[ShardId, Claimed], future: "Future[None]") -> dict[ShardId, Claimed]:
        """Those that are ours, and claimed for certain."""
        # rule claim-held: a claim would count for the `Owned` of a later assignment.
        held = {shard: found for shard, found in claims.items() if self._holds(found.owned)}
        try:
            future.result()
        except CommitError as error:
            blamed = error.shards if isinstance(error, Fenced) else list(held)
            for shard, (owned, _, _) in held.items():
                if shard in blamed:
                    self._stalls.stall(owned, "takeover", str(error))
            # rule claim-failed: a shard that is not claimed for certain would be delivered by two owners.
            return {}
        self._stalls.success()
        return held

    def _measure_all(self, claims: dict[ShardId, Claimed]) -> Measuring | None:
        owned = [claimed.owned for claimed in claims.values()]
        return Measuring(claims, self._ask(owned, self._measure)) if owned else None

    def _start_all(
        self,
        claims: dict[ShardId, Claimed],
        answers: Sequence[tuple[Owned, Bounds | Exception]],
    ) -> Iterator[None]:
        started = 0
        for owned, bounds in filter(self._counts, answers):
            with self._stalls.stalling(owned):
                if isinstance(bounds, Exception):
                    raise bounds
                for _ in self._start(owned, claims[owned.id], bounds):
                    yield
                    # rule start-held: a shard that has gone would be started: delivered by two owners.
                    if not self._holds(owned):
                        break
                started += owned.core is not None
        log.info("shards taken over", shards=started, writer=self._writer)

    def _counts(self, answer: tuple[Owned, object]) -> bool:
        # rule answer-held: what was found would count for the `Owned` of a later assignment.
        return self._holds(answer[0])

    def _start(self, owned: Owned, claimed: Claimed, bounds: Bounds) -> Iterator[None]:
        index = self._index.shard(owned.id)
        chosen = plan(claimed.cursor, bounds.log_range, index.checkpoint(), claimed.run)
        settings = self._shard_settings_of(owned.id.topic)
        # rule index-steps: a large index would hold up the deliveries of all other shards.
        yield from preparing(index, chosen)
        core = Shard(owned.id, chosen, index, settings, is_prepared=True)
        core.partitions = bounds.partitions
        core.refusals.update(owned.bounds.dead_lettered)
        self._checkpoints.begin(owned)
        self._stalls.start(owned, core)
        self._stalls.recover(owned)
        self._keeper.compare_clock(owned)
        self._source.seek(owned.id, core.position)
        log.debug(
            "shard taken over",
            **fields(owned.id),
            epoch=claimed.cursor.owner_epoch,
            reused=chosen.reuse,
            resume=chosen.resume_offset,
            read_to=chosen.read_to,
        )
