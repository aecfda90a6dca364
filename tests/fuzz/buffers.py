"""Records written straight into a buffer topic by somebody with the right to: every kind that there is, changed.

One shard and one worker in this process. Whatever the log holds, the next good message is delivered, neither early
nor twice. Only a record that a later version may have written stops a shard; an operator skips it then.
"""

from pathlib import Path
from random import Random

from delayline.buffer.decisions import encode_decision
from delayline.buffer.record import (
    READING_FAILS,
    encode_control,
    encode_reappend,
    encode_rules,
    encode_value,
)
from delayline.questions.inquiry import Skip
from delayline.records.headers import RULES
from delayline.records.message import BEFORE_ALL, Header, Key
from delayline.records.record import decode_body, encode_body, pack, split_directives
from delayline.schedule.rules import DEFAULT_RULES
from delayline.times import MOMENT_MAX_MS, format_moment
from mq.contract import DispatchBatch
from mq.errors import CommitAborted
from tests.fuzz.campaign import Broken, Campaign
from tests.unit.delay_service.harness import ORDERS, Bench

HEADERS: tuple[Header, ...] = (
    (b"delay", b"5s"), (b"delay-ms", b"1000"),
    (b"deliver-at", b"1767225630000"), (b"deliver-at", b"2026-01-01T00:00:00Z"),
    (b"delay-level", b"3"), (b"delay-cron", b"*/5 * * * *"),
    (b"delay-tz", b"Europe/Berlin"), (b"delay-every", b"10s"),
    (b"delay-times", b"3"), (b"delay-until", b"2030-01-01T00:00:00Z"),
    (b"delay-missed", b"latest"), (b"delay-ttl", b"60s"),
    (b"delay-id", b"order-7"), (b"delay-on-conflict", b"replace"),
    (b"delay-op", b"cancel"), (b"delay-op", b"reschedule"),
    (b"delay-ref", b"orders.0.3.1767225630000"),
    (b"delay-retry", b"group 5"), (b"delayline-origin", b"orders.0.1.5"),
    (b"delayline-replaces", b"5.1"), (b"delayline-due", b"9999"),
    (b"delayline-accepted", b"1"), (b"delayline-version", b"1"),
    (b"delayline-terms", b"\x80"), (b"delayline-decision", b"1"),
    (b"delayline-rules", b"1"), (b"delayline-control", b"purge"),
    (b"delayline-idempotency", b"digest key"), (b"delayline-if-match", b"0"), (b"delayline-forwarded", b"1"),
    (b"delayline-id", b"orders.0.1.5"), (b"delayline-due-ms", b"17"), (b"trace", b"x"),
)  # fmt: skip
"""What records carry; the names are those of docs/formats/buffer.md and docs/directives.md."""
RECORDS_MAX = 400
"""In one shard: then a new one begins, for a purge or a pause hides what comes behind it."""
TURNS_MAX = 12
STALLS = ("unknown_format",)
"""Reasons for which a shard may wait for an operator (docs/howto/stalled-shard.md)."""

ODD_RULES = (b"{}", b'{"levels_ms":[1]}', b'{"number":1,"parser":1,"levels_ms":[1],"aliases":[],"more":1}')
"""Of no version: they change nothing."""

HUGE_BYTES, SHOWN_BYTES = 200_000, 500
"""What this broker has no memory for; and what is shown of a record."""

NARROWED_MAX = 100
AS_THEY_ARE = ("odd rules", "huge")
MEANINGLESS = (b"delayline-set-aside", b"delayline-id", b"delayline-reason", b"delayline-topic")
FAR = b"in the far future"
SKIPS_MAX = 6
"""In one cursor (docs/formats/cursor.md)."""


def _no_memory(batch: DispatchBatch) -> Exception | None:
    large = any(len(body) > HUGE_BYTES for part in batch for body, _ in part.deliveries)
    return CommitAborted("out of memory") if large else None


