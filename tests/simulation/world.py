"""One run: clients, a broker, two workers with disks of their own, and a seeded hand that picks what happens next.

The world gives everything around the core its turn: clients send, clocks jump, commits hang, workers crash between
any two steps, and shards are given away while their owner is still at work. It knows nothing of the rules; what
became true is written down (`history`), and the checker judges. The same seed gives the same run.

A run ends with a *drain*: every fault stops, the clock runs past everything that is due, and the workers go on until
they have nothing left to commit. In some runs all of them then lose their disks and start once more.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from delayline.records.message import Shard
from tests.simulation import habits
from tests.simulation.disk import AnyDisk, Disk, TwinDisk
from tests.simulation.history import CONTROL, MESSAGE, NO_TERMS, OPERATION, Appended, Ended, Fact, Failed, Trimmed
from tests.simulation.scene import APPLIED, REAL, Core, Scene, name_of
from tests.simulation.stalls import Stalls
from tests.simulation.traffic import Clients, Request, Sent, cancel_body, control_body
from tests.simulation.undos import Undos
from tests.simulation.worker import Worker

ROUNDS_MAX = 400
QUIET_ROUNDS = 3
STILL_ROUNDS = 2
"""In which a worker can take what there is and have it committed. Low water marks alone do not count."""
EVERYTHING_DUE_MS = 3 * 3_600_000


class Transaction(NamedTuple):
    """A client's transaction that is open: its records are durable, and nobody can read past the first one."""

    shard: Shard
    records: list[Appended]


