"""Readiness of a process with a queue, a worker and perhaps a proxy."""

from types import SimpleNamespace
from typing import Any

import pytest

from cli.assembly import readiness_of

Answer = tuple[bool, str]
READY = (True, "ready")
STALLED = (True, "stalled: orders.0 (unreadable_log)")


@pytest.mark.parametrize(
    ("queue", "worker", "proxy", "expected"),
    [
        (None, READY, None, READY),
        (None, STALLED, READY, STALLED),
        (None, (False, "starting"), READY, (False, "starting")),
        (None, READY, (False, "port in use"), (False, "port in use")),
        (None, STALLED, (False, "port in use"), (False, "port in use")),
        ("no producer id", READY, READY, (False, "no producer id")),
    ],
)
def test_a_process_is_ready_when_its_queue_its_worker_and_its_proxy_are(
    queue: str | None, worker: Answer, proxy: Answer | None, expected: Answer
) -> None:
    admin: Any = SimpleNamespace(trouble=lambda: queue)
    threads: list[Any] = [SimpleNamespace(readiness=lambda one=one: one) for one in (worker, proxy) if one]
    assert readiness_of(admin, threads) == expected
