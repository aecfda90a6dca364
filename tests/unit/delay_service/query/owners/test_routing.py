"""Which worker is asked, through rebalances and outages."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from delay_service.query.owners.directory import Directory
from delay_service.query.owners.errors import NotMine, NotYet, Rejected
from delay_service.query.owners.methods import METHODS, Method
from delay_service.query.owners.routing import NoShard, Routing
from delay_service.query.owners.waits import AGAIN_S, PAUSE_S
from delayline.buffer.outcome import Outcome
from delayline.clock import ManualClock
from delayline.questions.inquiry import DueCounts, DueQuery, OwnerUnavailable, Resolution, ShardFigures
from delayline.records.message import MessageId, Shard
from mq.contract import Owner
from mq.errors import QueueUnavailable
from tests.unit.delay_service.query.owners.people import FOUND, ID, ONE, SHARD, TWO, Group, Pauses, Worker

WITHIN_S = 4.0


class Others:
    """Workers of other processes: what each of them answers, in turn; the last answer stays."""

    def __init__(self) -> None:
        self.scripted: dict[Owner, list[Any]] = {}
        self.asked: list[tuple[Owner, str, Any, float]] = []
        self.given_up: Callable[[], object] = lambda: None

    async def ask(self, owner: Owner, method: Method, arguments: tuple[Any, ...], wait_s: float) -> Any:
        self.asked.append((owner, method.name, arguments, wait_s))
        words = self.scripted.get(owner, [OwnerUnavailable("does not answer")])
        word = words.pop(0) if len(words) > 1 else words[0]
        if isinstance(word, Exception):
            raise word
        if word is ...:
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up()
        return word


class Scene:
    """A process, its table of owners, and the others."""

    def __init__(self, here: Worker | None = None, **table: Owner) -> None:
        self.clock = ManualClock()
        self.pauses = Pauses(self.clock)
        self.group = Group({Shard("orders", name.removeprefix("p")): owner for name, owner in table.items()})
        self.directory = Directory(self.group, self.clock)
        self.directory.refresh()
        self.others = Others()
        self.here = here

    def ask(self, method: str = "find", *arguments: Any) -> Any:
        with self.routing() as routing:
            return asyncio.run(routing.ask(METHODS[method], arguments or (ID,), WITHIN_S))

    def ask_all(self, method: str, *arguments: Any) -> Any:
        with self.routing() as routing:
            return asyncio.run(routing.ask_all(METHODS[method], arguments, WITHIN_S))

    @contextmanager
    def routing(self) -> Iterator[Routing]:
        with ThreadPoolExecutor(1) as threads:
            yield Routing(self.directory, self.others, self.here, self.group, threads, self.clock, self.pauses)

    def moves(self, to: Owner | None) -> None:
        """The group assigns SHARD to another, and the table hears of it."""
        self.group.table = {} if to is None else {SHARD: to}
        self.directory.refresh()

    @property
    def asked(self) -> list[Owner]:
        return [owner for owner, *_ in self.others.asked]


def test_the_owner_is_asked_wherever_it_is() -> None:
    scene = Scene(p3=TWO, p2=ONE)
    scene.others.scripted[TWO] = [FOUND]
    assert scene.ask() == FOUND
    assert scene.others.asked == [(TWO, "find", (ID,), WITHIN_S)]
    assert scene.pauses.count == 0


def test_the_worker_of_this_process_is_asked_first() -> None:
    here = Worker(ONE.writer, SHARD)
    here.answers["find", ID] = FOUND
    scene = Scene(here, p3=TWO)
    assert scene.ask() == FOUND
    assert scene.asked == []


def test_a_shard_that_is_not_ours_is_asked_for_elsewhere() -> None:
    scene = Scene(Worker(ONE.writer), p3=TWO)
    scene.others.scripted[TWO] = [FOUND]
    assert scene.ask() == FOUND


def test_a_shard_that_has_just_left_this_process_waits_for_its_new_owner() -> None:
    scene = Scene(Worker(ONE.writer), p3=ONE)
    scene.others.scripted[TWO] = [FOUND]
    scene.pauses.then[2] = lambda: scene.moves(TWO)
    assert scene.ask() == FOUND
    assert scene.asked == [TWO]


@pytest.mark.parametrize("word", [NotMine("not mine"), OwnerUnavailable("does not answer"), NotYet("busy")])
def test_through_a_rebalance_the_question_is_asked_until_the_new_owner_answers(word: Exception) -> None:
    scene = Scene(p3=ONE)
    scene.others.scripted = {ONE: [word], TWO: [OwnerUnavailable("is being taken over"), FOUND]}
    scene.pauses.then = {2: lambda: scene.moves(None), 4: lambda: scene.moves(TWO)}
    assert scene.ask() == FOUND
    assert scene.asked == [ONE, ONE, TWO, TWO]


def test_while_a_worker_is_silent_one_of_many_questions_at_a_time_tries_it() -> None:
    scene, waiting, rounds, silent = Scene(p3=ONE), list[asyncio.Future[None]](), 0, 0
    scene.others.scripted[ONE] = [OwnerUnavailable("does not answer")]

    async def pause(seconds: float) -> None:
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[-1]

    async def main(routing: Routing) -> list[Any]:
        nonlocal rounds, silent
        asking = [asyncio.create_task(routing.ask(METHODS["find"], (ID,), WITHIN_S))]
        while not all(task.done() for task in asking):
            for _ in range(20):
                await asyncio.sleep(0)
            if rounds == 0:
                asking += [asyncio.create_task(routing.ask(METHODS["find"], (ID,), WITHIN_S)) for _ in range(50)]
            rounds += 1
            if rounds == 5:
                silent, scene.others.scripted[ONE] = len(scene.asked), [FOUND]
            scene.clock.advance(int(PAUSE_S * 1000))
            awake, waiting[:] = waiting[:], []
            for future in awake:
                future.set_result(None)
        return [task.result() for task in asking]

    with ThreadPoolExecutor(1) as threads:
        routing = Routing(scene.directory, scene.others, None, scene.group, threads, scene.clock, pause)
        assert asyncio.run(main(routing)) == [FOUND] * 51
    assert rounds <= 8
    assert (silent, len(scene.asked)) == (5, 5 + 51)


def test_a_wrong_answer_has_the_table_renewed() -> None:
    scene = Scene(p3=ONE)
    scene.others.scripted[ONE] = [NotMine("not mine"), FOUND]
    wanted: list[None] = []
    scene.directory.want = lambda: wanted.append(None)
    scene.ask()
    assert len(wanted) == 1


def test_when_its_time_is_up_the_last_reason_is_shown() -> None:
    scene = Scene(p3=ONE)
    scene.others.scripted[ONE] = [NotMine("early"), OwnerUnavailable("is being taken over")]
    with pytest.raises(OwnerUnavailable, match="is being taken over"):
        scene.ask()
    assert scene.pauses.count == WITHIN_S / PAUSE_S - 1
    assert [wait_s for *_, wait_s in scene.others.asked][-1] == pytest.approx(PAUSE_S)


def test_nobody_owns_a_shard_and_the_reason_is_that_the_group_cannot_be_asked() -> None:
    scene = Scene()
    scene.group.failure = QueueUnavailable("the coordinator is away")
    scene.directory.refresh()
    with pytest.raises(OwnerUnavailable, match=r"no worker owns shard orders\.3 right now: the coordinator is away"):
        scene.ask()


def test_an_owner_without_an_address_cannot_be_asked() -> None:
    scene = Scene(p3=Owner("delayline-worker-1", ""))
    with pytest.raises(OwnerUnavailable):
        scene.ask()
    assert scene.asked == []


def test_two_processes_that_do_not_understand_each_other_do_not_try_again() -> None:
    scene = Scene(p3=ONE)
    scene.others.scripted[ONE] = [Rejected("another secret"), FOUND]
    with pytest.raises(Rejected):
        scene.ask()
    assert len(scene.asked) == 1


def test_an_owner_that_cannot_reach_the_queue_is_not_asked_again() -> None:
    scene = Scene(p3=ONE)
    scene.others.scripted[ONE] = [QueueUnavailable("no brokers"), FOUND]
    with pytest.raises(QueueUnavailable):
        scene.ask()


def test_a_shard_that_does_not_exist_is_not_waited_for() -> None:
    scene = Scene()
    with pytest.raises(NoShard):
        scene.ask("find", MessageId(Shard("nothing", "0"), 0, 0))
    assert scene.pauses.count == 0


def test_an_owner_that_falls_silent_is_left_once_the_shard_is_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delay_service.query.owners.routing.LOOK_AGAIN_S", 0.001)
    scene = Scene(p3=ONE)
    scene.others.scripted = {ONE: [...], TWO: [Resolution(Outcome.APPLIED)]}
    looks = 0

    def want() -> None:
        nonlocal looks
        looks += 1
        if looks in (3, 6):
            scene.moves({3: None, 6: TWO}[looks])

    scene.directory.want = want
    assert scene.ask("decided", SHARD, 7) == Resolution(Outcome.APPLIED)
    assert (scene.asked, scene.pauses.count) == ([ONE, TWO], 1)


def test_a_worker_of_this_process_that_loses_the_shard_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delay_service.query.owners.local.LOOK_AGAIN_S", 0.001)
    here = Worker(ONE.writer, SHARD)
    scene = Scene(here, p3=TWO)
    scene.others.scripted[TWO] = [Resolution(Outcome.UNMATCHED)]
    looks: list[Any] = []
    monkeypatch.setattr(here, "owns", lambda shard: looks.append(shard) or len(looks) < 5)
    assert scene.ask("decided", SHARD, 7) == Resolution(Outcome.UNMATCHED)
    assert (len(here.open), scene.asked) == (1, [TWO])


# --- questions to all


A, B, C = (Shard("orders", str(number)) for number in range(3))


def counts(*shards: Shard) -> list[DueCounts]:
    return [DueCounts(shard, (1, 2)) for shard in shards]


def counted(scene: Scene, *shards: Shard) -> list[Shard]:
    """Whose counts are in the answer."""
    return [one.shard for one in scene.ask_all("due_counts", shards, DUE)]


DUE = DueQuery(0, 1, 2)


def test_each_owner_is_asked_about_its_own_shards() -> None:
    scene = Scene(p0=ONE, p1=TWO, p2=ONE)
    scene.others.scripted = {ONE: [counts(A, C)], TWO: [counts(B)]}
    assert counted(scene, A, B, C) == [A, C, B]
    asked = {(owner, tuple(arguments[0])) for owner, _, arguments, _ in scene.others.asked}
    assert asked == {(ONE, (A, C)), (TWO, (B,))}
    assert scene.pauses.count == 0


def test_the_worker_of_this_process_takes_part() -> None:
    here = Worker(ONE.writer, A, C)
    here.answers["due_counts", ((A, C), DUE)] = counts(A, C)
    scene = Scene(here, p0=ONE, p1=TWO, p2=TWO)
    scene.others.scripted[TWO] = [counts(B)]
    assert sorted(counted(scene, A, B, C)) == [A, B, C]
    assert scene.asked == [TWO]


def test_shards_that_nobody_owns_are_left_out_at_once() -> None:
    scene = Scene(p0=ONE)
    scene.others.scripted[ONE] = [counts(A)]
    assert counted(scene, A, B) == [A]
    assert scene.pauses.count == 0


def test_a_shard_that_is_newer_than_the_table_is_waited_for() -> None:
    scene = Scene(p0=ONE)
    scene.others.scripted = {ONE: [counts(A)], TWO: [counts(B)]}
    scene.group.table[B] = TWO
    scene.clock.advance(1)
    scene.pauses.then[2] = scene.directory.refresh
    assert counted(scene, A, B) == [A, B]
    assert scene.pauses.count == 2


def test_a_shard_without_an_owner_holds_up_one_list() -> None:
    scene = Scene(p0=ONE)
    scene.others.scripted = {ONE: [counts(A)]}
    with scene.routing() as routing:
        for pauses in (1, 1):
            scene.clock.advance(1)
            scene.pauses.then[1] = scene.directory.refresh
            asking = routing.ask_all(METHODS["due_counts"], ([A, B], DueQuery(0, 1, 1)), WITHIN_S)
            assert [one.shard for one in asyncio.run(asking)] == [A]
            assert scene.pauses.count == pauses


def test_while_the_group_is_rebalanced_a_shard_that_nobody_owns_is_waited_for() -> None:
    scene = Scene(p0=ONE)
    scene.others.scripted = {ONE: [counts(A)], TWO: [counts(B)]}
    scene.group.failure = QueueUnavailable("being rebalanced")
    scene.directory.refresh()

    def settle() -> None:
        scene.group.failure = None
        scene.group.table[B] = TWO
        scene.directory.refresh()

    scene.pauses.then[3] = settle
    assert counted(scene, A, B) == [A, B]
    assert (scene.asked, scene.pauses.count) == ([ONE, TWO], 3)


def test_what_an_owner_leaves_out_is_asked_of_the_next_one() -> None:
    scene = Scene(p0=ONE, p1=ONE)
    scene.others.scripted = {ONE: [counts(A), []], TWO: [OwnerUnavailable("starts"), counts(B)]}
    scene.pauses.then[2] = lambda: (scene.group.table.update({B: TWO}), scene.directory.refresh())
    assert counted(scene, A, B) == [A, B]
    assert scene.asked == [ONE, ONE, TWO, TWO]


def test_an_owner_that_does_not_answer_is_left_out_after_a_while() -> None:
    scene = Scene(p0=ONE, p1=TWO)
    scene.others.scripted[TWO] = [counts(B)]
    assert counted(scene, A, B) == [B]
    assert scene.pauses.count == AGAIN_S / PAUSE_S


def test_an_owner_that_is_frozen_holds_up_no_other() -> None:
    scene = Scene(p0=ONE, p1=TWO)
    scene.others.scripted = {ONE: [...], TWO: [NotYet("busy"), counts(B)]}
    scene.others.given_up = lambda: scene.clock.advance(int(WITHIN_S * 1000))
    with scene.routing() as routing:
        assert asyncio.run(routing.ask_all(METHODS["due_counts"], ((A, B), DUE), 2 * PAUSE_S)) == counts(B)
    assert scene.asked == [ONE, TWO, TWO]


def test_an_owner_that_is_frozen_is_left_for_those_that_own_its_shards_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delay_service.query.owners.routing.LOOK_AGAIN_S", 0.001)
    scene = Scene(p0=ONE, p1=ONE)
    scene.others.scripted = {ONE: [..., counts(A)], TWO: [counts(B)]}
    scene.group.table[B] = TWO
    scene.directory.want = scene.directory.refresh
    assert counted(scene, A, B) == [A, B]
    assert (scene.asked, scene.pauses.count) == ([ONE, ONE, TWO], 1)


def test_an_owner_of_another_version_is_left_out() -> None:
    scene = Scene(p0=ONE, p1=TWO)
    scene.others.scripted = {ONE: [Rejected("no such question")], TWO: [counts(B)]}
    assert counted(scene, A, B) == [B]
    assert scene.pauses.count == 0


def test_the_first_question_of_a_process_waits_for_the_table() -> None:
    scene = Scene()
    scene.group.table = {A: ONE}
    scene.directory = Directory(scene.group, scene.clock)
    scene.others.scripted[ONE] = [counts(A)]
    scene.pauses.then[2] = scene.directory.refresh
    assert counted(scene, A) == [A]


def test_a_question_about_no_shard_in_particular_goes_to_everybody() -> None:
    here = Worker("delayline-worker-0")
    here.answers["figures", None] = [ShardFigures(C, True)]
    scene = Scene(here, p0=ONE, p1=TWO)
    scene.others.scripted = {ONE: [[ShardFigures(A, True)]], TWO: [[ShardFigures(B, True)]]}
    assert {one.shard for one in scene.ask_all("figures")} == {A, B, C}
    assert [arguments for _, _, arguments, _ in scene.others.asked] == [(), ()]


def test_an_owner_that_is_frozen_does_not_hold_up_the_others_beyond_the_time_for_all() -> None:
    scene = Scene(p0=ONE, p1=TWO)
    scene.others.scripted = {ONE: [...], TWO: [counts(B)]}
    with scene.routing() as routing:
        found = asyncio.run(routing.ask_all(METHODS["due_counts"], ([A, B], DUE), 0.05))
    assert [one.shard for one in found] == [B]