class World:
    """A run under one seed."""

    def __init__(
        self,
        seed: int,
        core: Core = REAL,
        show: Callable[[str], None] | None = None,
        new_disk: Callable[[], AnyDisk] | None = None,
    ) -> None:
        self.rnd = rnd = Random(seed)
        self.scene = Scene(rnd, Random(f"answers {seed}"), core, show)
        self.clients = Clients(rnd)
        on_twin = rnd.random() < 0.2
        self.scene.seen["run on the product's in-memory index"] += on_twin
        self.new_disk: Callable[[], AnyDisk] = new_disk or (TwinDisk if on_twin else Disk)
        self.workers = [Worker(self.scene, name, self.new_disk()) for name in "ab"]
        self.stalls = Stalls(seed, self.scene, self.workers)
        self.undos = Undos(seed, self.scene)
        self.transactions: list[Transaction] = []
        self.ids: list[str] = []  # of every message that was sent
        self.paused: set[Shard] = set()  # at any time
        self.endless: list[tuple[Shard, str]] = []  # of every series without end
        for shard in self.scene.shards:
            self.scene.owner[shard] = rnd.choice(self.workers).name
        if rnd.random() < 0.15:
            self._any_worker().disk.leave_foreign(self._any_shard(), self.scene.broker.now_ms)

    def run(self) -> list[Fact]:
        """The history of the whole run."""
        history = self.scene.history
        operations = self.scene.core.operations
        decided_max, operations.DECIDED_MAX = operations.DECIDED_MAX, self.scene.habits.decided_max
        try:
            self._begin()
            for step in self.rnd.choices(STEPS, self.scene.habits.weights, k=self.scene.habits.steps):
                step(self)
                self._look_up()
                self.stalls.step()
                self._undo()
            drained = self._drain()
        except Exception as error:  # noqa: BLE001 - whatever the core throws is what the run has found
            self.scene.trace("THROWN {!r}", error)
            history.append(Failed(name_of(self.scene.shards[0]), f"the service threw {error!r}"))
            drained = False
        finally:
            operations.DECIDED_MAX = decided_max
        history.append(Ended(drained))
        return history

    def _begin(self) -> None:
        """Most runs start with their shards owned: the rest is about who takes over, and when."""
        if self.rnd.random() < 0.8:
            for shard in self.scene.shards:
                for _ in range(4):
                    self._owner(shard).advance_takeover(shard, APPLIED)

    def _drain(self) -> bool:
        """End every fault, then let everybody finish; whether they did."""
        self.scene.trace("--- drain")
        while self.transactions:
            self.end_transaction()
        while self.scene.wire:
            self.wire_arrives()
        for worker in self.workers:
            worker.disk.full = worker.disk.tight = False
        self._end_the_endless()
        drained = self._settle()
        if drained and self.undos.is_owed:
            while self.undos.is_owed:
                self._undo()
            self._end_the_endless()
            drained = self._settle(0)  # at once: what lives for a second could be delivered
        if drained and self.rnd.random() < 0.3:
            for worker in self.workers:
                worker.crash(self.new_disk())
            drained = self._settle()
        if not drained:
            self.scene.history.append(Failed(name_of(self.scene.shards[0]), "does not drain"))
        return drained

    def _end_the_endless(self) -> None:
        """Deliver again where it was stopped, and stop what would never end."""
        for shard in sorted(self.paused):
            self.scene.history.append(self._append_control(shard, control_body("resume"), "resume"))
        for shard, message_id in self.endless:
            body = cancel_body([(b"delay-ref", message_id.encode())])
            request = Request(body, message_id, None, "series without end cancelled")
            self.scene.history.append(self._append_request(shard, request))

    def _settle(self, ahead_ms: int = EVERYTHING_DUE_MS) -> bool:
        """Let everybody work until nothing moves; whether that happened in time. Where all only wait, the clock runs
        on to what is due next."""
        quiet = still = 0
        before: list[object] = []
        self.scene.broker.now_ms += ahead_ms
        for _ in range(ROUNDS_MAX):
            self.scene.broker.now_ms += 100
            moved = [worker.work() for worker in self.workers]
            self.stalls.drain()
            self._look_up()
            now: list[object] = [(log.end, log.cursor) for log in self.scene.broker.partitions.values()]
            still, before = still + 1 if now == before else 0, now
            if still >= STILL_ROUNDS and self._wait_for_what_is_due():
                quiet = still = 0
            else:
                quiet = 0 if any(moved) else quiet + 1
            if quiet == QUIET_ROUNDS:
                return True
        return False

    def _wait_for_what_is_due(self) -> bool:
        """Whether anything was to be waited for."""
        now_ms = self.scene.broker.now_ms
        due_ms = [self._owner(shard).disk.shard(shard).next_due_ms() for shard in self.scene.shards]
        later_ms = [each for each in due_ms if each is not None and each > now_ms]
        self.scene.broker.now_ms = min(later_ms, default=now_ms)
        return bool(later_ms)

    def _undo(self) -> None:
        """Some message that was ended comes back. Its new id is never cancelled."""
        if (record := self.undos.step()) is None:
            return
        self.scene.history.append(record)
        if record.terms.repeats and record.terms.times_left is None:
            shard = next(shard for shard in self.scene.shards if name_of(shard) == record.shard)
            self.endless.append((shard, record.id or ""))

    def _look_up(self) -> None:
        """Ask every owner who has the names in use; nothing is asked where nothing can have changed."""
        for worker in self.workers:
            self.scene.history += [found for shard in worker.shards if (found := worker.look_up(shard)) is not None]

    # --- whom a step is about

    def _any_shard(self) -> Shard:
        return self.rnd.choice(self.scene.shards)

    def _any_worker(self) -> Worker:
        return self.rnd.choice(self.workers)

    def _busy_worker(self) -> Worker:
        """A worker that has something to do, if there is one; it may be a zombie."""
        return self.rnd.choice([worker for worker in self.workers if worker.shards] or self.workers)

    def _owner(self, shard: Shard) -> Worker:
        return next(worker for worker in self.workers if worker.name == self.scene.owner[shard])

    # --- steps: clients and clocks

    def produce(self) -> None:
        shard = self._any_shard()
        now_ms = self.scene.broker.now_ms
        records = [self._append_any(shard, now_ms) for _ in range(self.rnd.randint(1, 3))]
        self.stalls.of_clients[shard] += [record.offset for record in records]
        if self.rnd.random() < 0.12:
            self.scene.seen["client transaction opened"] += 1
            self.scene.broker.partitions[shard].open.add(records[0].offset)
            self.transactions.append(Transaction(shard, records))
        else:
            self.scene.history += records

    def _append_any(self, shard: Shard, now_ms: int) -> Appended:
        draw = self.rnd.random()
        if draw < self.scene.habits.controls:
            return self._append_control(shard, *self.clients.command())
        if self.ids and self.rnd.random() < self.scene.habits.operations:
            return self._append_request(shard, self.clients.ask(self.ids, now_ms))
        record = self._append(shard, self.clients.send(now_ms))
        self.ids.append(record.id or "")
        if record.terms.repeats and record.terms.times_left is None:
            self.endless.append((shard, record.id or ""))
        return record

    def _append_control(self, shard: Shard, body: bytes, kind: str) -> Appended:
        scene = self.scene
        at_ms, partition = scene.broker.now_ms, scene.broker.partitions[shard]
        fact = Appended(name_of(shard), partition.end, CONTROL, at_ms, control=kind)
        body, fact = self.undos.asked(body, fact)
        offset = partition.append(at_ms, body)
        scene.seen[f"{kind} sent"] += 1
        if kind == "pause":
            self.paused.add(shard)
        scene.trace("append {} #{} {}", shard, offset, kind)
        return fact

    def _append_request(self, shard: Shard, request: Request) -> Appended:
        scene, partition = self.scene, self.scene.broker.partitions[shard]
        at_ms = scene.broker.now_ms
        due_ms = request.due_ms and request.due_ms(at_ms, scene.rules_at(shard, partition.end))
        fact = Appended(
            name_of(shard),
            partition.end,
            OPERATION,
            at_ms,
            due_ms=due_ms,
            target=request.target,
            if_version=request.if_version,
        )
        body, fact = self.undos.asked(request.body, fact)
        offset = partition.append(at_ms, body)
        scene.seen[request.situation] += 1
        scene.seen.update(request.situations)
        wanted = "" if request.if_version is None else f"if {request.if_version}"
        scene.trace("append {} #{} {} {} {}", shard, offset, request.situation, request.target, wanted)
        return fact

    def _append(self, shard: Shard, sent: Sent) -> Appended:
        scene, partition = self.scene, self.scene.broker.partitions[shard]
        at_ms = scene.broker.now_ms
        due_ms = sent.due_ms(at_ms, scene.rules_at(shard, partition.end))
        offset = partition.append(at_ms, sent.body)
        message_id = f"{name_of(shard)}.{offset}.{due_ms}"
        scene.seen[sent.situation] += 1
        scene.seen.update(sent.situations)
        wishes = {name: wish for name, wish in sent.terms._asdict().items() if wish != getattr(NO_TERMS, name)}
        scene.trace("append {} #{} due {:+} {} {}", shard, offset, due_ms - at_ms, sent.situation, wishes or "")
        return Appended(
            name_of(shard),
            offset,
            MESSAGE,
            at_ms,
            message_id,
            due_ms,
            at_ms,
            sent.payload,
            sent.undeliverable,
            sent.refused,
            sent.terms,
        )

    def end_transaction(self) -> None:
        """A client commits or aborts; either way a control marker takes one offset."""
        if not self.transactions:
            return
        shard, records = self.transactions.pop(self.rnd.randrange(len(self.transactions)))
        offsets = [record.offset for record in records]
        partition = self.scene.broker.partitions[shard]
        partition.open.remove(offsets[0])
        partition.end += 1
        if self.rnd.random() < 0.7:
            self.scene.trace("client commits {}", offsets)
            self.scene.history += records
        else:
            self.scene.trace("client aborts {}", offsets)
            self.scene.seen["client transaction aborted"] += 1
            partition.erase(offsets)

    def clock_advances(self) -> None:
        self.scene.broker.now_ms += self.rnd.choice(self.scene.habits.strides_ms)

    def clock_jumps_back(self) -> None:
        self.scene.seen["broker clock jumped back"] += 1
        self.scene.broker.now_ms -= self.rnd.choice((1, 30, 100, 400))
        self.scene.trace("clock jumps back")

    # --- steps: workers

    def fetch(self) -> None:
        worker = self._busy_worker()
        worker.take_effect()
        for shard in list(worker.shards):
            worker.fetch(shard, self.rnd.choice((1, 2, 5, 100)))

    def take(self) -> None:
        self._busy_worker().take(checkpoint=self.rnd.random() < 0.3)

    def finish(self) -> None:
        for worker in self.workers:
            if worker.request is not None and self.rnd.random() < 0.8:
                worker.finish(self.scene.fate())

    def wire_arrives(self) -> None:
        """A commit that nobody waits for any more."""
        wire = self.scene.wire
        if wire:
            self.scene.arrive_unheard(wire.pop(self.rnd.randrange(len(wire))))

    def roll(self) -> None:
        self._busy_worker().roll()

    def rebalance(self) -> None:
        """A shard is given to somebody, perhaps while its owner is at work and will not hear of it for a while."""
        shard, worker = self._any_shard(), self._any_worker()
        self.scene.owner[shard] = worker.name
        self.scene.trace("{} is {}'s", shard, worker.name)

    def notice(self) -> None:
        self._any_worker().notice()

    def take_over(self) -> None:
        """Some steps of a takeover by the owner, or by one who was the owner when it began."""
        shard = self._any_shard()
        began = [worker for worker in self.workers if shard in worker.takeovers]
        worker = self.rnd.choice([*began, self._owner(shard)])
        for _ in range(self.rnd.randint(1, 6)):
            worker.advance_takeover(shard, self.scene.fate())

    def crash(self) -> None:
        lose_disk = self.rnd.random() < 0.2
        self.scene.seen["crash"] += 1
        self.scene.seen["disk lost"] += lose_disk
        self._busy_worker().crash(self.new_disk() if lose_disk else None)

    def disk_fills(self) -> None:
        """Or has room again."""
        disk = self._any_worker().disk
        disk.full = not disk.full and self.rnd.random() < 0.5
        disk.tight = self.rnd.random() < 0.5

    def flush(self) -> None:
        self._any_worker().disk.flush()

    def trim(self) -> None:
        """Trim what is not needed by a committed cursor."""
        shard = self._any_shard()
        partition = self.scene.broker.partitions[shard]
        cursor = partition.committed()
        if cursor is not None and cursor.low_offset > partition.start:
            self.scene.seen["trim"] += 1
            self.scene.trace("trim {} to #{}", shard, cursor.low_offset)
            self.scene.broker.trim(shard, cursor.low_offset)
            self.scene.history.append(Trimmed(name_of(shard), cursor.low_offset))


STEPS: tuple[Callable[[World], None], ...] = tuple(getattr(World, name) for name in habits.STEPS)
