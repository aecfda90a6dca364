"""Trims, and what the reconcile job holds them back for."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from delay_service.worker.buffer_maintenance import BufferMaintenance
from delay_service.worker.owned import LookedAfter, Owned
from delayline.buffer.cursor import Cursor
from delayline.clock import ManualClock
from delayline.errors import UnknownFormat
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Append, Audited
from mq.errors import QueueUnavailable
from mq.memory import MemoryQueue
from tests.unit.delay_service.harness import NAMES, ORDERS, Bench
from tests.unit.delay_service.worker.test_worker_trouble import sample, with_settings

HOUR_MS = 3_600_000


class Place:
    """A buffer of ten records, and its maintenance, asked by hand."""

    def __init__(self, hold_max_ms: int = HOUR_MS) -> None:
        self.clock = ManualClock()
        self.queue = MemoryQueue(namespace="delayline", clock=self.clock, partitions=1)
        self.topic_id = self.queue.ensure_buffer("orders", DEFAULT_RULES).topic_id
        self.queue.append([Append(NAMES.buffer("orders"), "0", b"x")] * 10).result()
        self.maintenance = BufferMaintenance(self.queue, lambda: None, self.clock, hold_max_ms)
        self.owned = Owned(ORDERS)

    def audited(self, offset: int) -> None:
        self.queue.audit_positions[ORDERS] = Audited(offset, self.clock.now_ms())

    def look(self, low_offset: int) -> LookedAfter | None:
        cursor = Cursor(topic_id=self.topic_id, low_offset=low_offset, next_offset=10)
        self.maintenance.look_after(self.owned, cursor)
        assert self.owned.queue.tending is not None
        self.owned.queue.tending.result()
        return self.maintenance.look_after(self.owned, cursor)

    @property
    def start(self) -> int:
        return self.queue.log_range(ORDERS)[0]


@pytest.fixture
def new_place() -> Iterator[Callable[..., Place]]:
    made: list[Place] = []

    def make(**settings: Any) -> Place:
        made.append(Place(**settings))
        return made[-1]

    yield make
    for each in made:
        each.maintenance.close()


@pytest.fixture
def place(new_place: Callable[..., Place]) -> Place:
    return new_place()


def test_where_no_job_ever_ran_everything_below_the_low_offset_is_trimmed(place: Place) -> None:
    found = place.look(7)
    assert (place.start, found and found.held) == (7, 0)


def test_what_the_job_has_not_read_is_kept(place: Place) -> None:
    place.audited(4)
    found = place.look(7)
    assert (place.start, found and found.held) == (4, 3)


def test_a_buffer_that_is_new_since_the_job_ran_last_is_kept_whole(place: Place) -> None:
    place.queue.audit_positions[Shard("mail", "0")] = Audited(7, place.clock.now_ms())
    found = place.look(7)
    assert (place.start, found and found.held) == (0, 7)


def test_what_is_needed_is_never_trimmed_however_far_the_job_has_read(place: Place) -> None:
    place.audited(9)
    place.look(7)
    assert place.start == 7


def test_it_is_trimmed_when_the_job_has_read_it(place: Place) -> None:
    place.audited(4)
    place.look(7)
    place.audited(7)
    found = place.look(7)
    assert (place.start, found and found.held) == (7, 0)


def test_it_is_trimmed_when_the_job_has_not_come_back_for_too_long(place: Place) -> None:
    place.audited(4)
    place.look(7)
    place.clock.advance(HOUR_MS - 1)
    place.look(7)
    before = place.start
    place.clock.advance(1)
    place.look(7)
    assert (before, place.start) == (4, 7)


def test_a_position_from_the_far_future_keeps_nothing(place: Place) -> None:
    place.clock.advance(HOUR_MS)
    place.audited(4)
    place.clock.advance(-HOUR_MS)
    place.look(7)
    assert place.start == 7


def test_a_position_in_an_earlier_topic_of_the_name_holds_no_more_than_its_number(place: Place) -> None:
    place.audited(900)
    place.look(7)
    assert place.start == 7


def test_where_nothing_is_to_be_held_nobody_is_asked(
    new_place: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = new_place(hold_max_ms=0)
    monkeypatch.setattr(place.queue, "audited", lambda _: pytest.fail("asked"))
    place.look(7)
    assert place.start == 7


def test_the_job_is_asked_after_only_when_there_is_something_to_trim(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.look(7)
    monkeypatch.setattr(place.queue, "audited", lambda _: pytest.fail("asked"))
    assert place.look(7) is not None


def test_a_position_that_cannot_be_read_keeps_nothing_and_is_reported_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place.queue, "audited", fail(UnknownFormat("gibberish")))
    with capture_logs() as lines:
        place.look(6)
        place.look(7)
    assert place.start == 7
    assert [(line["detail"], line["trimmed"]) for line in lines] == [("gibberish", True)]


def test_while_the_job_s_position_is_unknown_nothing_is_trimmed_and_that_is_logged_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place.queue, "audited", fail(QueueUnavailable("not authorized")))
    with capture_logs() as lines:
        place.look(6)
        place.look(7)
    warnings = [line["trimmed"] for line in lines if line["log_level"] == "warning"]
    assert (place.start, warnings) == (0, [False])
    monkeypatch.undo()
    place.look(7)
    assert place.start == 7


def fail(error: Exception) -> Callable[[Shard], Audited | None]:
    def audited(_: Shard) -> Audited | None:
        raise error

    return audited


def test_what_is_held_shows_in_the_metrics() -> None:
    bench = with_settings(Bench(), trim_interval_s=0.0)
    bench.queue.audit_positions[ORDERS] = Audited(1, bench.clock.now_ms())
    for _ in range(3):
        bench.send(b"a", (b"delay-ms", b"10"))
    bench.clock.advance(2000)
    bench.turn(8)
    bench.clock.advance(2000)
    bench.turn(8)
    assert bench.queue.log_range(ORDERS)[0] == 1
    assert sample(bench, "delayline_buffer_held_records", topic="orders") == 2
