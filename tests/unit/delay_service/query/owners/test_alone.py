"""Questions to the only worker, while its shards are being taken over."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from delay_service.query.owners.alone import LoneWorker
from delay_service.query.owners.waits import AGAIN_S, FIND_S, HELD_S
from delayline.clock import ManualClock
from delayline.questions.inquiry import (
    DueCounts,
    DueQuery,
    Found,
    Gone,
    Held,
    Listing,
    OwnerUnavailable,
    Query,
    RequestedNames,
    ShardFigures,
)
from delayline.records.message import MessageId, Shard
from tests.unit.delay_service.query.owners.people import FOUND, ID, SHARD, Worker

WITHIN_S = 10.0
OTHER, NEVER = Shard("orders", "4"), Shard("mail", "0")
DUE = DueQuery(1, 2, 1)


class TakesOver(Worker):
    """A worker that has the shard after so many tries; another one it has from the beginning."""

    def __init__(self, tries: int) -> None:
        super().__init__()
        self.tries = tries
        self.asked: list[Any] = []

    def exists(self, shard: Shard) -> bool:
        return shard != NEVER

    def _has_it(self, about: Any) -> bool:
        self.asked.append(about)
        return len(self.asked) > self.tries

    def find(self, message_id: MessageId) -> "Future[Found | Gone | None]":
        return done(FOUND if self._has_it(message_id) else OwnerUnavailable("it is being taken over"))

    def held(self, shard: Shard, requested: Sequence[RequestedNames]) -> "Future[list[Held]]":
        return done([Held.FREE] if self._has_it(shard) else OwnerUnavailable("it is being taken over"))

    def _of(self, shards: Sequence[Shard]) -> tuple[Shard, ...]:
        has_it = self._has_it(tuple(shards))
        return tuple(shard for shard in shards if shard == OTHER or (has_it and shard == SHARD))

    def page(self, shards: Sequence[Shard], query: Query) -> "Future[list[Listing]]":
        found = self._of(shards)
        return done([Listing(found, (), None)] if found else [])

    def due_counts(self, shards: Sequence[Shard], query: DueQuery) -> "Future[list[DueCounts]]":
        return done([DueCounts(shard, (1,)) for shard in self._of(shards)])


def done(answer: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
    return future


class Scene:
    def __init__(self) -> None:
        self.clock, self.worker = ManualClock(), TakesOver(3)
        self.owners = LoneWorker(self.worker, self.clock, self._pause)

    async def _pause(self, pause_s: float) -> None:
        self.clock.advance(round(1000 * pause_s))


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    with scene.owners:
        yield scene


def test_a_question_that_meets_a_takeover_waits_for_its_end(scene: Scene) -> None:
    assert scene.owners.find(ID).result(WITHIN_S) == FOUND
    assert scene.worker.asked == [ID] * 4
    scene.worker.asked.clear()
    assert scene.owners.held(SHARD, [RequestedNames("mine")]).result(WITHIN_S) == [Held.FREE]


def test_it_does_not_wait_longer_than_a_question_to_another_worker(scene: Scene) -> None:
    scene.worker.tries = 10_000
    with pytest.raises(OwnerUnavailable, match="taken over"):
        scene.owners.find(ID).result(WITHIN_S)
    assert FIND_S - 0.3 < scene.clock.monotonic_s() <= FIND_S
    with pytest.raises(OwnerUnavailable):
        scene.owners.held(SHARD, [RequestedNames("mine")]).result(WITHIN_S)
    assert scene.clock.monotonic_s() <= FIND_S + HELD_S
    assert len(scene.worker.asked) < 60, "a long takeover is not hammered"


def test_a_list_is_completed_by_shards_that_are_taken_over_meanwhile(scene: Scene) -> None:
    listings = scene.owners.page([SHARD, OTHER, NEVER], Query()).result(WITHIN_S)
    assert [listing.shards for listing in listings] == [(OTHER,), (SHARD,)]
    assert scene.worker.asked == [(SHARD, OTHER, NEVER), *[(SHARD,)] * 3]
    scene.worker.asked.clear()
    counts = scene.owners.due_counts([SHARD, OTHER], DUE).result(WITHIN_S)
    assert [count.shard for count in counts] == [OTHER, SHARD]


def test_a_list_does_not_wait_for_ever_nor_for_what_is_not_there(scene: Scene) -> None:
    scene.worker.tries = 10_000
    assert [one.shards for one in scene.owners.page([OTHER, NEVER], Query()).result(WITHIN_S)] == [(OTHER,)]
    assert scene.clock.monotonic_s() == 0
    assert [one.shards for one in scene.owners.page([SHARD, OTHER], Query()).result(WITHIN_S)] == [(OTHER,)]
    assert AGAIN_S - 0.3 < scene.clock.monotonic_s() <= AGAIN_S


def test_what_waits_by_itself_or_for_nothing_is_the_workers_own_answer(scene: Scene) -> None:
    figures = [ShardFigures(SHARD, ready=False)]
    scene.worker.answers = {("figures", None): figures, ("decided", (SHARD, 7)): "decided"}
    assert scene.owners.figures().result(0) == figures
    assert scene.owners.decided(SHARD, 7).result(0) == "decided"
    assert not scene.owners.all_decided(SHARD, [7]).done()
