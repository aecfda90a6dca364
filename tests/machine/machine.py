"""Random programs for the worker, in step with the model: hypothesis draws them, and shrinks the one that fails."""

from collections import Counter
from dataclasses import dataclass
from typing import TypedDict, Unpack

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from delayline.buffer.outcome import decode_audit
from delayline.buffer.record import encode_control
from delayline.records.message import Header
from delayline.records.record import decode_body
from store.memory import MemoryIndex
from tests.machine.model import Model, Waiting
from tests.unit.delay_service.harness import Bench

SECOND_MS = 1000
HITS: Counter[tuple[str, str]] = Counter()
"""How often each rule was followed and each outcome met, over all programs of this process."""

DELAYS_MS = st.sampled_from([0, 1, 500, 1000, 2500, 30_000, 3_600_000])
OWN_IDS = st.sampled_from(["a", "b", None])
QUIET_TURNS = 3
TOPICS = ("delayline.audit", "delayline.buffer.orders")


@dataclass(frozen=True)
class _Row:
    name: str | None
    outcome: str


class Wanted(TypedDict, total=False):
    """What a message asks for beside its delay: fields of `Waiting`."""

    own_id: str | None
    request: tuple[str, str]
    ttl_ms: int
    every_ms: int
    times: int
    missed: str


