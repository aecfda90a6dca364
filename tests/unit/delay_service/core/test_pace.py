"""Many repeats of one topic, and a message of another, on a machine on which a repeat takes as long as it does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from delay_service.core.pace import AT_ONCE_S, FIRST, LEAST, Pace
from delay_service.core.shard import Shard as Core
from delayline.records.message import Shard
from tests.unit.delay_service.harness import Bench

A, B = Shard("a", "0"), Shard("b", "0")
REPEATS = 3000
READ_MS, TAKEN_MS = 0.3, 0.12
"""Measured: what one repeat costs when it is read, and when it is taken."""


@contextmanager
def costing(bench: Bench) -> Iterator[None]:
    """Records of the topic a take their time."""
    ingest, take = Core.ingest, Core.take
    owed_ms = 0.0

    def spend(ms: float) -> None:
        nonlocal owed_ms
        owed_ms += ms
        bench.clock.advance(int(owed_ms))
        owed_ms -= int(owed_ms)

    def slow_ingest(core: Core, records: Any, now_ms: int) -> None:
        spend(len(records) * READ_MS if core.id == A else 0)
        ingest(core, records, now_ms)

    def slow_take(core: Core, *arguments: Any, **options: Any) -> Any:
        part = take(core, *arguments, **options)
        spend(len(part.deliveries) * TAKEN_MS if part and core.id == A else 0)
        return part

    with patch.object(Core, "ingest", slow_ingest), patch.object(Core, "take", slow_take):
        yield


@pytest.mark.slow
def test_three_thousand_repeats_a_second_hold_up_no_other_topic() -> None:
    bench = Bench(topics=("a", "b"), batch_records_max=5000)
    with costing(bench):
        for _ in range(REPEATS):
            bench.send(b"tick", (b"delay-every", b"1s"), to=A)
        started_ms = bench.clock.now_ms()
        lateness_ms, due_ms = [], 0
        while bench.clock.now_ms() < started_ms + 8000:
            if due_ms == 0:
                due_ms = bench.clock.now_ms() + 100
                bench.send(b"b", (b"delay-ms", b"100"), to=B)
                count = len(bench.delivered("b"))
            bench.turn(1)
            bench.clock.advance(1)
            if len(bench.delivered("b")) > count:
                lateness_ms.append(bench.clock.now_ms() - due_ms)
                due_ms = 0
    assert len(bench.delivered("a")) > REPEATS
    assert len(lateness_ms) > 20
    assert max(lateness_ms[2:]) <= 4 * AT_ONCE_S * 1000, lateness_ms


def test_nothing_is_bounded_that_costs_nothing() -> None:
    pace = Pace(lambda: 0.0)
    for _ in range(20):
        pace.begin()
        pace.did(FIRST)
    assert pace.bound(5000) == 5000


@pytest.mark.parametrize(("seconds", "bound"), [(1.0, LEAST), (0.05, 100), (0.001, 1000)])
def test_what_costs_more_is_done_in_smaller_parts(seconds: float, bound: int) -> None:
    now_s = 0.0
    pace = Pace(lambda: now_s)
    pace.begin()
    now_s += seconds
    pace.did(100)
    assert pace.bound(5000) == bound


def test_the_time_that_others_have_used_up_is_not_there() -> None:
    pace = Pace(lambda: 0.0)
    assert pace.bound(5000, AT_ONCE_S / 2) == FIRST // 2
    assert pace.bound(5000, AT_ONCE_S) == LEAST


def test_a_single_slow_record_counts_little() -> None:
    now_s = 0.0
    pace = Pace(lambda: now_s)
    pace.begin()
    now_s += 0.001
    pace.did(1)
    assert pace.bound(5000) > FIRST / 2
