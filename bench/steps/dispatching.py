"""Steps of `bench.floors`: what a plain message costs between the index and the sink, and after its commit."""

import random
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry

from delay_service.core.batch_draft import BatchDrafter
from delay_service.core.history import History
from delay_service.core.in_flight import CommitResult
from delay_service.core.rules_log import RulesLog
from delay_service.core.shard import Shard as Core
from delay_service.core.shard_settings import ShardSettings
from delay_service.core.takeover import Plan
from delay_service.worker.decisions import Decisions
from delay_service.worker.metrics import WorkerMetrics
from delayline.buffer.cursor import Cursor
from delayline.buffer.outcome import PlainRows, encode_audit
from delayline.buffer.record import encode_value
from delayline.clock import SystemClock
from delayline.names import Names
from delayline.records.message import Shard
from delayline.records.record import encode_body, pack, split_directives
from delayline.schedule.rules import DEFAULT_RULES

COMMIT, SMALL_COMMIT = 5000, 100
ACCEPTED_MS = 1_767_225_600_000
_SHARD, _NAMES = Shard("orders", "0"), Names("delayline")
Entries = list[tuple[int, int, bytes]]


class _Ready:
    """Stands where the index would, and costs nothing: one part of `entries` after the other is due."""

    def __init__(self, entries: Entries, size: int) -> None:
        self._parts = [entries[at : at + size] for at in range(0, len(entries), size)]
        self._next = 0

    def due(self, until_ms: int, records_max: int, bytes_max: int) -> Entries:
        return self._parts[self._next]

    def remove(self, keys: object, checkpoint: object) -> None:
        self._next += 1

    def reset(self) -> None:
        """It begins once."""

    def pending(self) -> int:
        return COMMIT

    def low_offset(self) -> None:
        """Nothing waits longer."""

    memory_low = low_offset


def dispatch_steps(records: int) -> dict[str, Callable[[], object]]:
    """By name; each deals with so many records."""
    entries = _entries(records)
    blocks = [block for part in _parts(entries, COMMIT) for block in _drafted(part)]
    now_ms = entries[-1][0]
    metrics = _metrics()
    return {
        "dispatch: draft": lambda: [_drafted(part) for part in _parts(entries, COMMIT)],
        "dispatch: audit": lambda: list(encode_audit(_SHARD, 1, now_ms, (), blocks)),
        "dispatch: history, full": lambda: _remember(blocks, History(COMMIT, 86_400_000), now_ms),
        "dispatch: metrics and history": lambda: metrics.finished(_SHARD, CommitResult((), now_ms, plain=blocks)),
        "dispatch: take, committed, observe": lambda: _dispatch(entries, COMMIT, metrics),
        "dispatch: take, committed, observe, small": lambda: _dispatch(entries, SMALL_COMMIT, metrics),
    }


def _entries(records: int) -> Entries:
    """As they fall due: a hundred in a millisecond, of every age."""
    dice = random.Random(1)
    headers = [(b"src", b"web"), (b"delay-ms", b"30000"), (b"trace", b"x" * 55)]
    found: Entries = []
    for number in range(records):
        split = split_directives(encode_body(b"%08d" % number, dice.randbytes(256), headers), {b"delay-ms"})
        value = encode_value(None, pack(split, ACCEPTED_MS + dice.randrange(10_000_000)))
        found.append((ACCEPTED_MS + 10_000_000 + number // 100, 1_000_000 + number, value))
    return found


def _parts(entries: Entries, size: int) -> list[Entries]:
    return [entries[at : at + size] for at in range(0, len(entries), size)]


def _drafted(entries: Entries) -> list[PlainRows]:
    return BatchDrafter(_SHARD, _NAMES, "delivery").draft(entries, entries[-1][0], 0, {}).plain


def _metrics() -> WorkerMetrics:
    return WorkerMetrics(CollectorRegistry(), History(2 * COMMIT, 86_400_000), Decisions(), SystemClock())


def _remember(blocks: list[PlainRows], history: History, now_ms: int) -> None:
    for block in blocks:
        history.record(_SHARD, (), now_ms, plain=[block])


def _dispatch(entries: Entries, size: int, metrics: WorkerMetrics) -> None:
    index: Any = _Ready(entries, size)
    end = entries[-1][1] + 1
    plan = Plan(Cursor(topic_id=bytes(16)), False, end, end, RulesLog(0, DEFAULT_RULES))
    core = Core(_SHARD, plan, index, ShardSettings(DEFAULT_RULES, _NAMES))
    for part in _parts(entries, size):
        batch = core.take(part[-1][0], size, 1 << 30)
        if batch is None or len(batch.deliveries) != len(part):
            raise RuntimeError("what was due was not taken")
        metrics.finished(_SHARD, core.committed())
