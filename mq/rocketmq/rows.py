"""Rows of the audit that are stored after their commit, those of several steps in one request.

A step has its rows in the journal, so they are durable before it happens, and its commit need not wait until they
are in the audit too. As long as rows are owed, every later step of the shard has them too (`ShardStep.owed`): a new
owner writes those that are missing. They are stored with a commit, once every `rows_every_s`, or by a thread if none
follows. Then `Done` is written: nothing of the shard is open.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from threading import Event

from delayline.clock import Clock
from delayline.process import logs, threads
from mq.rocketmq import trouble
from mq.rocketmq.batches import QueueBatch
from mq.rocketmq.body import MEMBERS_BYTES_MAX, member_bytes
from mq.rocketmq.journal import Write, encode
from mq.rocketmq.ownership import Holding
from mq.rocketmq.parts import Part, PartSender, going
from mq.rocketmq.settings import RocketmqSettings
from rocketmq.client.broker import Sent
from rocketmq.errors import RocketmqError

ROWS_BYTES_MAX = 16 * 1024
"""Of a shard, that are owed: every step has them again."""

log = logs.get(__name__)


class LaterRows:
    """`owe` and `store` for parts whose locks the caller holds."""

    def __init__(self, settings: RocketmqSettings, sender: PartSender, clock: Clock) -> None:
        self._every_s = settings.rows_every_s
        self._sender = sender
        self._clock = clock
        self._owing: dict[int, Holding] = {}  # by identity; bounded by the shards
        self._is_owed, self._closing = Event(), Event()

    def start(self) -> None:
        """Rows behind which no commit follows are stored, too, from now on."""
        threads.lasting("rocketmq-rows", self._run, self._closing).start()

    def close(self) -> None:
        """What is owed is stored when its shard is released."""
        self._closing.set()
        self._is_owed.set()

    # --- with a commit

    def owe(self, part: Part) -> None:
        """The part has happened."""
        assert part.step is not None
        batches = [batch for some in part.rounds for batch in some]
        part.holding.owed += [write for batch, write in zip(batches, part.step.writes, strict=True) if batch.is_rows]
        part.holding.happened = part.step.number

    def store_due(self, parts: Sequence[Part]) -> None:
        """Rows of these shards, where it is time; others wait. Parts that fail have a `failure` afterwards."""
        self._store([part for part in parts if self._is_due(part.holding)])
        self._owing |= {id(part.holding): part.holding for part in parts if part.holding.owed}
        if self._owing:
            self._is_owed.set()

    def _is_due(self, holding: Holding) -> bool:
        if not holding.owed or self._clock.monotonic_s() - holding.rows_s >= self._every_s:
            return True
        return sum(map(_bytes, holding.owed)) > ROWS_BYTES_MAX

    def _store(self, parts: Sequence[Part]) -> None:
        while owing := [part for part in going(parts) if part.holding.owed]:
            self._sender.send_all(parts, [(part, _together(part.holding.owed)) for part in owing], self._landed)
        for part in going(parts):
            self._done(part.holding)

    def _landed(self, part: Part, batch: QueueBatch, sent: Sent) -> None:
        holding, now_s = part.holding, self._clock.monotonic_s()
        del holding.owed[: len(_first(holding.owed))]
        holding.ends[batch.queue] = sent.answer.queue_offset + len(batch.members), now_s
        holding.rows_s = now_s

    def _done(self, holding: Holding) -> None:
        try:
            holding.session.requests.send_batch_later(holding.journal, [encode(holding.done)])
        except RocketmqError as error:
            log.debug("a step is not noted as done", shard=holding.shard.partition, detail=str(error))

    # --- without

    def _run(self) -> None:
        while not self._closing.is_set():
            self._is_owed.wait()
            self._is_owed.clear()
            if not self._closing.wait(self._every_s):
                self.store_late()
            if self._owing:
                self._is_owed.set()

    def store_late(self) -> None:
        """Rows of shards of which no commit has stored them in time."""
        with ExitStack() as locks:
            parts = [Part(holding, [], happened=True) for holding in self._locked(locks)]
            self._store(parts)
            for part in parts:
                if isinstance(part.failure, RocketmqError) and trouble.is_not_stored(part.failure):
                    part.holding.is_recovered = True  # the rows are still owed, and sent again

    def _locked(self, locks: ExitStack) -> list[Holding]:
        """Shards whose rows are due. One that is locked is committing; of one that has to be read back, the journal
        has them."""
        found = []
        for key, holding in list(self._owing.items()):
            if not holding.lock.acquire(blocking=False):
                continue
            locks.callback(holding.lock.release)
            if not (holding.is_ours and holding.is_recovered and holding.owed):
                del self._owing[key]
            elif self._clock.monotonic_s() - holding.rows_s >= 2 * self._every_s:
                found.append(holding)
        return found


def _bytes(write: Write) -> int:
    return sum(map(member_bytes, write.batch))


def _first(writes: Sequence[Write]) -> list[Write]:
    """As many as go into one batch."""
    found, room = [writes[0]], MEMBERS_BYTES_MAX - _bytes(writes[0])
    for write in writes[1:]:
        room -= _bytes(write)
        if room < 0 or write.queue != writes[0].queue:
            break
        found.append(write)
    return found


def _together(writes: Sequence[Write]) -> QueueBatch:
    first = _first(writes)
    return QueueBatch(first[0].queue, [member for write in first for member in write.batch])