class WorkerMachine(RuleBasedStateMachine):
    """One shard, one worker, and what a user can see of both."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(batch_records_max=3)
        self.model = Model()
        self.ids: list[str] = []
        self.starts = 1
        self._counted: set[str | None] = set()
        self.bench.turn()

    def _now_ms(self) -> int:
        return self.bench.clock.now_ms()

    # --- messages

    def _send(self, delay_ms: int, headers: list[Header], *, replaces: bool = False, **more: Unpack[Wanted]) -> str:
        """It is due the delay after now; the model's id is the service's own."""
        directives = [(b"delay-ms", b"%d" % delay_ms), *headers]
        offset = self.bench.send(b"", *directives)
        message_id = f"orders.0.{offset}.{self._now_ms() + delay_ms}"
        self.ids.append(message_id)
        message = Waiting(message_id, self._now_ms() + delay_ms, self.model.next_order(), **more)
        return self._settled(self.model.send(message, replaces=replaces))

    @rule(delay_ms=DELAYS_MS.filter(bool), own_id=OWN_IDS, replaces=st.booleans())
    def send(self, delay_ms: int, own_id: str | None, replaces: bool) -> None:
        headers: list[Header] = []
        if own_id is not None:
            conflict = b"replace" if replaces else b"keep"
            headers = [(b"delay-id", own_id.encode()), (b"delay-on-conflict", conflict)]
        came = self._send(delay_ms, headers, replaces=replaces, own_id=own_id)
        HITS["send with an own id" if own_id else "send", came] += 1

    @rule(delay_ms=DELAYS_MS.filter(bool), key=st.sampled_from("xy"), digest=st.sampled_from("12"))
    def send_request(self, delay_ms: int, key: str, digest: str) -> None:
        header = (b"delayline-idempotency", f"{digest} {key}".encode())
        HITS["send with an idempotency key", self._send(delay_ms, [header], request=(key, digest))] += 1

    @rule(delay_ms=DELAYS_MS.filter(bool), ttl_s=st.sampled_from([1, 60]))
    def send_with_ttl(self, delay_ms: int, ttl_s: int) -> None:
        header = (b"delay-ttl", b"%ds" % ttl_s)
        HITS["send with a ttl", self._send(delay_ms, [header], ttl_ms=ttl_s * SECOND_MS)] += 1

    @rule(
        delay_ms=DELAYS_MS,
        every_s=st.sampled_from([1, 2, 600]),
        times=st.integers(1, 4),
        missed=st.sampled_from(["all", "latest", "none"]),
        own_id=OWN_IDS,
    )
    def send_series(self, delay_ms: int, every_s: int, times: int, missed: str, own_id: str | None) -> None:
        headers: list[Header] = [
            (b"delay-every", b"%ds" % every_s),
            (b"delay-times", b"%d" % times),
            (b"delay-missed", missed.encode()),
        ]
        if own_id is not None:
            headers.append((b"delay-id", own_id.encode()))
        came = self._send(delay_ms, headers, every_ms=every_s * SECOND_MS, times=times, missed=missed, own_id=own_id)
        HITS["send a series", came] += 1

    # --- operations

    def _operate(self, name: str, ref: str, headers: list[Header], came: str) -> None:
        offset = self.bench.send(b"", (b"delay-ref", ref.encode()), *headers)
        self._settled(came)
        HITS[name, came] += 1
        outcome = next(row.outcome for at, row in self._rows() if at == offset)
        assert outcome == came, f"{name} of {ref}: the service has {outcome}, the model {came}"

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), occurrence=st.sampled_from([None, None, 1, 2]))
    def cancel(self, data: st.DataObject, occurrence: int | None) -> None:
        ref = data.draw(st.sampled_from(self.ids[-5:]))
        found = self.model.waiting.get(ref)
        if occurrence is not None and found is not None and found.every_ms is None:
            occurrence = None
        came = self.model.cancel(found, occurrence=occurrence)
        name = ref if occurrence is None else f"{ref}~{occurrence}"
        self._operate("cancel", name, [(b"delay-op", b"cancel")], came)

    @rule(own_id=st.sampled_from("ab"))
    def cancel_own(self, own_id: str) -> None:
        came = self.model.cancel(self.model.find_own(own_id))
        self._operate("cancel by own id", own_id, [(b"delay-op", b"cancel")], came)

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), delay_ms=DELAYS_MS)
    def reschedule(self, data: st.DataObject, delay_ms: int) -> None:
        ref = data.draw(st.sampled_from(self.ids[-5:]))
        came = self.model.reschedule(self.model.waiting.get(ref), self._now_ms() + delay_ms)
        headers: list[Header] = [(b"delay-op", b"reschedule"), (b"delay-ms", b"%d" % delay_ms)]
        self._operate("reschedule", ref, headers, came)

    # --- the shard

    def _control(self, kind: str, came: str) -> None:
        self.bench.send_raw(encode_control(kind))
        self._settled(came)
        HITS[kind, came] += 1

    @precondition(lambda self: self.model.waiting and not self.model.paused)
    @rule()
    def pause(self) -> None:
        self.model.paused = True
        self._control("pause", "applied: paused")

    @rule()
    def resume(self) -> None:
        self.model.paused = False
        self._control("resume", "applied: resumed")

    @precondition(lambda self: len(self.model.waiting) > 2)
    @rule()
    def purge(self) -> None:
        self._control("purge", self.model.purge())

    @rule(ms=st.sampled_from([1, 400, 1500, 10_000, 3_700_000]))
    def time_passes(self, ms: int) -> None:
        self.bench.clock.advance(ms)
        self._settled("")
        HITS["time passes", ""] += 1

    @rule(lose_index=st.booleans(), kill=st.booleans())
    def restart(self, lose_index: bool, kill: bool) -> None:
        """A new process; with `kill` the old one does not shut down. It forgets the requests of what has ended."""
        if not kill:
            self.bench.worker.stop()
            self.bench.worker.run()
        self.bench.index = MemoryIndex() if lose_index else self.bench.index.crash(self.bench.index.written)
        self.starts += 1
        self.bench.start(f"w{self.starts}")
        waiting = {message.request[0] for message in self.model.waiting.values() if message.request}
        self.model.requests = {key: digest for key, digest in self.model.requests.items() if key in waiting}
        self._settled("")
        HITS["restart", f"index {'lost' if lose_index else 'kept'}"] += 1

    # --- in step

    def _settled(self, came: str) -> str:
        """Let both do what there is to do."""
        self.model.pass_time(self._now_ms())
        quiet, before = 0, -1
        while quiet < QUIET_TURNS:
            self.bench.turn(1)
            written = sum(self.bench.queue.offsets(topic, "0")[1] for topic in TOPICS)
            quiet, before = (quiet + 1, before) if written == before else (0, written)
        return came

    def _rows(self) -> list[tuple[int, _Row]]:
        values = (decode_body(record.body).value or b"" for record in self.bench.log("delayline.audit"))
        rows = (row for value in values for row in decode_audit(value)[1])
        return [(row.offset, _Row(row.id, f"{row.outcome.value}: {row.reason}")) for row in rows]

    @invariant()
    def delivered_alike(self) -> None:
        service = [dict(decode_body(record.body).headers) for record in self.bench.log("orders")]
        names = [(headers[b"delayline-id"] or b"").decode() for headers in service]
        assert sorted(names) == sorted(self.model.delivered)

    @invariant()
    def ended_alike(self) -> None:
        passing = ("superseded: rescheduled", "superseded: missed")
        outcomes = {row.name: row.outcome for _, row in self._rows() if row.name and row.outcome not in passing}
        assert outcomes == self.model.ended
        for name in outcomes.keys() - self._counted:
            HITS["outcome", outcomes[name]] += 1
        self._counted |= outcomes.keys()

    @invariant()
    def waiting_alike(self) -> None:
        statuses = self.bench.worker.statuses
        assert sum(status.pending for status in statuses) == len(self.model.waiting)
