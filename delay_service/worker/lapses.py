"""After a lapse, in which the worker did not run, the log is read up to its end before anything is delivered.

While a process is stopped, or its machine is, due times pass and records are stored. One of them may be about a
message that is due now: a purge, or another message with its own id, which counts as long as that message waits. A
worker that went on with what is due would deliver it first, and decide the record by that.
"""

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor

from delay_service.worker.owned import Owned
from delayline.clock import Clock
from delayline.process import logs
from delayline.records.message import Shard as ShardId
from mq.contract import Admin
from mq.errors import QueueError
from store.index import TimeIndex

LATE_S = 0.15
"""Beside its wait a turn takes up to 0.1 s (`core.pace`), and mostly much less."""
SOON_MS = 1000
"""What is due later is read by then."""
UNREAD_S = 5.0
"""After a lapse; what was stored in it is read by then."""
AGAIN_S = 0.2
log = logs.get(__name__)


class Lapses:
    """Called from the worker's thread; `executor` is where the ends of logs are asked for. `wake` is called in it."""

    def __init__(
        self,
        admin: Admin,
        index: TimeIndex,
        clock: Clock,
        now_ms: Callable[[ShardId], int],
        wake: Callable[[], object],
        executor: Executor | None = None,
    ) -> None:
        self._admin = admin
        self._index = index
        self._clock = clock
        self._now_ms = now_ms
        self._wake = wake
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="log-end")
        self._looked_s: float | None = None
        self._lapsed: set[ShardId] = set()  # of which nothing has been read since
        self._lapsed_until_s = 0.0
        self._doubted: dict[ShardId, Owned] = {}  # with an end that is not known yet
        self._behind: dict[ShardId, Owned] = {}  # with one that has not been read to yet
        self._asked: Future[dict[ShardId, int]] | None = None
        self._again_s = 0.0

    def look(self, waited_s: float, owned: Iterable[Owned]) -> None:
        """Before each dispatch. `waited_s` is how long the turn was to wait, since the call before."""
        now_s = self._clock.monotonic_s()
        if self._looked_s is not None and now_s - self._looked_s - waited_s > LATE_S:
            self._doubt(now_s - self._looked_s - waited_s, owned)
        self._looked_s = now_s
        if self._doubted or self._behind:
            self._drop_others()
            self._find_ends(now_s)

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _doubt(self, late_s: float, owned: Iterable[Owned]) -> None:
        self._lapsed, self._lapsed_until_s = set(), self._clock.monotonic_s() + UNREAD_S
        for one in owned:
            if self._is_due_soon(one):
                self._hold(one)
            else:
                self._lapsed.add(one.id)
        # rule lapse-anew: an end of before this lapse would count, and what was stored meanwhile be decided too late.
        self._asked, self._again_s = None, 0.0
        if self._doubted:
            log.info("the worker did not run for a while", seconds=round(late_s, 3), shards=len(self._doubted))

    def took_in(self, owned: Owned) -> None:
        """Records of the shard have been read. Behind a lapse they may be old, and due already."""
        if owned.id in self._lapsed:
            self._lapsed.discard(owned.id)
            if self._clock.monotonic_s() < self._lapsed_until_s:
                # rule lapse-unread: a record that has been due for a while would pass one about it, right behind it.
                self._hold(owned)

    def _hold(self, owned: Owned) -> None:
        if owned.core is not None:
            owned.core.read_to.hold()
            self._doubted[owned.id] = owned

    def _is_due_soon(self, owned: Owned) -> bool:
        if owned.core is None:
            return False
        due_ms = self._index.shard(owned.id).next_due_ms()
        return due_ms is not None and due_ms <= self._now_ms(owned.id) + SOON_MS

    def _drop_others(self) -> None:
        """What has been read to its end; and what cannot be read, where what is indexed is delivered all the same."""
        for waiting in (self._doubted, self._behind):
            for owned in list(waiting.values()):
                if owned.core is None or owned.core.caught_up:
                    del waiting[owned.id]
                elif owned.reading.stalled is not None:
                    owned.core.read_to.until()
                    del waiting[owned.id]

    def _find_ends(self, now_s: float) -> None:
        if self._asked is None and self._doubted and now_s >= self._again_s:
            self._asked = self._executor.submit(self._ends, list(self._doubted))
            self._asked.add_done_callback(lambda _: self._wake())
        if self._asked is not None and self._asked.done():
            for shard, end in self._asked.result().items():
                if (owned := self._doubted.pop(shard, None)) is not None and owned.core is not None:
                    owned.core.read_to.until(end)
                    self._behind[shard] = owned
            self._asked, self._again_s = None, now_s + AGAIN_S

    def _ends(self, shards: Collection[ShardId]) -> dict[ShardId, int]:
        """In the other thread. Those without an answer are asked for again."""
        found: dict[ShardId, int] = {}
        for shard in shards:
            try:
                found[shard] = self._admin.log_range(shard)[1]
            except QueueError as error:
                log.debug("the end of a log is not known", shard=".".join(shard), detail=str(error))
        return found
