"""From a caller's thread to a worker in another process and back, over real sockets."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing

import pytest
from prometheus_client import CollectorRegistry

from delay_service.query.owners.directory import Directory
from delay_service.query.owners.listener import Listener, OwnerRequestHandler
from delay_service.query.owners.routed import RoutedOwners
from delay_service.query.owners.signing import Signer
from delayline.buffer.outcome import Outcome
from delayline.clock import SystemClock
from delayline.http.guard import Guard, HttpLimits
from delayline.process.listening import listen
from delayline.questions.inquiry import (
    DueCounts,
    DueQuery,
    Gone,
    Listing,
    OwnerUnavailable,
    Query,
    Resolution,
    ShardFigures,
)
from delayline.records.message import MessageId, Shard
from mq.contract import Owner
from mq.errors import QueueUnavailable
from tests.unit.delay_service.query.owners.people import FOUND, ID, SHARD, Group, Worker

pytestmark = pytest.mark.slow

SECRET = "sixteen letters!"
CLOCK = SystemClock()
WITHIN_S = 10.0


class Installation:
    """A process that asks, and workers that listen."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._running: list[Listener] = []
        self.group = Group()
        self._directory = stack.enter_context(Directory(self.group, CLOCK))
        self.owners = stack.enter_context(RoutedOwners(self._directory, Signer(SECRET, CLOCK), self.group, CLOCK))

    def worker(self, name: str, *shards: Shard, secret: str = SECRET) -> tuple[Worker, Listener]:
        """A worker that owns the shards, as the group knows."""
        worker = Worker(name, *shards)
        bound = self._stack.enter_context(closing(listen("127.0.0.1", 0, backlog=16, in_use="")))
        desk = OwnerRequestHandler(worker, Signer(secret, CLOCK), CLOCK)
        listener = Listener(bound, desk, lambda: None, Guard(HttpLimits(), CollectorRegistry()))
        self._stack.callback(self.leaves, listener)
        self._running.append(listener)
        listener.__enter__()
        self.group.table |= dict.fromkeys(shards, Owner(name, f"127.0.0.1:{bound.getsockname()[1]}"))
        self._directory.refresh()
        return worker, listener

    def leaves(self, listener: Listener) -> None:
        """Its process ends in good order."""
        if listener in self._running:
            self._running.remove(listener)
            listener.__exit__(None, None, None)


@pytest.fixture
def installation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    monkeypatch.setattr("delay_service.query.owners.directory.PAUSE_S", 0.01)
    monkeypatch.setattr("delay_service.query.owners.routing.PAUSE_S", 0.01)
    with ExitStack() as stack:
        yield Installation(stack)


def test_an_answer_comes_from_the_process_that_owns_the_shard(installation: Installation) -> None:
    for number in range(3):
        shard = Shard("orders", str(number))
        worker, _ = installation.worker(f"w{number}", shard)
        worker.answers["decided", (shard, number)] = Resolution(list(Outcome)[number])
    asked = [installation.owners.decided(Shard("orders", str(number)), number) for number in range(3)]
    assert [future.result(WITHIN_S).outcome for future in asked] == list(Outcome)[:3]


@pytest.mark.parametrize("answer", [FOUND, Gone(), None])
def test_a_message_is_found_as_its_owner_knows_it(installation: Installation, answer: object) -> None:
    worker, _ = installation.worker("w", SHARD)
    worker.answers["find", ID] = answer
    assert installation.owners.find(ID).result(WITHIN_S) == answer


def test_there_is_no_message_where_there_is_no_shard(installation: Installation) -> None:
    assert installation.owners.find(MessageId(Shard("nothing", "0"), 0, 0)).result(WITHIN_S) is None


@pytest.mark.parametrize("failure", [OwnerUnavailable("being taken over"), QueueUnavailable("no brokers")])
def test_why_there_is_no_answer_comes_from_the_owner(
    installation: Installation, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delay_service.query.owners.routed.FIND_S", 0.2)
    worker, _ = installation.worker("w", SHARD)
    worker.answers["find", ID] = failure
    with pytest.raises(type(failure), match=str(failure)):
        installation.owners.find(ID).result(WITHIN_S)


def test_of_two_workers_that_show_a_shard_the_later_owner_is_believed(installation: Installation) -> None:
    old, new = ShardFigures(SHARD, True, owner_epoch=3), ShardFigures(SHARD, False, owner_epoch=4)
    other = ShardFigures(Shard("orders", "0"), True, owner_epoch=1)
    installation.worker("w1", SHARD)[0].answers["figures", None] = [new]
    installation.worker("w2", other.shard)[0].answers["figures", None] = [other, old]
    assert sorted(installation.owners.figures().result(WITHIN_S), key=lambda one: one.shard) == [other, new]


def test_an_answer_that_never_ends_is_not_read(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delay_service.query.owners.wire.ANSWER_BYTES_MAX", 300)
    worker, _ = installation.worker("w", SHARD)
    worker.answers["find", ID] = FOUND
    with pytest.raises(OwnerUnavailable, match="its answer is too large"):
        installation.owners.find(ID).result(WITHIN_S)


def test_a_list_is_put_together_from_all_owners(installation: Installation) -> None:
    shards = [Shard("orders", str(number)) for number in range(3)]
    for shard in shards:
        answers = installation.worker(f"w{shard.partition}", shard)[0].answers
        answers["page", ((shard,), Query())] = [Listing((shard,), (), None)]
        answers["due_counts", ((shard,), DueQuery(0, 1, 1))] = [DueCounts(shard, (0, 1, 0))]
    listed = installation.owners.page(shards, Query()).result(WITHIN_S)
    assert sorted(one.shards for one in listed) == [(shard,) for shard in shards]
    counted = installation.owners.due_counts(shards, DueQuery(0, 1, 1)).result(WITHIN_S)
    assert sorted(one.shard for one in counted) == shards


def test_a_process_with_another_secret_is_not_answered(installation: Installation) -> None:
    worker, _ = installation.worker("w", SHARD, secret="another secret!!")
    worker.answers["find", ID] = FOUND
    with pytest.raises(OwnerUnavailable, match="signed with another secret"):
        installation.owners.find(ID).result(WITHIN_S)


def test_what_was_asked_of_an_owner_that_goes_is_answered_by_the_next(installation: Installation) -> None:
    first, listener = installation.worker("first", SHARD)
    asked: Future[Resolution] = installation.owners.decided(SHARD, 7)
    until(lambda: len(first.open) == 1)
    second, _ = installation.worker("second", SHARD)
    second.answers["decided", (SHARD, 7)] = Resolution(Outcome.APPLIED)
    installation.leaves(listener)
    assert asked.result(WITHIN_S) == Resolution(Outcome.APPLIED)


def test_a_question_that_is_open_when_everything_ends_is_over() -> None:
    with ExitStack() as stack:
        installation = Installation(stack)
        worker, _ = installation.worker("w", SHARD)
        asked = installation.owners.decided(SHARD, 7)
        until(lambda: len(worker.open) == 1)
    assert asked.cancelled()
    worker.open[0].set_result(Resolution(Outcome.APPLIED))


def until(condition: Callable[[], bool]) -> None:
    """Another thread is at it."""
    waiting = SystemClock().monotonic_s() + WITHIN_S
    while not condition():
        assert SystemClock().monotonic_s() < waiting, "not in time"
