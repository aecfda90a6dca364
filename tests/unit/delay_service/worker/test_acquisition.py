"""Takeovers beside the loop: what they hold up, what makes them void, and in which order they ask."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from delay_service.core.takeover import Accepted
from delay_service.worker.settings import WorkerSettings
from delayline.errors import Bug, UnknownFormat
from delayline.records.message import Shard
from delayline.schedule.rules import DEFAULT_RULES
from mq.contract import Assigned, DispatchBatch, Handover, Lost, Revoked
from mq.errors import CommitAborted, CommitUnknown, Fenced, PartitionUnknown, QueueUnavailable
from store.errors import StoreFull
from tests.unit.delay_service.harness import ORDERS, Bench, InLine
from tests.unit.delay_service.taking_over import MAILS, Held, Scene


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene()


def deliver(scene: Scene, value: bytes) -> None:
    scene.send(value, (b"delay-ms", b"0"))
    scene.turn(3)


def take_over(scene: Scene) -> None:
    """Whatever is held is done."""
    for _ in range(4):
        while scene.held.waiting:
            scene.held.work()
        scene.turn(1)


# --- who waits for whom


def test_while_a_takeover_waits_for_its_answer_other_shards_deliver(scene: Scene) -> None:
    assert len(scene.held.waiting) == 1

    deliver(scene, b"meanwhile")

    assert scene.delivered() == [b"meanwhile"]
    assert not scene.is_running()
    take_over(scene)
    assert scene.is_running()


def test_while_the_bounds_of_a_claimed_shard_are_waited_for_other_shards_deliver(scene: Scene) -> None:
    scene.held.work()
    scene.turn(2)
    assert len(scene.held.waiting) == 1

    deliver(scene, b"meanwhile")

    assert scene.delivered() == [b"meanwhile"]
    assert scene.epochs() == [1]
    assert not scene.is_running()
    take_over(scene)
    assert scene.is_running()


def test_while_a_claim_is_being_committed_the_worker_turns_and_reads(scene: Scene) -> None:
    committer, slow = scene.committer.to, Held()
    scene.committer.to = slow
    scene.held.work()
    scene.worker.turn()
    assert len(slow.waiting) == 1

    scene.send(b"read meanwhile", (b"delay-ms", b"0"))
    scene.worker.turn()  # would not come back
    scene.worker.turn()

    assert scene.index.shard(ORDERS).pending() == 1
    assert len(slow.waiting) == 2  # and what is due is handed in behind it
    slow.work()
    slow.work()
    scene.committer.to = committer
    take_over(scene)
    assert scene.delivered() == [b"read meanwhile"]
    assert scene.is_running()


def test_the_worker_does_not_turn_idly_while_a_takeover_is_under_way(scene: Scene) -> None:
    assert scene.worker.acquisition.is_under_way

    scene.worker.settings = WorkerSettings(scene.settings.shard_settings_of, "w1", poll_wait_max_s=7.0)

    assert scene.worker.wait_s() == 7.0


def test_several_shards_are_claimed_in_one_commit(scene: Scene) -> None:
    take_over(scene)
    for topic in ("news", "texts"):
        scene.queue.ensure_buffer(topic, DEFAULT_RULES)
    scene.turn(2)
    before = len(scene.sink.batches)

    take_over(scene)

    claims = [sorted(part.shard.topic for part in batch) for batch in scene.sink.batches[before:]]
    assert claims[0] == ["news", "texts"]


def with_steps(scene: Scene, count: int) -> list[None]:
    """MAILS has been taken over, and is lost again; what its index holds is to be reused in so many steps. Those that
    have been taken."""
    take_over(scene)
    scene.send(b"of mails", (b"delay-ms", b"0"), to=MAILS)
    scene.turn(4)
    taken: list[None] = []

    def retaining(*given: object) -> Iterator[None]:
        for _ in range(count):
            taken.append(None)
            yield

    index: Any = scene.index.shard(MAILS)
    index.retaining = retaining
    owned = scene.owned(MAILS)
    scene.worker.stalls.lose(owned, "commit_unknown", "silence")
    scene.worker.stalls.retry_at_once(owned)
    scene.turn(1)
    for _ in range(2):
        scene.held.work()
        scene.worker.turn()
        scene.worker.wait_for_commit()
    assert taken
    return taken


def test_an_index_is_prepared_in_steps_between_which_other_shards_deliver(scene: Scene) -> None:
    taken = with_steps(scene, 20)
    before = len(taken)
    assert before <= 2
    assert scene.worker.wait_s() == 0.0

    deliver(scene, b"meanwhile")

    assert scene.delivered() == [b"meanwhile"]
    assert before < len(taken) < 20
    assert not scene.is_running()
    scene.turn(20)
    assert scene.is_running()


def test_a_shard_that_goes_while_its_index_is_prepared_is_not_touched_any_more(scene: Scene) -> None:
    taken = with_steps(scene, 20)
    scene.hand(Lost([MAILS]))
    before = len(taken)

    scene.turn(30)

    assert len(taken) == before
    assert not scene.worker.acquisition.is_under_way


# --- what makes a round void


def let_go(scene: Scene, how: type[Revoked] | type[Lost], *, again: bool) -> None:
    """MAILS goes, and comes back at once where it is to come `again`."""
    scene.hand(how([MAILS]), *([Assigned([MAILS])] if again else []))


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("how", [Revoked, Lost])
@pytest.mark.parametrize("answered", [0, 1], ids=["before its answer", "before its bounds"])
def test_a_shard_that_goes_during_its_takeover_is_not_started_by_it(
    scene: Scene, how: type[Revoked] | type[Lost], again: bool, answered: int
) -> None:
    for _ in range(answered):
        scene.held.work()
        scene.turn(1)
    let_go(scene, how, again=again)
    scene.held.work()
    scene.worker.turn()
    scene.worker.wait_for_commit()

    assert not scene.is_running()
    assert scene.epochs() == [1] * answered
    take_over(scene)
    assert scene.is_running() == again
    assert scene.epochs()[:2] == ([1, 2] if answered else [1])[: answered + again]


def test_a_shard_that_was_lost_with_a_commit_in_flight_is_taken_over_behind_it(scene: Scene) -> None:
    take_over(scene)
    committer, slow = scene.committer.to, Held()
    scene.committer.to = slow
    scene.send(b"a", (b"delay-ms", b"0"), to=MAILS)
    scene.worker.turn()
    scene.worker.turn()
    assert len(slow.waiting) == 1
    scene.hand(Lost([MAILS]), Assigned([MAILS]))
    scene.worker.turn()

    assert not scene.held.waiting  # nobody has been asked about it

    slow.work()
    scene.committer.to = committer
    take_over(scene)
    take_over(scene)
    assert scene.is_running()
    assert scene.delivered("mails") == [b"a"]


def test_an_answer_to_a_claim_of_a_shard_that_has_gone_is_void(scene: Scene) -> None:
    committer, slow = scene.committer.to, Held()
    scene.committer.to = slow
    scene.held.work()
    scene.worker.turn()
    scene.hand(Lost([MAILS]), Assigned([MAILS]))
    slow.work()
    scene.committer.to = committer
    scene.worker.turn()

    assert not scene.is_running()
    assert scene.epochs() == [1]
    take_over(scene)
    assert scene.is_running()
    assert scene.epochs()[:2] == [1, 2]


class Noting:
    """A queue's `takeover` that has nothing to hand over."""

    def __init__(self) -> None:
        self.asked: list[Shard] = []

    def __call__(self, shard: Shard) -> Handover:
        self.asked.append(shard)
        return Handover(None, b"")


