"""Who owns which shard, as the queue answered not long ago.

The queue is asked in a thread of its own: when a question has found the table wrong or old, and never more than a few
times a second, however many questions there are. No question waits for it, so that a coordinator which does not
answer costs the questions nothing but the table's age.
"""

from collections.abc import Mapping
from threading import Condition, Thread
from types import TracebackType
from typing import Protocol

from delayline.clock import Clock
from delayline.process import logs
from delayline.records.message import Shard
from mq.contract import Owner
from mq.errors import QueueClosed, QueueError

FRESH_S = 5.0
"""A table that is older is asked for again by the next question."""

PAUSE_S = 0.25
"""Between two questions to the queue."""

LOOK_S = 30.0
"""Without any question it is asked for again after so long: a queue knows shards of a broker that is down if it has
seen them (`mq.rocketmq.topology`)."""

log = logs.get(__name__)


class OwnerAdmin(Protocol):
    """The part of `mq.contract.Admin` by which owners are found; see there."""

    def owners(self) -> Mapping[Shard, Owner]: ...

    def log_range(self, shard: Shard) -> tuple[int, int]: ...


class Directory:
    """Any thread may ask it. To be used as a context manager: it looks at the queue from then on."""

    def __init__(self, admin: OwnerAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._table: Mapping[Shard, Owner] = {}
        self._seen_s: float | None = None
        self._trouble: str | None = None
        self._wanted = True
        self._closing = False
        self._changed = Condition()
        self._thread = Thread(target=self._run, name="directory", daemon=True)

    def __enter__(self) -> "Directory":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def owner(self, shard: Shard) -> Owner | None:
        """As far as is known. Does not block."""
        return self.owners().get(shard)

    def owners(self) -> Mapping[Shard, Owner]:
        """The whole table. Does not block."""
        if self._seen_s is None or self._clock.monotonic_s() - self._seen_s > FRESH_S:
            self.want()
        return self._table

    def want(self) -> None:
        """The table seems wrong: have a new one soon. Does not block."""
        if not self._wanted:
            with self._changed:
                self._wanted = True
                self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether the queue has never answered yet."""
        return self._seen_s is None

    def is_from_before(self, at_s: float) -> bool:
        """Whether the queue's last answer came before this moment (monotonic seconds)."""
        return self._seen_s is None or self._seen_s < at_s

    @property
    def trouble(self) -> str | None:
        """Why the queue could not name the owners when it was last asked."""
        return self._trouble

    def refresh(self) -> None:
        """Ask the queue now; the old table stays where it does not answer. Blocks. Raises QueueClosed."""
        self._wanted = False
        try:
            self._table = self._admin.owners()
            self._seen_s = self._clock.monotonic_s()
            self._trouble = None
        except QueueClosed:
            raise
        except QueueError as error:
            if self._trouble is None:
                log.warning("owners of shards not known", detail=str(error))
            self._trouble = str(error)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._closing, LOOK_S)
                if self._closing:
                    return
            try:
                self.refresh()
            except QueueClosed:
                return
            except Exception as error:  # without this thread nobody would be found any more
                log.error("owners of shards not known", exc_info=error)
            with self._changed:
                self._changed.wait_for(lambda: self._closing, PAUSE_S)
