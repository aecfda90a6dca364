"""cli.worker_thread: what a health check gets of a worker's shards."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from cli.worker_thread import WorkerThread
from delay_service.worker.owned import ShardStatus
from delayline.records.message import Shard


@dataclass
class Standing:
    """All that is asked of a worker."""

    joined: bool = True
    statuses: list[ShardStatus] = field(default_factory=list)


def shard(number: int, *, ready: bool = True, stalled: str | None = None) -> ShardStatus:
    return ShardStatus(Shard("orders", str(number)), ready, stalled, "why")


@pytest.fixture
def worker() -> Standing:
    return Standing()


@pytest.fixture
def thread(worker: Standing) -> WorkerThread:
    made = WorkerThread(cast(Any, lambda: worker))
    made.worker = cast(Any, worker)
    return made


def test_before_the_queue_has_let_it_in_it_is_not_ready() -> None:
    assert WorkerThread(cast(Any, None)).readiness() == (False, "starting: the queue has not answered yet")


def test_before_its_shards_are_known_it_is_not_ready(worker: Standing, thread: WorkerThread) -> None:
    worker.joined = False
    assert thread.readiness() == (False, "starting")


def test_until_it_has_caught_up_once_it_is_not_ready(worker: Standing, thread: WorkerThread) -> None:
    worker.statuses = [shard(0), shard(1, ready=False)]
    assert thread.readiness() == (False, "1 shards are catching up, orders.1")
    worker.statuses = [shard(0), shard(1)]
    assert thread.readiness() == (True, "ready")


@pytest.mark.parametrize("reason", ["unreadable_log", "unknown_format", "cursor_lost", "takeover", "target"])
@pytest.mark.parametrize("ready", [True, False])
def test_a_shard_that_stalls_is_named_and_the_process_stays_ready(
    worker: Standing, thread: WorkerThread, reason: str, ready: bool
) -> None:
    worker.statuses = [shard(0), shard(1, ready=ready, stalled=reason)]
    assert thread.readiness() == (True, f"stalled: orders.1 ({reason})")
    worker.statuses = worker.statuses[1:]
    assert thread.readiness() == (True, f"stalled: orders.1 ({reason})")


def test_a_shard_that_comes_later_is_no_reason_to_be_taken_out_of_service(
    worker: Standing, thread: WorkerThread
) -> None:
    worker.statuses = [shard(0)]
    thread.readiness()
    worker.statuses.append(shard(1, ready=False))
    assert thread.readiness() == (True, "ready")
    worker.joined = False
    assert thread.readiness() == (True, "ready")


def test_without_the_queue_it_is_not_ready(worker: Standing, thread: WorkerThread) -> None:
    worker.statuses = [shard(number, ready=False, stalled="unavailable") for number in range(2)]
    assert thread.readiness() == (False, "the queue cannot be reached: why")
    worker.statuses[0] = shard(0)
    assert thread.readiness() == (True, "stalled: orders.1 (unavailable)")


def test_many_stalled_shards_are_counted_and_not_all_named(worker: Standing, thread: WorkerThread) -> None:
    worker.statuses = [shard(number, stalled="unreadable_log") for number in range(12)]
    ready, detail = thread.readiness()
    assert (ready, detail.count("orders."), detail.endswith(" and 2 more")) == (True, 10, True)