@pytest.mark.parametrize("answered", [0, 1])
def test_a_worker_that_stops_leaves_the_rest_of_a_takeover_out(scene: Scene, answered: int) -> None:
    for _ in range(answered):
        scene.held.work()
        scene.turn(1)
    scene.queue.takeover = takeover = Noting()
    scene.send(b"last", (b"delay-ms", b"0"))
    scene.turn(2)

    scene.worker.stop()
    scene.worker.run()

    assert scene.held.closed
    assert takeover.asked == []
    assert scene.delivered() == [b"last"]
    assert not scene.is_running()


def test_shards_that_are_not_ours_any_more_are_not_asked_about(scene: Scene) -> None:
    scene.queue.takeover = takeover = Noting()
    scene.hand(Lost([MAILS]))

    scene.held.work()
    scene.turn(1)

    assert takeover.asked == []
    assert not scene.worker.acquisition.is_under_way


@pytest.mark.parametrize("answered", [0, 1])
def test_what_was_found_of_a_shard_that_has_gone_and_come_back_since_is_void(scene: Scene, answered: int) -> None:
    for _ in range(answered):
        scene.held.work()
        scene.turn(1)
    scene.source.first = scene.held.work
    scene.hand(Lost([MAILS]), Assigned([MAILS]))
    scene.worker.turn()
    scene.worker.wait_for_commit()

    assert scene.epochs() == [1] * answered
    assert not scene.is_running()
    take_over(scene)
    assert scene.is_running()


# --- what the queue answers


ERRORS = [
    (QueueUnavailable("no answer"), "unavailable"),
    (PartitionUnknown("there is none"), "takeover"),
    (UnknownFormat("of later"), "unknown_format"),
    (StoreFull("no room"), "takeover"),
]


@pytest.mark.parametrize("call", ["takeover", "log_range", "buffer"])
@pytest.mark.parametrize(("error", "reason"), ERRORS)
def test_a_takeover_that_fails_stalls_its_shard_with_the_reason_and_is_tried_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, call: str, error: Exception, reason: str
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(scene.queue, call, raiser(error))
        take_over(scene)
        assert (scene.stalled(), scene.is_running()) == (reason, False)
        assert scene.worker.core(ORDERS) is not None
    scene.clock.advance(1000)

    take_over(scene)
    take_over(scene)

    assert (scene.stalled(), scene.is_running()) == (None, True)


