"""mq.rocketmq.retention: shards whose messages wait nearly as long as their broker keeps them."""

from types import SimpleNamespace
from typing import Any

import pytest

from delayline.buffer.cursor import Cursor
from delayline.clock import ManualClock
from mq.contract import LogRecord
from mq.errors import QueueUnavailable
from mq.rocketmq import retention
from mq.rocketmq.retention import LOOK_S, WARN_AGAIN_S, RetentionWatch
from rocketmq.wire.bodies import Queue
from tests.unit.mq.rocketmq.scene import SHARD

KEPT_S = 72 * 3600.0
QUEUE = Queue("ns%buffer%orders", "a", 0)


class Log(SimpleNamespace):
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.logged: list[dict[str, Any]] = []

    def warning(self, _: str, **fields: Any) -> None:
        self.logged.append(fields)

    def debug(self, _: str, **fields: Any) -> None:
        """Not heard."""


class ClusterOfOneRecord:
    """A buffer whose record at offset 5 was stored at the clock's beginning."""

    def __init__(self, clock: ManualClock) -> None:
        self._stored_ms = clock.now_ms()
        self.is_there = True

    def buffer_queue(self, _: object) -> Queue:
        return QUEUE

    def kept_s(self, _: str) -> float:
        if not self.is_there:
            raise QueueUnavailable("no answer")
        return KEPT_S

    def range(self, _: Queue) -> tuple[int, int]:
        return 0, 6

    def read(self, _: Queue, offset: int, *__: int) -> list[LogRecord]:
        return [LogRecord(offset, self._stored_ms, b"")]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    found = Log()
    monkeypatch.setattr(retention, "log", found)
    return found


def holding(low_offset: int) -> Any:
    return SimpleNamespace(shard=SHARD, last=Cursor(topic_id=bytes(16), low_offset=low_offset))


def looked(
    age_s: float, low_offset: int = 5, *, is_there: bool = True, times: int = 1, pause_s: float = LOOK_S
) -> None:
    clock = ManualClock()
    cluster: Any = ClusterOfOneRecord(clock)
    cluster.is_there = is_there
    watch = RetentionWatch(cluster, clock)
    clock.advance(int(age_s * 1000))
    for _ in range(times):
        watch.look([holding(low_offset)])
        clock.advance(int(pause_s * 1000))


def test_a_record_that_waits_beyond_two_thirds_of_its_time_is_logged(log: Log) -> None:
    looked(49 * 3600)
    assert log.logged == [{"topic": "orders", "shard": "a:0", "waiting_h": 49.0, "kept_h": 72.0}]


def test_a_record_that_waits_for_less_is_not(log: Log) -> None:
    looked(47 * 3600)
    assert log.logged == []


def test_where_nothing_is_pending_nothing_is_reported(log: Log) -> None:
    looked(71 * 3600, low_offset=6)
    assert log.logged == []


def test_it_is_logged_once_an_hour(log: Log) -> None:
    looked(49 * 3600, times=5)
    assert len(log.logged) == 1
    looked(49 * 3600, times=3, pause_s=WARN_AGAIN_S)
    assert len(log.logged) == 1 + 3


def test_a_broker_that_does_not_answer_is_asked_again_later(log: Log) -> None:
    looked(49 * 3600, is_there=False)
    assert log.logged == []
