"""The real worker over the queue and the index in memory, with faults drawn from a seed, and a judge of what is left.

The simulation proper has a loop of its own around the core, so it does not cover `delay_service.worker.loop`:
what a failed commit does to the shards beside it, when a seek is repeated, what a pause forgets. Here that loop runs.
Nothing runs beside it: a commit is carried out when the seed decides it, and a seed gives the same run every time.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from random import Random
from typing import Any, NamedTuple, ParamSpec

from prometheus_client import CollectorRegistry

from delay_service.core.history import History
from delay_service.core.shard import Shard as Core
from delay_service.core.shard_settings import ShardSettings
from delay_service.worker.decisions import Decisions
from delay_service.worker.loop import Worker
from delay_service.worker.metrics import WorkerMetrics
from delay_service.worker.settings import WorkerSettings
from delayline.buffer.outcome import FORWARDED, REPLACED, AuditRecord, AuditRow, Outcome, decode_audit
from delayline.buffer.record import Message, RulesChange, read
from delayline.clock import ManualClock
from delayline.records.message import BEFORE_ALL, Header, MessageId, Shard
from delayline.records.record import decode_body, encode_body
from delayline.schedule.rules import DEFAULT_RULES, Rules
from mq.contract import Append, DispatchBatch, LogRecord
from mq.errors import CommitAborted, CommitUnknown, DeliveryRefused, Fenced, TopicUnknown
from mq.memory import MemoryQueue
from store.memory import MemoryIndex
from tests.unit.delay_service.harness import NAMES, FaultySink

FAULTS = (
    "commit aborted", "commit unknown, not written", "commit unknown, written", "record refused", "target refused",
    "fenced", "store full", "record rolled", "rules changed", "clock jumped back", "clock jumped ahead",
    "crash with a commit in flight", "index fell back", "index lost", "clean stop", "seek out of range",
    "operation forwarded", "given back to a group", "dead for a group",
    "duplicate", "replaced", "expired", "repeated", "taken over while paused",
    "lost and given back", "lost and given back with a commit in flight", "lost and given back during its takeover",
)  # fmt: skip
STEPS = {
    "send": 45, "wish": 10, "control": 4, "cancel": 8, "turn": 30, "clock_advances": 10, "clock_jumps": 2, "roll": 3,
    "disk_fills": 2, "seek_astray": 2, "rules_change": 2, "crash": 3, "stop": 1,
}  # fmt: skip
"""Methods of `RealWorker`, and how often each is drawn."""
LOSES, ONE_IN = {"lose": 12}, 4
"""A step more in one run of so many: a worker that keeps losing shards reads back what the others have to know."""
REFUSED = b"refused"
GROUP = b"billing"
RETRY, DLQ = NAMES.retry(GROUP.decode()), NAMES.dlq(GROUP.decode())
DELAYS_MS = (0, 1, 50, 1000, 3000, 30_000, 3_600_000)
DISK_FREE_MIN_BYTES = 50
ROUNDS_MAX, ROUND_MS, QUIET_ROUNDS = 500, 70_000, 3
"""A round is longer than any backoff; there are enough for batches of one; what comes twice comes in the quiet."""


class Wished(NamedTuple):
    """A message that asks for more than a time: where it stands, its names, how often it is to come, and whether it
    may expire."""

    partition: str
    offset: int
    names: frozenset[bytes]
    times: int
    may_expire: bool


OWN_IDS, KEYS = (b"a", b"b"), (b"d1 k", b"d1 l")
REPEATS: list[Header] = [(b"delay-every", b"1s"), (b"delay-times", b"3"), (b"delay-missed", b"all")]


class JumpingClock(ManualClock):
    """Wall time may jump, monotonic time does not."""

    jumped_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.jumped_ms


class Postponed(Future[Any]):
    """Work that is done when somebody waits for it, or, if the seed decides so, when its state is asked for."""

    def __init__(self, work: Callable[[], Any], rnd: Random) -> None:
        super().__init__()
        self._work, self._rnd = work, rnd

    def carry_out(self) -> None:
        if super().done():
            return
        try:
            self.set_result(self._work())
        except Exception as error:  # noqa: BLE001 - handed to the one who asked
            self.set_exception(error)

    def done(self) -> bool:
        if self._rnd.random() < 0.5:
            self.carry_out()
        return super().done()

    def result(self, timeout: float | None = None) -> Any:
        self.carry_out()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.carry_out()
        return super().exception(timeout)


P = ParamSpec("P")


class Committer(Executor):
    """The worker's committing thread without the thread: one thing after the other, but not at once."""

    def __init__(self, rnd: Random) -> None:
        self._rnd = rnd
        self._last = Postponed(lambda: None, rnd)

    def submit(self, work: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Postponed:
        self._last.carry_out()
        self._last = Postponed(partial(work, *args, **kwargs), self._rnd)
        return self._last

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._last.carry_out()


class Acquirer(Committer):
    """The thread that takes shards over, without the thread."""


class RealWorker:
    """One run. `seen` counts the faults that really happened."""

    def __init__(self, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self._rnd = Random(seed)
        self._clock = JumpingClock()
        self._partitions = [str(number) for number in range(self._rnd.choice((1, 2, 3)))]
        self._queue = MemoryQueue(namespace="delayline", clock=self._clock, partitions=len(self._partitions))
        self._queue.ensure_buffer("orders", DEFAULT_RULES)
        self._rules = DEFAULT_RULES
        self._free_bytes = DISK_FREE_MIN_BYTES
        self._index = self._new_index()
        self._faults = True
        self._sent: dict[bytes, str] = {}  # value -> the topic where it is to end
        self._ids: dict[bytes, MessageId] = {}  # of some of them
        self._wishes: dict[bytes, Wished] = {}
        self._steps = STEPS | LOSES if seed % ONE_IN == 0 else STEPS
        self._start()

    def run(self) -> list[str]:
        """What went wrong; nothing if every promise was kept."""
        for step in self._rnd.choices(list(self._steps), list(self._steps.values()), k=self._rnd.choice((40, 80))):
            getattr(self, f"_{step}")()
        self._settle()
        return [*self._arrivals(), *self._wished(), *self._outcomes(), *self._remains()]

    # --- a process

    def _new_index(self) -> MemoryIndex:
        return MemoryIndex(self._free, DISK_FREE_MIN_BYTES)

    def _free(self) -> int:
        self.seen["store full"] += self._free_bytes < DISK_FREE_MIN_BYTES
        return self._free_bytes

    def _start(self) -> None:
        settings = self._settings()
        self._source, sink = self._queue.open_worker(settings.writer)
        faulty = FaultySink(sink)
        faulty.fault, faulty.after = self._before, self._after
        metrics = WorkerMetrics(CollectorRegistry(), History(1000, 86_400_000), Decisions(), self._clock)
        acquirer = Acquirer(self._rnd)  # beside the commits: what is asked may be answered before or after them
        self._committer = Committer(self._rnd)
        self._worker = Worker(
            self._source,
            faulty,
            self._queue,
            self._index,
            self._clock,
            settings,
            metrics,
            acquirer,
            self._committer,
        )
        self._worker.buffer_maintenance.close()
        self._worker.buffer_maintenance.executor = self._committer

    def _settings(self) -> WorkerSettings:
        choice = self._rnd.choice
        shard = ShardSettings(self._rules, NAMES, near_due_ms=choice((0, 100, 2000)))
        return WorkerSettings(
            lambda _: shard,
            f"w{self._rnd.randrange(10**9)}",
            poll_records_max=choice((3, 50)),
            batch_records_max=choice((1, 4, 100)),
            near_bytes_max=choice((500, 1 << 20)),
            poll_wait_max_s=0.0,
            commit_interval_s=0.0,
            checkpoint_interval_s=choice((0.0, 1.0)),
            trim_interval_s=choice((0.0, 5.0)),
            status_interval_s=0.0,
        )

    def _cores(self) -> list[Core]:
        cores = (self._worker.core(Shard("orders", name)) for name in self._partitions)
        return [core for core in cores if core is not None]

    # --- what a commit meets

    def _before(self, batch: DispatchBatch) -> Exception | None:
        for part in batch:
            bodies = [body for body, _ in part.deliveries] + [append.body for append in part.cross_partition]
            if any(REFUSED in body for body in bodies):
                return self._met("record refused", DeliveryRefused(part.shard, "bad", of_record=True))
        shard, draw = self._rnd.choice(batch).shard, self._rnd.random() if self._faults else 1.0
        if draw < 0.10:
            return self._met("commit aborted", CommitAborted("no"))
        if draw < 0.15:
            return self._met("commit unknown, not written", CommitUnknown("silence"))
        if draw < 0.18:
            return self._met("target refused", DeliveryRefused(shard, "full", of_record=False))
        return self._met("fenced", Fenced([shard])) if draw < 0.20 else None

    def _after(self, batch: DispatchBatch) -> Exception | None:
        for append in (append for part in batch for append in part.cross_partition):
            what = {RETRY: "given back to a group", DLQ: "dead for a group"}.get(append.topic, "operation forwarded")
            self.seen[what] += 1
        for body in (body for part in batch for body in part.appends):
            meaning = read(body, 0, DEFAULT_RULES)
            self.seen["record rolled"] += isinstance(meaning, Message)
            self.seen["rules changed"] += isinstance(meaning, RulesChange)
        if self._faults and self._rnd.random() < 0.05:
            return self._met("commit unknown, written", CommitUnknown("silence"))
        return None

    def _met(self, fault: str, error: Exception) -> Exception:
        self.seen[fault] += 1
        return error

    # --- steps

    def _send(self) -> None:
        for _ in range(self._rnd.choice((1, 3, 20))):
            refused, malformed = self._rnd.random() < 0.03, self._rnd.random() < 0.05
            value = b"%s%d" % (REFUSED if refused else b"message", len(self._sent))
            headers, topic = self._directives()
            if malformed:
                headers = [(b"delay-ms", b"never")]
            partition, (offset, at_ms) = self._append(value, headers)
            if headers[0][0] == b"delay-ms" and not malformed:
                due_ms = at_ms + int(headers[0][1] or b"")
                self._ids[value] = MessageId(Shard("orders", partition), offset, due_ms)
            self._sent[value] = NAMES.dead if refused or malformed else topic

    def _wish(self) -> None:
        """Some of: an own id, an idempotency key, a time to live, repeats."""
        rnd = self._rnd
        value = b"wish%d" % len(self._wishes)
        headers: list[Header] = [(b"delay-ms", b"%d" % rnd.choice(DELAYS_MS[1:]))]
        names, times, may_expire = set(), 1, False
        if rnd.random() < 0.5:
            names.add(own_id := rnd.choice(OWN_IDS))
            headers += [(b"delay-id", own_id), (b"delay-on-conflict", rnd.choice((b"keep", b"replace")))]
        if rnd.random() < 0.3:
            names.add(key := rnd.choice(KEYS))
            headers.append((b"delayline-idempotency", key))
        if may_expire := rnd.random() < 0.3:
            headers.append((b"delay-ttl", b"10s"))
        if rnd.random() < 0.4:
            headers, times = headers + REPEATS, 3
        partition, (offset, _) = self._append(value, headers)
        self._wishes[value] = Wished(partition, offset, frozenset(names), times, may_expire)

    def _control(self) -> None:
        self._append(None, [(b"delayline-control", self._rnd.choice((b"pause", b"resume")))])

    def _append(self, value: bytes | None, headers: Sequence[Header]) -> tuple[str, tuple[int, int]]:
        """Into any partition: which it is, and offset and append time."""
        return self._append_to(self._rnd.choice(self._partitions), value, headers)

    def _append_to(
        self, partition: str, value: bytes | None, headers: Sequence[Header]
    ) -> tuple[str, tuple[int, int]]:
        append = Append(NAMES.buffer("orders"), partition, encode_body(None, value, headers))
        (position,) = self._queue.append([append]).result()
        return partition, (position.offset, position.appended_at_ms)

    def _cancel(self) -> None:
        """One that waits, or has ended; in its partition or in another."""
        if self._ids:
            ref = str(self._rnd.choice(list(self._ids.values()))).encode()
            if self._rnd.random() < 0.2:
                ref = self._rnd.choice(OWN_IDS)
            self._append(None, [(b"delay-op", b"cancel"), (b"delay-ref", ref)])

    def _directives(self) -> tuple[list[Header], str]:
        """And the topic where a message with them ends."""
        if self._rnd.random() > 0.1:
            return [self._directive()], "orders"
        attempt = self._rnd.choice((0, 1, 15, 16))
        headers: list[Header] = [(b"delay-retry", GROUP), (b"delayline-attempt", b"%d" % attempt)]
        return headers, DLQ if attempt == 16 else RETRY

    def _directive(self) -> Header:
        moment_ms = self._clock.now_ms() + self._rnd.randrange(-100_000, 100_000)
        delay_ms, level = self._rnd.choice(DELAYS_MS), self._rnd.randrange(1, 4)
        directives = (
            (b"delay-ms", b"%d" % delay_ms),
            (b"deliver-at", b"%d" % moment_ms),
            (b"delay-level", b"%d" % level),
        )
        return self._rnd.choices(directives, (70, 15, 15))[0]

    def _turn(self) -> None:
        before = {core.cursor.owner_epoch for core in self._cores()}
        self._worker.turn()
        new = [core for core in self._cores() if core.cursor.owner_epoch not in before]
        self.seen["taken over while paused"] += any(core.cursor.paused for core in new)
        self.seen["seek out of range"] += any(status.stalled == "out_of_range" for status in self._worker.statuses)

    def _clock_advances(self) -> None:
        self._clock.advance(self._rnd.choice((1, 20, 500, 2000, 20_000)))

    def _clock_jumps(self) -> None:
        jump_ms = self._rnd.choice((-5000, -50, 50, 5000))
        self._clock.jumped_ms += jump_ms
        self.seen["clock jumped back" if jump_ms < 0 else "clock jumped ahead"] += 1

    def _roll(self) -> None:
        for core in self._cores()[:1]:
            core.rolls.ask(key for key in self._index.shard(core.id).keys(BEFORE_ALL, 20) if self._rnd.random() < 0.4)

    def _disk_fills(self) -> None:
        self._free_bytes = self._rnd.choice((0, DISK_FREE_MIN_BYTES))

    def _seek_astray(self) -> None:
        for core in self._cores()[:1]:
            self._source.seek(core.id, 10**6)

    def _lose(self) -> None:
        """A shard is lost and given back at once: by a group that has forgotten its member for a moment."""
        busy = [core.id.partition for core in self._cores() if core.in_flight is not None]
        reader = self._source._readers[Shard("orders", self._rnd.choice(busy or self._partitions))]
        owned = self._worker.owned(Shard("orders", reader.partition.name))
        during = owned is not None and owned.core is None and self._worker.acquisition.is_under_way
        with self._queue._ledger.lock:
            self._source.unassign([reader.partition])
            self._source.assign([reader.partition])
        self.seen["lost and given back"] += 1
        self.seen["lost and given back during its takeover"] += during
        self.seen["lost and given back with a commit in flight"] += bool(busy)

    def _rules_change(self) -> None:
        """For the next process: rules come from its configuration."""
        self._rules = Rules(levels_ms=(self._rnd.randrange(1, 5000),) * 3)

    def _crash(self) -> None:
        """Nobody hears how the commit in flight ends, and the disk has got what it has got."""
        self.seen["crash with a commit in flight"] += any(core.in_flight is not None for core in self._cores())
        if self._rnd.random() < 0.5:
            self._committer.shutdown()
        keep = self._rnd.randint(self._index.flushed, self._index.written)
        lost = self._rnd.random() < 0.2
        self.seen["index lost" if lost else "index fell back"] += keep < self._index.written
        self._index = self._new_index() if lost else self._index.crash(keep)
        self._start()

    def _stop(self) -> None:
        self._worker.stop()
        self._worker.run()
        self.seen["clean stop"] += 1
        self._start()

    def _settle(self) -> None:
        """No more faults; on until nothing is left to do, or far longer than it can take."""
        self._faults, self._free_bytes, quiet = False, DISK_FREE_MIN_BYTES, 0
        for name in self._partitions:
            self._append_to(name, None, [(b"delayline-control", b"resume")])
        for _ in range(ROUNDS_MAX):
            for _ in range(4):
                self._worker.turn()
                self._worker.wait_for_commit()
            quiet = 0 if any(self._remains()) else quiet + 1
            if quiet == QUIET_ROUNDS:
                return
            self._clock.advance(ROUND_MS)

    # --- the judge

    def _log(self, topic: str) -> list[LogRecord]:
        return [record for name in self._partitions for record in self._queue.read(topic, name, 0, 10**6)]

    def _values(self, topic: str) -> Counter[bytes | None]:
        """None where the topic has not been made."""
        try:
            return Counter(decode_body(record.body).value for record in self._log(topic))
        except TopicUnknown:
            return Counter()

    def _arrivals(self) -> Iterator[str]:
        cancelled = {row.id for _, rows in self._audits() for row in rows if row.outcome is Outcome.CANCELLED}
        arrived = {topic: self._values(topic) for topic in ("orders", NAMES.dead, RETRY, DLQ)}
        for value, topic in self._sent.items():
            expected = {} if str(self._ids.get(value)) in cancelled else {topic: 1}
            found = {topic: values[value] for topic, values in arrived.items() if value in values}
            if found != expected:
                yield f"{value!r} arrived in {found}, and not in {expected}"

    def _wished(self) -> Iterator[str]:
        """Those that asked for more came as often as in the rows, and the rows end none for nothing."""
        arrived, ended = self._values("orders"), self._endings()
        by_place = {(wish.partition, wish.offset): wish for wish in self._wishes.values()}
        for value, wish in self._wishes.items():
            rows = ended[wish.partition, wish.offset]
            outcomes = Counter(row.outcome for row in rows)
            early = [row for row in rows if row.outcome not in (Outcome.DELIVERED, Outcome.EXPIRED)]
            others = [MessageId.parse(row.successor).offset for row in early if row.successor is not None]
            shared = [by_place[wish.partition, offset].names & wish.names for offset in others]
            came, expired = outcomes[Outcome.DELIVERED], outcomes[Outcome.EXPIRED]
            whole = came + expired == wish.times and not early
            cut_short = came + expired < wish.times and len(early) == 1
            if came != arrived[value] or not (whole or cut_short) or not all(shared):
                yield f"{value!r} came {arrived[value]} times, {wish}, and ended as {rows}"
            if expired and not wish.may_expire:
                yield f"{value!r} has expired, {wish}"
            self._count(early, expired, came)

    def _count(self, early: Sequence[AuditRow], expired: int, came: int) -> None:
        self.seen["expired"] += expired
        self.seen["repeated"] += came > 1
        for row in early:
            self.seen["replaced" if row.outcome is Outcome.SUPERSEDED else row.outcome.value] += 1

    def _endings(self) -> Mapping[tuple[str, int], list[AuditRow]]:
        """By partition and offset of the first acceptance, without those of records that were carried on."""
        found: defaultdict[tuple[str, int], list[AuditRow]] = defaultdict(list)
        for audit, rows in self._audits():
            for row in rows:
                if row.id is not None and (row.outcome is not Outcome.SUPERSEDED or row.reason == REPLACED):
                    found[audit.shard, MessageId.parse(row.id).offset].append(row)
        return found

    def _audits(self) -> list[tuple[AuditRecord, list[AuditRow]]]:
        values = (decode_body(record.body).value for record in self._log(NAMES.audit))
        return [decode_audit(value) for value in values if value is not None]

    def _outcomes(self) -> Iterator[str]:
        rows = Counter((audit.shard, row.offset) for audit, outcomes in self._audits() for row in outcomes)
        records = {(name, offset) for name in self._partitions for offset in range(self._end(name))}
        forwarded = sum(row.reason == FORWARDED for _, outcomes in self._audits() for row in outcomes)
        if forwarded != (written := self.seen["operation forwarded"]):
            yield f"{written} operations were forwarded, and {forwarded} reported as such"
        yield from (
            f"record {record} has {rows[record]} outcomes" for record in records | set(rows) if rows[record] != 1
        )

    def _end(self, name: str) -> int:
        return self._queue.offsets(NAMES.buffer("orders"), name)[1]

    def _remains(self) -> Iterator[str]:
        cores = self._cores()
        if len(cores) < len(self._partitions):
            yield "a shard is not taken over"
        for core in cores:
            if pending := self._index.shard(core.id).pending() + len(core.messages.moving):
                yield f"{core.id}: {pending} pending"
            if core.cursor.next_offset != self._end(core.id.partition):
                yield f"{core.id}: the cursor stands at {core.cursor.next_offset}, the log ends behind it"