def test_a_fault_of_our_own_ends_the_worker(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene.queue, "takeover", raiser(Bug("ours")))
    scene.held.work()

    with pytest.raises(Bug):
        scene.worker.turn()


def raiser(error: Exception) -> Callable[[Shard], Any]:
    def fail(_: Shard) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("error", [Fenced([MAILS]), CommitAborted("no"), CommitUnknown("silence")])
def test_a_claim_that_is_not_committed_is_made_anew(scene: Scene, error: Exception) -> None:
    scene.sink.fault = lambda batch: error if any(part.shard == MAILS for part in batch) else None
    take_over(scene)
    assert (scene.stalled(), scene.is_running()) == ("takeover", False)
    deliver(scene, b"meanwhile")
    assert scene.delivered() == [b"meanwhile"]
    scene.sink.fault = lambda _: None
    scene.clock.advance(1000)

    take_over(scene)
    take_over(scene)

    assert (scene.stalled(), scene.is_running()) == (None, True)


# --- the order


def test_the_end_up_to_which_is_read_is_that_behind_the_claim(scene: Scene) -> None:
    scene.held.work()
    for number in range(3):
        scene.send(b"%d" % number, (b"delay-ms", b"60000"), to=MAILS)
    scene.turn(1)
    scene.held.work()
    scene.worker.turn()

    core = scene.worker.core(MAILS)
    assert core is not None
    assert core.read_to.end == 3


def test_an_operator_takes_over_at_once_and_waits_for_a_commit_that_the_shard_has_part_in(scene: Scene) -> None:
    take_over(scene)
    scene.acquirer.to = InLine()
    scene.send(b"a", (b"delay-ms", b"0"), to=MAILS)
    scene.worker.turn()
    scene.worker.turn()
    core = scene.worker.core(MAILS)
    assert core is not None
    assert core.in_flight is not None
    owned = scene.owned(MAILS)
    scene.worker.stalls.lose(owned, "out_of_range", "gone")
    owned.operator.accepted = Accepted("out_of_range", 0)

    scene.worker.take_over(owned)

    assert scene.is_running()
    scene.turn(4)
    assert scene.delivered("mails") == [b"a"]


def test_nothing_is_measured_before_the_claim_has_been_committed(scene: Scene) -> None:
    slow = scene.committer.to = Held()
    scene.held.work()
    scene.worker.turn()
    scene.worker.turn()

    assert (len(slow.waiting), len(scene.held.waiting)) == (1, 0)


# --- in threads


class Gate:
    """Holds up whoever comes, until it is opened; longer than any test that goes well takes."""

    def __init__(self) -> None:
        self._open = Event()
        self.arrived = Event()
        self.is_in_the_way = True

    def pass_through(self) -> None:
        self.arrived.set()
        self.is_in_the_way = self._open.wait(PATIENCE_S)

    def open(self) -> None:
        self._open.set()


PATIENCE_S = 20.0


@pytest.fixture
def threaded() -> Iterator[Bench]:
    bench = Bench(acquirer=ThreadPoolExecutor(1))
    until(bench, lambda: bench.worker.core(ORDERS) is not None)
    yield bench
    bench.worker.stop()
    bench.worker.run()


def until(bench: Bench, is_so: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if is_so():
            return
        bench.worker.turn()
        time.sleep(0.001)
    pytest.fail("it never came to that")


def test_a_takeover_that_blocks_holds_up_no_delivery_of_another_shard(
    threaded: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, takeover = Gate(), threaded.queue.takeover

    def blocked(shard: Shard) -> Handover:
        gate.pass_through()
        return takeover(shard)

    monkeypatch.setattr(threaded.queue, "takeover", blocked)
    threaded.queue.ensure_buffer(MAILS.topic, DEFAULT_RULES)
    until(threaded, gate.arrived.is_set)
    threaded.send(b"meanwhile", (b"delay-ms", b"0"))

    until(threaded, lambda: threaded.delivered() == [b"meanwhile"])

    assert gate.is_in_the_way
    assert threaded.worker.core(MAILS) is None
    gate.open()
    until(threaded, lambda: threaded.worker.core(MAILS) is not None)


def test_a_claim_that_is_slow_to_commit_does_not_hold_up_the_loop(threaded: Bench) -> None:
    gate = Gate()

    def slow(batch: DispatchBatch) -> None:
        if any(part.shard == MAILS for part in batch):
            gate.pass_through()

    threaded.sink.fault = slow
    threaded.queue.ensure_buffer(MAILS.topic, DEFAULT_RULES)
    until(threaded, gate.arrived.is_set)
    threaded.send(b"read meanwhile", (b"delay-ms", b"60000"))

    until(threaded, lambda: threaded.index.shard(ORDERS).pending() == 1)

    assert gate.is_in_the_way
    assert threaded.worker.core(MAILS) is None
    gate.open()
    until(threaded, lambda: threaded.worker.core(MAILS) is not None)
