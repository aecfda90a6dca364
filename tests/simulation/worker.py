"""A worker process and its disk: it does what `delay_service.worker.loop` does around the core, one step at a time.

Between any two steps it may crash, lose its shard, or have its clock, its log and its commits go on without it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from delay_service.core.shard import Shard as RealShard
from delay_service.core.shard_settings import NEVER_MS, ShardSettings
from delay_service.core.takeover import Plan
from delayline.buffer.cursor import SKIPPED_MAX, Cursor
from delayline.errors import UnknownFormat
from delayline.names import Names
from delayline.records.message import BEFORE_ALL, Shard
from delayline.schedule.terms import key_name, own_name
from mq.contract import LogRecord, ShardBatch
from mq.errors import DeliveryRefused, Fenced, OffsetOutOfRange
from store.errors import StoreFull
from tests.simulation.broker import Partition, Request, Spoilt
from tests.simulation.disk import AnyDisk
from tests.simulation.history import Name, NamesAnswered
from tests.simulation.scene import ABORTED, APPLIED, LATE, LOST, UNHEARD, Scene, name_of
from tests.simulation.wishes import KEYS, OWN_IDS

NAMES = Names("delayline")

BYTES_MAX = 4 << 20

_NAMES: dict[Name, bytes] = {("own id", own_id): own_name(own_id) for own_id in OWN_IDS}
_NAMES |= {("key", key): key_name(key) for key in KEYS}


class Stall(NamedTuple):
    """Where reading stands still: a place that cannot be read, or a record of a later version."""

    offset: int
    is_place: bool


class Worker:
    """`writer` names one life of it. At most one request is under way."""

    def __init__(self, scene: Scene, name: str, disk: AnyDisk) -> None:
        self.scene = scene
        self.name = name
        self.life = 0
        self.disk = disk
        self.shards: dict[Shard, RealShard] = {}
        self.takeovers: dict[Shard, Iterator[None]] = {}
        self.request: Request | None = None
        self.answer: Fenced | DeliveryRefused | str | None = None  # to the request, not heard yet
        self.take_one: set[Shard] = set()
        self.stalled: dict[Shard, Stall] = {}
        self.skipping: tuple[Shard, int] | None = None  # up to where, by the request under way

    @property
    def writer(self) -> str:
        return f"{self.name}.{self.life}"

    def work(self) -> bool:
        """One round without faults; whether anything happened."""
        moved = self.request is not None
        self.finish(APPLIED)
        self.notice()
        for shard in self.scene.shards:
            moved |= self.advance_takeover(shard, APPLIED)
        for shard in list(self.shards):
            moved |= self.fetch(shard, 1000)
        return self.take(checkpoint=True) or moved

    # --- reading

    def fetch(self, shard: Shard, records_max: int) -> bool:
        """Whether anything was read. The worker waits for the commit of a skip: meanwhile it reads nothing."""
        if self.skipping is not None:
            return False
        core, partition = self.shards[shard], self.scene.broker.partitions[shard]
        position = core.position
        try:
            records, next_offset = partition.read(position, records_max)
        except Spoilt:
            return self._pass_over(shard, core)
        except OffsetOutOfRange:
            if not self._is_zombie(shard):
                raise
            self._let_go(shard)
            return False
        self._note_fetch(core, partition, records, next_offset)
        self._ingest(shard, core, records, next_offset)
        if core.position != position:
            self.scene.trace("{} reads {} #{}..#{}", self.writer, shard, position, core.position - 1)
        return core.position != position

    def _pass_over(self, shard: Shard, core: RealShard) -> bool:
        """As `delay_service.worker.intake` does: what was skipped need not be readable."""
        end = core.cursor.skipped_until(core.position)
        if end is None:
            self._stall(shard, Stall(core.position, is_place=True))
            return False
        self.scene.seen["next owner passed over a range"] += 1
        core.advance(end)
        return True

    def _stall(self, shard: Shard, stall: Stall) -> None:
        self.scene.seen["shard stalled"] += self.stalled.get(shard) != stall
        self.stalled[shard] = stall

    def skip(self, shard: Shard, stall: Stall, through: int) -> bool:
        """As `delay_service.worker.way_out` does; whether it was not refused. Nothing may be in flight: it would be
        waited for."""
        core = self.shards.get(shard)
        if self.request is not None or core is None or self.stalled.get(shard) != stall:
            return False
        if core.position != stall.offset or len(core.cursor.skipped) >= SKIPPED_MAX:
            return False
        now_ms = self.scene.broker.now_ms
        batch = core.take_skip(through, b"", now_ms, "unreadable_log" if stall.is_place else "unknown_format")
        self.request, self.skipping = self.scene.broker.send([batch], now_ms), (shard, through)
        return True

    def _ingest(self, shard: Shard, core: RealShard, records: list[LogRecord], next_offset: int) -> None:
        try:
            core.ingest(records, self.scene.broker.now_ms)
            core.advance(next_offset)
        except StoreFull:
            self.scene.seen["disk full while reading"] += 1
        except UnknownFormat:
            self._stall(shard, Stall(core.position, is_place=False))
        else:
            self.stalled.pop(shard, None)

    def _note_fetch(self, core: RealShard, partition: Partition, records: list[LogRecord], next_offset: int) -> None:
        seen = self.scene.seen
        if not records and partition.stable_end < partition.end:
            seen["waited behind an open client transaction"] += 1
            seen["takeover waited behind an open client transaction"] += not core.caught_up
        if next_offset > (records[-1].offset + 1 if records else core.position):
            seen["log ended in a hole"] += 1
        seen["record read while a commit was in flight"] += core.in_flight is not None and bool(records)

    def _is_zombie(self, shard: Shard) -> bool:
        """Whether somebody else has claimed the shard; then its log may be cut above what this worker reads."""
        stored = self.scene.broker.partitions[shard].committed()
        return stored is not None and stored.owner_epoch > self.shards[shard].cursor.owner_epoch

    def _let_go(self, shard: Shard) -> None:
        if self.request is None:
            self.scene.seen["zombie read below a trim"] += 1
            del self.shards[shard]

    # --- names

    def look_up(self, shard: Shard) -> NamesAnswered | None:
        """What the shard's owner answers, asked who has the names in use; None where it must not answer."""
        core = self.shards[shard]
        if not core.caught_up or self._is_zombie(shard):
            return None
        pending = {name: core.messages.find_named(indexed) for name, indexed in _NAMES.items()}
        holders = {name: found and found.message_id for name, found in pending.items()}
        self.scene.seen["name looked up and found"] += any(holders.values())
        self.scene.seen["name looked up on its way to another record"] += bool(core.messages.waiting()[1])
        return NamesAnswered(name_of(shard), holders, unheard=self.answer == APPLIED)

    # --- taking

    def take(self, *, checkpoint: bool) -> bool:
        """Collect what is due of every shard into one request; whether there was anything."""
        if self.request is not None:
            return False
        scene = self.scene
        now_ms = scene.broker.now_ms - scene.rnd.choice((0, 0, 0, 3))
        taken = [self._take_shard(shard, now_ms, checkpoint=checkpoint) for shard in self.shards]
        batch = [part for part in taken if part is not None]
        if batch:
            scene.seen["commit over two shards"] += len(batch) == 2
            self.request = scene.broker.send(batch, now_ms)
        return bool(batch)

    def _take_shard(self, shard: Shard, now_ms: int, *, checkpoint: bool) -> ShardBatch | None:
        rnd = self.scene.rnd
        records_max = 1 if shard in self.take_one else rnd.choice(self.scene.habits.records_max)
        bytes_max = rnd.choice((1, BYTES_MAX, BYTES_MAX))
        part = self.shards[shard].take(now_ms, records_max, bytes_max, checkpoint=checkpoint)
        if part is not None:
            self.scene.trace("{} takes {}", self.writer, part)
        return part

    def roll(self) -> None:
        for shard, core in self.shards.items():
            pending = self.disk.shard(shard).scan(BEFORE_ALL, 50)
            chosen = [entry.key for entry in pending if self.scene.rnd.random() < 0.3]
            if chosen:
                self.scene.trace("{} is asked to roll {}", self.writer, [key.offset for key in chosen])
                core.rolls.ask(chosen)

    # --- the fate of a commit

    def finish(self, fate: str) -> None:
        """The request under way ends like this, if there is one."""
        request, self.request = self.request, None
        skipping, self.skipping = self.skipping, None
        if request is None:
            return
        self._end(request, fate)
        if skipping is not None and skipping[0] in self.shards:
            self._end_skip(*skipping)

    def _end(self, request: Request, fate: str) -> None:
        if self.answer is not None and fate != APPLIED:
            fate = UNHEARD
        if fate != APPLIED:
            self.scene.seen[f"commit {fate}"] += 1
            self.scene.trace("{}: commit {}", self.writer, fate)
        if fate == APPLIED:
            self._arrive(request)
        elif fate == ABORTED:
            self._on_each(request, "aborted")
        else:
            self._forget_shards(request)
            self._send_off(request, fate)

    def _end_skip(self, shard: Shard, through: int) -> None:
        """It reads on behind what it has skipped; where that was not written, it takes the shard over anew."""
        core = self.shards[shard]
        if core.cursor.skipped_until(through) is None:
            del self.shards[shard]
            return
        self.scene.seen["skip written"] += 1
        self.scene.seen["skip before it had caught up"] += not core.caught_up
        core.advance(through + 1)
        self.stalled.pop(shard, None)

    def take_effect(self) -> None:
        """The request under way arrives, perhaps, and what it has written can be read before its answer is heard."""
        if self.request is not None and self.answer is None and self.scene.takes_effect_early():
            self.scene.seen["commit read back before its answer"] += 1
            self.answer = self._answer_to(self.request)

    def _answer_to(self, request: Request) -> Fenced | DeliveryRefused | str:
        try:
            self.scene.broker.arrive(request)
        except (Fenced, DeliveryRefused) as error:
            return error
        return APPLIED

    def _send_off(self, request: Request, fate: str) -> None:
        """Nobody waits for the answer any more."""
        if self.answer is None:
            self.scene.send_off(request, fate)
        self.answer = None

    def _on_each(self, request: Request, method: str) -> None:
        for part in request.batch:
            getattr(self.shards[part.shard], method)()

    def _forget_shards(self, request: Request) -> None:
        """It cannot be known what is true: every shard of the request is taken over anew."""
        for part in request.batch:
            del self.shards[part.shard]

    def _arrive(self, request: Request) -> None:
        answer = self.answer or self._answer_to(request)
        self.answer = None
        if isinstance(answer, Fenced):
            self._fenced(request, answer)
        elif isinstance(answer, DeliveryRefused):
            self._refused(request, answer)
        else:
            self.take_one.difference_update(part.shard for part in request.batch)
            self._on_each(request, "committed")

    def _fenced(self, request: Request, fenced: Fenced) -> None:
        """Nothing was written. The shards that are lost are dropped, the others take their records again."""
        self.scene.seen["zombie fenced"] += 1
        self.scene.trace("{}: {}", self.writer, fenced)
        self._on_each(request, "aborted")
        for shard in fenced.shards:
            del self.shards[shard]

    def _refused(self, request: Request, refused: DeliveryRefused) -> None:
        """Nothing was written; the shard at fault goes on with single records until it has found the one."""
        self.scene.seen["delivery refused by the target"] += 1
        self.scene.trace("{}: {} refuses a record", self.writer, refused.shard)
        self.take_one.add(refused.shard)
        for part in request.batch:
            core = self.shards[part.shard]
            if part.shard == refused.shard:
                core.refused("refused", refused.reason)
            else:
                core.aborted()

    # --- ownership

    def notice(self) -> None:
        """Hear which shards belong to somebody else; let go when the commit under way has ended."""
        if self.request is not None:
            return
        for shard in self.scene.shards:
            if self.scene.owner[shard] == self.name:
                continue
            self.takeovers.pop(shard, None)
            if self.shards.pop(shard, None) is not None:
                self.scene.trace("{} lets {} go", self.writer, shard)
                self.disk.drop(shard)

    def advance_takeover(self, shard: Shard, fate: str) -> bool:
        """The next step of a takeover that is under way or needed; whether there was one."""
        going = self.takeovers.get(shard)
        if going is None:
            if self.scene.owner[shard] != self.name or shard in self.shards:
                return False
            going = self.takeovers[shard] = self._takeover(shard, fate)
        if next(going, "done") == "done":
            del self.takeovers[shard]
        return True

    def _takeover(self, shard: Shard, fate: str) -> Iterator[None]:
        """The order that `delay_service.core.takeover` asks for; anything may happen at each `yield`."""
        broker = self.scene.broker
        handover = broker.takeover(shard)
        yield
        cursor = self.scene.core.claim(handover, broker.log_range(shard), self.writer)
        request = broker.send([ShardBatch(shard, cursor)], broker.now_ms)
        yield
        if not self._claim(request, fate):
            return
        self.scene.trace("{} has claimed {} with epoch {}", self.writer, shard, cursor.owner_epoch)
        yield
        self._start_shard(shard, cursor)

    def _claim(self, request: Request, fate: str) -> bool:
        """Whether the claim is known to stand; where it is not, the takeover starts again."""
        if fate != APPLIED:
            self.scene.seen["claim failed or unknown"] += 1
            self.scene.send_off(request, fate)
            return False
        try:
            self.scene.broker.arrive(request)
        except Fenced:
            self.scene.seen["claim fenced"] += 1
            return False
        return True

    def _start_shard(self, shard: Shard, cursor: Cursor) -> None:
        scene, index = self.scene, self.disk.shard(shard)
        checkpoint = index.checkpoint()
        plan = scene.core.plan(cursor, scene.broker.log_range(shard), checkpoint)
        self._note_plan(shard, plan, checkpoint)
        scene.seen["takeover while paused"] += cursor.paused
        rules, near_due_ms = scene.configured_rules(shard), scene.habits.near_due_ms
        late_max_ms = NEVER_MS if scene.habits.late_max_ms is None else scene.habits.late_max_ms
        settings = ShardSettings(rules, NAMES, near_due_ms, late_max_ms=late_max_ms, low_water_interval_ms=5)
        self.stalled.pop(shard, None)
        self.shards[shard] = scene.core.shard(shard, plan, index, settings)

    def _note_plan(self, shard: Shard, plan: Plan, checkpoint: Any) -> None:
        if checkpoint is None:
            kind = "without an index"
        elif checkpoint.topic_id != plan.cursor.topic_id:
            kind = "with the index of another topic"
        elif not plan.reuse:
            kind = "with an index too old"
        elif checkpoint.offset < plan.cursor.next_offset:
            kind = "with an index that is behind"
        else:
            kind = "with an index up to date"
        self.scene.seen[f"takeover {kind}"] += 1
        reads = (plan.resume_offset, plan.read_to)
        self.scene.trace("{} takes {} over {}: reads from #{} to #{}", self.writer, shard, kind, *reads)

    def crash(self, new_disk: AnyDisk | None) -> None:
        """SIGKILL between two steps: memory is gone, the disk falls back to a state it once had, or is a new one."""
        scene = self.scene
        scene.trace("{} crashes{}", self.writer, ", its disk is lost" if new_disk else "")
        if self.request is not None:
            scene.seen["crash with a commit in flight"] += 1
            self._send_off(self.request, scene.rnd.choice((UNHEARD, LOST, LATE)))
        self.request, self.skipping = None, None
        self.shards.clear()
        self.stalled.clear()
        self.takeovers.clear()
        self.take_one.clear()
        self.life += 1
        if new_disk is not None:
            self.disk = new_disk
        elif self.disk.crash(scene.rnd):
            scene.seen["disk fell back to an earlier state"] += 1
