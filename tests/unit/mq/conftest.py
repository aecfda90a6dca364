"""An embedded queue that can be opened again, and whose disk can be made to fail or to wait."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from delayline.clock import ManualClock
from delayline.names import installation
from mq.embedded import EmbeddedQueue
from mq.embedded.folder import Folder
from mq.embedded.log import RocksLog
from mq.local.queue import LocalLimits

OpenQueue = Callable[..., EmbeddedQueue]


class FaultyLog(RocksLog):
    """`fail_sync` and `fail_write` make the next one fail; `gate` holds every fsync back while it is not set."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.fail_sync = False
        self.fail_write = False
        self.syncs = 0
        self.gate = Event()
        self.gate.set()
        self.at_gate = Event()

    def write(self, group: Any) -> None:
        if self.fail_write:
            raise OSError(28, "No space left on device")
        super().write(group)

    def sync(self) -> None:
        self.at_gate.set()
        assert self.gate.wait(10)
        self.syncs += 1
        if self.fail_sync:
            raise OSError(5, "Input/output error")
        super().sync()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "queue"


@pytest.fixture
def open_queue(folder: Path, clock: ManualClock) -> Iterator[OpenQueue]:
    """Opens the queue of the test's folder, or of another one; whatever is open at the end is closed."""
    with ExitStack() as queues:

        def make(path: Path = folder, **settings: Any) -> EmbeddedQueue:
            settings = {"namespace": "delayline", "clock": clock, "disk_free_min_bytes": 0, **settings}
            return queues.enter_context(closing(EmbeddedQueue.open(path, **settings)))

        yield make


@pytest.fixture
def faulty(folder: Path, clock: ManualClock) -> Iterator[tuple[EmbeddedQueue, FaultyLog]]:
    """A queue with topics `orders` and its buffer, and the log that it lies on."""
    ours = Folder(folder, "delayline")
    ours.make()
    log = FaultyLog(ours.log, 0, trim_compact_bytes=4 << 20)
    queue = EmbeddedQueue(ours, log, installation("delayline"), clock, LocalLimits())
    with closing(queue):
        yield queue, log
        log.gate.set()
