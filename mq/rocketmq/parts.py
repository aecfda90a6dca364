"""Shards' parts of a commit, and how their batches are sent: side by side, each happens or fails by itself."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from delayline.clock import Clock
from delayline.records.message import Shard
from mq.errors import CommitAborted, CommitError, DeliveryRefused
from mq.rocketmq import trouble
from mq.rocketmq.batches import QueueBatch, Rounds
from mq.rocketmq.journal import ShardStep
from mq.rocketmq.ownership import Holding
from rocketmq.client.broker import Sent
from rocketmq.errors import AnswerLost, RocketmqError

BUSY_S = 5.0
"""How long a broker may be too busy to take something before a commit gives up."""
BUSY_PAUSE_S = 0.02


@dataclass(slots=True)
class Part:
    """A shard's part, with the encoded cursor, and how far it is. `happened`: it counts, whatever fails later. After
    a `failure` nothing more of it is sent."""

    holding: Holding
    rounds: Rounds
    cursor: bytes = b""
    step: ShardStep | None = None
    happened: bool = False
    failure: Exception | None = None

    @property
    def shard(self) -> Shard:
        return self.holding.shard

    def fail(self, error: Exception) -> None:
        """The others go on without it; it is read back before its shard's next commit."""
        self.failure = error
        self.holding.is_recovered = False


class Failed(NamedTuple):
    """A batch that was not stored, or may not have been; with its `future` where its answer may still come."""

    part: Part
    batch: QueueBatch
    error: RocketmqError
    future: "Future[Sent] | None" = None


Sends = Sequence[tuple[Part, QueueBatch]]


class PartSender:
    """Any thread that holds the locks of the parts."""

    def __init__(self, clock: Clock, rest: Callable[[float], object], patience_s: Callable[[], float | None]) -> None:
        """`patience_s` is how long a broker's answer is waited for before other brokers' shards go on; None if there
        are no others."""
        self._clock = clock
        self._rest = rest
        self._patience_s = patience_s

    def send_all(self, parts: Sequence[Part], sends: Sends, landed: Callable[[Part, QueueBatch, Sent], None]) -> None:
        """All at once; what a busy broker refuses is sent again. Raises CommitError if nothing has been written."""
        until_s = self._clock.monotonic_s() + BUSY_S
        while sends:
            failed = self._attempt(sends, landed)
            is_late = self._clock.monotonic_s() > until_s
            self._heed(parts, [item for item in failed if is_late or not trouble.is_busy(item.error)])
            sends = [(item.part, item.batch) for item in failed if item.part.failure is None]
            if sends:
                self._rest(BUSY_PAUSE_S)

    def _attempt(self, sends: Sends, landed: Callable[[Part, QueueBatch, Sent], None]) -> list[Failed]:
        failed: list[Failed] = []
        under_way: list[tuple[Part, QueueBatch, Future[Sent]]] = []
        with ExitStack() as gathered:
            for session in {id(part.holding.session): part.holding.session for part, _ in sends}.values():
                gathered.enter_context(session.gathering())
            for part, batch in sends:
                try:
                    under_way.append((part, batch, _sent_later(part, batch)))
                except RocketmqError as error:
                    failed.append(Failed(part, batch, error))
        wait([future for _, _, future in under_way], self._patience_s())  # one change of threads, not one for each
        for part, batch, future in under_way:
            try:
                landed(part, batch, future.result(0))
            except RocketmqError as error:
                failed.append(Failed(part, batch, error))
            except TimeoutError:
                failed.append(Failed(part, batch, AnswerLost("no answer yet"), future))
        return failed

    def _heed(self, parts: Sequence[Part], failed: Sequence[Failed]) -> None:
        """Send no more of these parts. Raises CommitError if no part has happened, and the failed ones are
        certainly not stored."""
        unknown = [item for item in failed if not trouble.is_not_stored(item.error)]
        if failed and not unknown and not any(part.happened or part.failure for part in parts):
            raise _failure(failed[0])
        for item in unknown:
            # rule unknown-ends: what is of unknown fate could land behind the reading back: delivered twice.
            item.part.holding.session.leave_open(item.future)
        for item in failed:
            item.part.fail(item.error)


def going(parts: Sequence[Part]) -> list[Part]:
    """Those that have not failed."""
    return [part for part in parts if part.failure is None]


def _sent_later(part: Part, batch: QueueBatch) -> Future[Sent]:
    """Raises RocketmqError."""
    return part.holding.session.send_later(batch.queue, batch.members, batch.born_ms)


def _failure(failed: Failed) -> CommitError:
    if failed.batch.decides and trouble.is_refused(failed.error):
        of_record = trouble.is_of_record(failed.error)
        return DeliveryRefused(failed.part.shard, str(failed.error), of_record=of_record)
    return CommitAborted(str(failed.error))