class Buffers(Campaign):
    """In this process, over the in-memory queue and index, on a clock that moves when it is moved."""

    name = "buffers"
    covers = ("delayline/*.py", "delay_service/*.py")

    def __init__(self, random: Random, folder: Path) -> None:
        super().__init__(random, folder)
        self._begin()

    def _begin(self) -> None:
        self.bench = Bench(batch_records_max=50)
        self.bench.turn()
        self.bench.sink.fault = _no_memory
        self._sent: list[bytes] = []
        self._skips = 0

    def case(self) -> str:
        kind, body = self._record()
        if kind not in AS_THEY_ARE and self.random.random() < 0.6:
            body = self.mutator.some(body)
        self._sent.append(body[:SHOWN_BYTES])
        try:
            offset = self.bench.send_raw(body)
            self.bench.clock.advance(self.mutator.pick(of=(0, 0, 1, 1000, 60_000)))
            self.bench.turn(1)
        except Exception as error:
            raise Broken(f"{error!r} of {kind} {body[:SHOWN_BYTES]!r}") from error
        if kind == "odd rules":
            self._check_rules(offset, body)
        if len(self._sent) >= RECORDS_MAX or self._skips >= SKIPS_MAX - 1:
            self.judge()
            self._begin()
        return f"{kind}, skipped" if self._skip() else kind

    def _skip(self) -> bool:
        """What an operator does where the shard has stalled. Raises Broken for a stall without a way out."""
        owned = self.bench.worker.owned(ORDERS)
        assert owned is not None, "there is one worker"
        seen = self.bench.worker.way_out.report(owned)
        if seen.reason is None:
            return False
        if seen.reason == "commit" and self._skips < SKIPS_MAX:
            return self._narrow()
        if READING_FAILS in seen.detail or seen.reason not in STALLS or self._skips >= SKIPS_MAX:
            raise Broken(f"stalled: {seen.reason}, {seen.detail}, behind {self._last()}")
        wanted = Skip(seen.reason, seen.offset, seen.offset, by="fuzz")
        done = self.bench.worker.way_out.skip(owned, wanted, b"raw")
        if done.refused or done.reason is not None:
            raise Broken(f"not skipped: {done.refused or done.reason}, behind {self._last()}")
        self._skips += 1
        return True

    def _narrow(self) -> bool:
        """What an operator does where commits fail: waits for a name. Raises Broken where there is none."""
        owned = self.bench.worker.owned(ORDERS)
        assert owned is not None, "there is one worker"
        for _ in range(NARROWED_MAX):
            seen = self.bench.worker.way_out.report(owned)
            if seen.reason != "commit":
                return False
            if seen.does:
                done = self.bench.worker.way_out.skip(owned, Skip(seen.reason, seen.offset, seen.offset), b"")
                if done.refused:
                    raise Broken(f"not skipped: {done.refused}, behind {self._last()}")
                return True
            self.bench.clock.advance(10_000)
            self.bench.turn(1)
        raise Broken(f"commits fail, and no record is named for it, behind {self._last()}")

    def _record(self) -> tuple[str, bytes]:
        """Some record of each kind, sound."""
        random = self.random
        headers = [self._header() for _ in range(random.choice((0, 1, 2, 3, 5)))]
        plain = encode_body(b"key", b"value", headers)
        match random.randrange(10):
            case 8:
                return "odd rules", encode_body(None, random.choice(ODD_RULES), [(RULES, b"1")])
            case 9 if random.random() < 0.05:
                return "huge", encode_body(None, bytes(2 * HUGE_BYTES), [(b"delay-ms", b"1")])
            case 9:
                return "re-append", self._odd_reappend()
            case 0:
                return "control", encode_control(random.choice(("resume", "purge")))
            case 1:
                return "decision", encode_decision(
                    [Key(random.randrange(10**13), random.randrange(400)) for _ in "ab"]
                )
            case 2:
                return "rules", encode_rules(DEFAULT_RULES)
            case 3:
                return "re-append", self._reappend(plain)
            case _:
                return "message", plain

    def _odd_reappend(self) -> bytes:
        """Sound but for its times, which are those of nobody."""
        far = self.random.choice((10**15, 10**18, MOMENT_MAX_MS, MOMENT_MAX_MS + 1))
        value = encode_value(None, pack(split_directives(encode_body(None, FAR, []), frozenset()), 5))
        return encode_reappend(value, Key(5, 0), "orders.0.0.5", far)

    def _good(self) -> None:
        """A good message with one header that no client may give a meaning: it is delivered all the same."""
        name = self.random.choice(MEANINGLESS)
        self._marked = b"marked %d" % self.random.getrandbits(60)
        self.bench.send(self._marked, (b"delay-ms", b"500"), (name, b"offsets 1 to 2"))

    def _check_rules(self, offset: int, body: bytes) -> None:
        """They are not in force. Raises Broken."""
        core = self.bench.worker.core(ORDERS)
        if core is not None and any(start == offset + 1 for start, _ in core._rules._changes):
            raise Broken(f"rules of no version are in force: {body!r}")

    def _check_waiting(self) -> None:
        """What waits can be shown. Raises Broken."""
        for key in self.bench.index.shard(ORDERS).keys(BEFORE_ALL, 10_000):
            if not format_moment(key.due_ms).endswith("Z"):
                raise Broken(f"due at {key.due_ms}, which is no moment, behind {self._last()}")

    def _reappend(self, body: bytes) -> bytes:
        value = encode_value(None, pack(split_directives(body, frozenset()), self.bench.clock.now_ms()))
        replaces = Key(self.random.randrange(10**13), self.random.randrange(400))
        return encode_reappend(value, replaces, f"orders.0.{replaces.offset}.{replaces.due_ms}", 10**12)

    def _header(self) -> Header:
        name, value = self.random.choice(HEADERS)
        if self.random.random() < 0.3:
            value = self.mutator.some(value or b"")
        return name, value

    def judge(self) -> None:
        """A good message behind all of that is delivered, once."""
        self._check_waiting()
        self.bench.send_raw(encode_control("resume"))
        self.bench.turn(4)
        while self._skip():
            self.bench.turn(2)
        self._good()
        canary = b"canary %d" % self.random.getrandbits(60)
        due_ms = self.bench.clock.now_ms() + 1000
        self.bench.send(canary, (b"delay-ms", b"1000"))
        self.bench.turn(2)
        early = canary in self._delivered()
        while self._skip():  # which may take until it is due
            self.bench.turn(2)
        if early or (canary in self._delivered() and self.bench.clock.now_ms() < due_ms):
            raise Broken(f"delivered early behind {self._last()}")
        self.bench.clock.advance(1000)
        for _ in range(TURNS_MAX):
            self.bench.turn(4)
            if (count := self._delivered().count(canary)) > 1:
                raise Broken(f"delivered {count} times behind {self._last()}")
            if count and self._marked in self._delivered():
                return
            if self._skip():  # what fell due beside it may be what no commit goes through with
                self.bench.clock.advance(1000)
        raise Broken(f"the next good message is not delivered behind {self._last()}: {self.bench.worker.statuses}")

    def _delivered(self) -> list[bytes | None]:
        end = self.bench.queue.offsets("orders", "0")[1]
        records = self.bench.queue.read("orders", "0", max(0, end - 50), 100)
        return [decode_body(record.body).value for record in records]

    def _last(self) -> str:
        return ", ".join(map(repr, self._sent[-5:]))
