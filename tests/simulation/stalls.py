"""What stalls a shard, and the operator who has it skipped.

Records of a later version stand in the log as clients' records do. A range of the log is damaged after its records
were accepted, perhaps after an owner has read them, and may be whole again later. The operator asks whoever has the
shard, also one who has lost it meanwhile, and also where it was mended since they looked.

Chance has a generator of its own: the runs without stalls are the same as without this module.
"""

from random import Random
from typing import NamedTuple

from delayline.records.message import Shard
from delayline.records.record import encode_body
from tests.simulation.history import LATER, Appended, SkipAsked
from tests.simulation.scene import APPLIED, Scene, name_of
from tests.simulation.worker import Stall, Worker

LATER_VERSION = encode_body(None, b"of a later version", [(b"delayline-decision", b"99")])
STALLS_MAX = 5
"""Of one shard, which forgets no range before it has caught up. A cursor has room for many more."""


class Seen(NamedTuple):
    """What the operator has seen, and up to where they want to skip."""

    worker: Worker
    shard: Shard
    stall: Stall
    through: int


class Stalls:
    """The part of a run that is about stalls."""

    def __init__(self, seed: int, scene: Scene, workers: list[Worker]) -> None:
        self._rnd = Random(f"stalls {seed}")
        self._often = self._rnd.choice((0.0, 0.0, 0.0, 0.15))
        self._scene, self._workers = scene, workers
        self._seen: Seen | None = None
        self._begun: dict[Shard, int] = dict.fromkeys(scene.shards, 0)
        self.of_clients: dict[Shard, list[int]] = {shard: [] for shard in scene.shards}

    @property
    def happen(self) -> bool:
        """Whether there were any in this run."""
        return any(self._begun.values())

    def step(self) -> None:
        if self._rnd.random() >= self._often:
            return
        steps = (self._append_later, self._damage, self._mend, self._look, self._ask)
        self._rnd.choices(steps, (3, 4, 1, 4, 6))[0]()

    def drain(self) -> None:
        """Whatever stands still is skipped, without a fault."""
        for worker in self._workers:
            for shard, stall in list(worker.stalled.items()):
                worker.finish(APPLIED)
                self._skip(Seen(worker, shard, stall, self._last(shard, stall)))

    def _append_later(self) -> None:
        shard = self._rnd.choice(self._scene.shards)
        if self._may_begin(shard):
            at_ms = self._scene.broker.now_ms
            offset = self._scene.broker.partitions[shard].append(at_ms, LATER_VERSION)
            self._scene.seen["record of a later version"] += 1
            self._scene.trace("append {} #{} of a later version", shard, offset)
            self._scene.history.append(Appended(name_of(shard), offset, LATER, at_ms))

    def _may_begin(self, shard: Shard) -> bool:
        self._begun[shard] += 1
        return self._begun[shard] <= STALLS_MAX

    def _damage(self) -> None:
        """Some offsets at which no owner has written: what it wrote would be lost with them."""
        shard = self._rnd.choice(self._scene.shards)
        partition = self._scene.broker.partitions[shard]
        offsets = [one for one in self.of_clients[shard] if partition.start <= one < partition.stable_end]
        if not offsets or not self._may_begin(shard):
            return
        first = self._rnd.choice(offsets[-6:])
        end = first + self._rnd.randint(1, 3)
        written = {record.offset for record in partition.records}
        while end > first + 1 and (end > partition.stable_end or (written & set(range(first, end))) - set(offsets)):
            end -= 1
        partition.damaged.append((first, end))
        self._scene.seen["range damaged"] += 1
        self._scene.trace("{} #{}..#{} cannot be read any more", shard, first, end - 1)

    def _mend(self) -> None:
        damaged = self._scene.broker.partitions[self._rnd.choice(self._scene.shards)].damaged
        if damaged:
            self._scene.seen["range mended"] += 1
            self._scene.trace("#{} can be read again", damaged.pop(self._rnd.randrange(len(damaged)))[0])

    def _look(self) -> None:
        found = [(worker, *one) for worker in self._workers for one in worker.stalled.items()]
        if found:
            worker, shard, stall = self._rnd.choice(found)
            last = self._last(shard, stall)
            self._seen = Seen(
                worker, shard, stall, self._rnd.choice((last, last, self._rnd.randint(stall.offset, last)))
            )

    def _last(self, shard: Shard, stall: Stall) -> int:
        ranges = self._scene.broker.partitions[shard].damaged if stall.is_place else ()
        return max((end - 1 for start, end in ranges if start <= stall.offset < end), default=stall.offset)

    def _ask(self) -> None:
        seen, self._seen = self._seen, None
        if seen is not None:
            seen.worker.finish(self._scene.fate())  # a skip waits for what is in flight
            self._skip(seen)

    def _skip(self, seen: Seen) -> None:
        worker, shard, stall, through = seen
        if worker.skip(shard, stall, through):
            self._scene.seen["skip asked"] += 1
            self._scene.trace("{} skips {} #{}..#{}", worker.writer, shard, stall.offset, through)
            self._scene.history.append(SkipAsked(name_of(shard), stall.offset, through + 1))
        else:
            self._scene.seen["skip refused"] += 1
