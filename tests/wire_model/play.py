"""Random runs of the machine against the model, and the judge.

What may happen to a request, by seed: nobody to send it to; lost on the way; late, so that it arrives after its
sender has given it up, in whatever epoch that is then; carried out with the answer lost; refused for the moment;
carried out and answered with an error all the same; refused for good; answered. Beside that transactions time out,
markers take their time, and the machine learns that its own time is up.

What must hold, whatever happened:

    committed   every record is visible once, in order, and so are the offsets
    aborted     nothing of it is ever visible
    unknown     all of it or nothing; and the next producer that is ready finds it decided, for good
    order       transactions that are visible in a partition follow each other as they were run
    alive       once nothing is lost any more, a transaction is committed, and then the next one at once
    beside      no offsets while a write waits for its answer, no end while offsets do
"""

from collections import Counter, deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from delayline.errors import Bug
from kafkawire.client import transaction
from kafkawire.protocol.errors import ErrorCode
from tests.wire_model.cluster import OFFSETS, OK, Cluster, Kind, Place

PLACES: tuple[Place, ...] = (("orders", 0), ("orders", 1), ("audit", 0))
STEPS_MAX = 120
"""Of one transaction, before its time is up."""

ALIVE_STEPS_MAX = 400
ALIVE_TRIES = 3
TRANSACTIONS_MAX = 4

_MOVED = {
    "Initialise": (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    "AddPartitions": (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    "AddOffsets": (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    "Write": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CORRUPT_MESSAGE,
    ),
    "CommitOffsets": (ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS),
    "End": (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
}
"""For the moment, and nothing was done."""

_DONE_ALL_THE_SAME = {
    "Write": (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT),
    "CommitOffsets": (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    "Initialise": (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR),
    "AddPartitions": (ErrorCode.COORDINATOR_NOT_AVAILABLE,),
    "AddOffsets": (ErrorCode.COORDINATOR_NOT_AVAILABLE,),
    "End": (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR),
}
"""Replication came too late for the answer (`TransactionStateManager.appendTransactionToLog`)."""

_FOR_GOOD = {
    "Write": (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    "CommitOffsets": (22, 25, 27),  # ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS
    "AddPartitions": (ErrorCode.TOPIC_AUTHORIZATION_FAILED,),
    "End": (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,),
}


class Broken(Exception):
    """A promise that did not hold, with what had happened."""


class Chances(NamedTuple):
    """Of a request, and at each step of the world. The rest of 1 is that everything goes well."""

    unsent: float
    lost: float
    late: float
    unanswered: float
    moved: float
    done_all_the_same: float
    for_good: float
    tick: float
    run_out: float
    arrives: float
    expired: float


CALM = Chances(0, 0, 0, 0, 0, 0, 0, 0.7, 0, 0.5, 0)


def chances(random: Random) -> Chances:
    """Rough or smooth, and one kind of trouble more than the others."""
    roughness = random.choice((0.0, 0.01, 0.04, 0.1))
    drawn = [random.random() * roughness for _ in range(7)]
    drawn[random.randrange(7)] += random.choice((0.0, 0.05, 0.2))
    return Chances._make(
        [*drawn, random.uniform(0.1, 0.9), roughness * random.random(), 0.3 * random.random(), 0.004]
    )


@dataclass
class Begun:
    """A transaction, and the machine's result of it."""

    number: int
    batches: list[tuple[Place, int]]
    offsets: bool
    outcome: Any = None
    frozen: bool | None = None  # an unknown one, once decided: whether it is visible


class _Flying(NamedTuple):
    """A request under way, and the transaction that it is part of."""

    request: Any
    begun: Any
    again: bool


@dataclass
class Run:
    """One run. `happened` counts the fates of requests by name, and outcomes."""

    seed: int
    module: Any = transaction
    happened: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.kind = self.random.choice(list(Kind))
        self.cluster = Cluster(self.kind, PLACES, self.random.choice((3, 5, 32_767)))
        self.machine = self.module.Machine()
        self.chances = chances(self.random)
        self.begun: list[Begun] = []
        self._flying: dict[Place | None, deque[_Flying]] = {}  # by leader; None are the coordinators
        self._late: list[_Flying] = []

    # --- running

    def play(self) -> "Run":
        try:
            for _ in range(self.random.randint(1, TRANSACTIONS_MAX)):
                self._transact()
            self._heal()
            self._judge()
        except Bug as bug:
            raise self._broken(f"the machine did not know what to do: {bug}") from bug
        return self

    def _transact(self) -> None:
        if not self._opened(STEPS_MAX):
            return
        begun = self._drawn(len(self.begun))
        self.begun.append(begun)
        self._feed(self.module.Begin(begun.batches, begun.offsets))
        self._until(lambda: self.machine.outcome is not None, STEPS_MAX)
        begun.outcome = self.machine.outcome
        self.happened[type(begun.outcome).__name__] += 1
        self._note(f"transaction {begun.number} is reported as {begun.outcome}")
        self._give_up_what_flies()

    def _drawn(self, number: int) -> Begun:
        places = [self.random.choice(PLACES) for _ in range(self.random.randint(0, 4))]
        batches = [(place, self.random.randint(1, 3)) for place in places]
        return Begun(number, batches, not places or self.random.random() < 0.7)

    def _opened(self, steps_max: int) -> bool:
        if self.machine.state is self.module.State.READY and self.random.random() < 0.9:
            return True
        self._feed(self.module.Open())
        ready = lambda: self.machine.outcome is not None or self.machine.state is self.module.State.READY  # noqa: E731
        self._until(ready, steps_max)
        self._give_up_what_flies()
        if self.machine.outcome is not None:
            return False
        self._freeze()
        return True

    def _until(self, done: Callable[[], bool], steps_max: int) -> None:
        for _ in range(steps_max):
            self._world()
            if done():
                return
            if self._chance(self.chances.expired):
                break
            self._request()
            if done():
                return
        while not done():
            self._time_is_up()

    def _time_is_up(self) -> None:
        """What was sent and has no answer by now is lost; else nothing was sent any more."""
        flying = [one for queue in self._flying.values() for one in queue]
        self._flying.clear()
        if flying and not all(one.again and self._chance(0.5) for one in flying):
            self._late += flying
            self.happened[f"in flight at the end {type(flying[0].request).__name__}"] += 1
            self._feed(self.module.Lost(flying[0].request))
        else:
            self._feed(self.module.Expired())

    def _feed(self, event: Any) -> None:
        self._note(f"-> {event}")
        for step in self.machine.advance(event):
            self._launch(step.request, step.again)

    def _launch(self, request: Any, again: bool) -> None:
        self._check_beside(request)
        at = request.place if isinstance(request, self.module.Write) else None
        self._flying.setdefault(at, deque()).append(_Flying(request, self.begun[-1] if self.begun else None, again))

    def _check_beside(self, request: Any) -> None:
        flying = [one.request for queue in self._flying.values() for one in queue]
        if isinstance(request, self.module.CommitOffsets | self.module.End | self.module.AddOffsets) and flying:
            raise self._broken(f"{request} was sent beside {flying}")

    def _give_up_what_flies(self) -> None:
        """What has no answer yet when the machine has come to its end may be carried out, at any time or never."""
        for queue in self._flying.values():
            self._late += queue
        self._flying.clear()

    # --- the network

    def _request(self) -> None:
        """Something becomes of a request that is under way."""
        leaders = [at for at, queue in self._flying.items() if queue]
        if not leaders:
            return
        flying = self._flying[self.random.choice(leaders)].popleft()
        request = flying.request
        name = type(request).__name__
        fate = self._fate(name)
        self.happened[f"{fate} {name}"] += 1
        self._note(f"{request}: {fate}")
        if fate == "unsent":
            self._feed(self.module.Unsent(request))
        elif fate in ("lost", "late", "unanswered"):
            if fate == "late":
                self._late.append(flying)
            elif fate == "unanswered":
                self._carried_out(flying)
            self._feed(self.module.Lost(request))
        elif fate in ("moved", "for_good"):
            self._refuse(request, self.random.choice((_MOVED if fate == "moved" else _FOR_GOOD)[name]))
        else:
            self._answered(flying, name, fate)

    def _fate(self, name: str) -> str:
        drawn = self.random.random()
        for fate, chance in zip(Chances._fields[:7], self.chances[:7], strict=True):
            if drawn < chance:
                tables: dict[str, Container[str]] = {
                    "moved": _MOVED,
                    "done_all_the_same": _DONE_ALL_THE_SAME,
                    "for_good": _FOR_GOOD,
                }
                return fate if name in tables.get(fate, (name,)) else "answered"
            drawn -= chance
        return "answered"

    def _answered(self, flying: "_Flying", name: str, fate: str) -> None:
        request = flying.request
        code, identity = self._carried_out(flying)
        if fate == "done_all_the_same" and code is OK:
            code = self.random.choice(_DONE_ALL_THE_SAME[name])
        if code is not OK:
            self._refuse(request, code)
        elif name == "Initialise":
            self._feed(self.module.Opened(self.module.Identity(*identity), self.kind is Kind.IMPLICIT))
        else:
            given = name == "End" and self.kind is Kind.IMPLICIT
            self._feed(self.module.Done(request, self.module.Identity(*identity) if given else None))

    def _refuse(self, request: Any, code: int) -> None:
        of_places: Any = ()
        if isinstance(request, self.module.AddPartitions):
            of_places = tuple((place, code) for place in request.places)
        self._feed(self.module.Refused(request, code, of_places))

    def _carried_out(self, flying: "_Flying") -> tuple[ErrorCode, tuple[int, int]]:
        """What the brokers answer, and whom they will take requests from next."""
        (request, begun, _), cluster = flying, self.cluster
        match type(request).__name__:
            case "Initialise":
                return cluster.initialise()
            case "AddPartitions":
                code = cluster.add(*request.identity, request.places)  # type: ignore[call-arg]
            case "AddOffsets":
                code = cluster.add(*request.identity, (OFFSETS,))  # type: ignore[call-arg]
            case "Write":
                count, tag = begun.batches[request.number][1], (begun.number, request.number)
                code = cluster.write(request.place, *request.identity, request.sequence, count, tag)  # type: ignore[call-arg]
            case "CommitOffsets":
                code = cluster.write(OFFSETS, *request.identity, 0, 1, (begun.number, 0))  # type: ignore[call-arg]
            case _:
                code = cluster.end(*request.identity)
        return code, (cluster.producer_id, cluster.epoch)

    # --- the world

    def _world(self) -> None:
        if self._chance(self.chances.run_out) and self.cluster.run_out():
            self.happened["timeout"] += 1
            self._note("the transaction times out")
        if self._chance(self.chances.tick):
            self.cluster.tick()
        if self._late and self._chance(self.chances.arrives):
            self._arrive()

    def _arrive(self) -> None:
        flying = self._late.pop(self.random.randrange(len(self._late)))
        if self._chance(0.3):
            return  # never
        code, _ = self._carried_out(flying)
        request = flying.request
        self.happened[f"{'taken' if code is OK else 'refused'} late {type(request).__name__}"] += 1
        self._note(f"{request} arrives late: {code.name}")

    def _chance(self, chance: float) -> bool:
        return self.random.random() < chance

    # --- judging

    def _heal(self) -> None:
        """Nothing is lost any more; what is late arrives before the next transaction, or never."""
        self.chances = CALM
        for _ in range(ALIVE_TRIES):
            self._all_arrive()
            if self._is_alive():
                break
        else:
            raise self._broken(f"nothing is lost, and a transaction is {self.begun[-1].outcome}")
        if not self._is_alive():
            raise self._broken(f"behind a transaction that was committed the next one is {self.begun[-1].outcome}")
        self.cluster.run_out()
        while self.cluster.tick():
            pass

    def _all_arrive(self) -> None:
        while self._late:
            self._arrive()

    def _is_alive(self) -> bool:
        """Whether a transaction is committed. One may be needed to notice that a late request has fenced us."""
        if not self._opened(ALIVE_STEPS_MAX):
            return False
        begun = Begun(len(self.begun), [(place, 1) for place in PLACES], True)
        self.begun.append(begun)
        self._feed(self.module.Begin(begun.batches, True))
        self._until(lambda: self.machine.outcome is not None, ALIVE_STEPS_MAX)
        begun.outcome = self.machine.outcome
        self._give_up_what_flies()
        return isinstance(begun.outcome, self.module.Committed)

    def _freeze(self) -> None:
        """A producer is ready: what was unknown is decided."""
        for begun in self.begun:
            if isinstance(begun.outcome, self.module.Unknown) and begun.frozen is None:
                begun.frozen = self._seen(begun) > 0
                self.happened["unknown, there" if begun.frozen else "unknown, not there"] += 1

    def _seen(self, begun: Begun) -> int:
        return sum(tag[0] == begun.number for place in self.cluster.partitions.values() for tag in place.visible)

    def _judge(self) -> None:
        for begun in self.begun:
            self._judge_one(begun)
        for place, partition in self.cluster.partitions.items():
            if partition.visible != sorted(partition.visible):
                raise self._broken(f"{place} is out of order: {partition.visible}")
            if partition.hangs:
                raise self._broken(f"{place} holds a transaction that nobody ends")

    def _judge_one(self, begun: Begun) -> None:
        wanted = Counter({(place, number): 1 for number, (place, _) in enumerate(begun.batches)})
        wanted += Counter({(OFFSETS, 0): int(begun.offsets)})
        seen = Counter(
            (place, tag[1])
            for place, partition in self.cluster.partitions.items()
            for tag in partition.visible
            if tag[0] == begun.number
        )
        all_of_it, nothing = seen == wanted, not seen
        if isinstance(begun.outcome, self.module.Committed):
            good = all_of_it
        elif isinstance(begun.outcome, self.module.Aborted):
            good = nothing
        else:
            good = (all_of_it or nothing) and begun.frozen in (None, bool(seen))
        if not good:
            raise self._broken(
                f"transaction {begun.number}, {begun.outcome}, is seen as {dict(seen)} of {dict(wanted)}"
            )

    def _note(self, line: str) -> None:
        self.trace.append(line)

    def _broken(self, what: str) -> Broken:
        lines = "\n  ".join(self.trace[-60:])
        return Broken(f"seed {self.seed}, {self.kind.name}: {what}\n  {lines}")


def play(seeds: Iterable[int], module: Any = transaction) -> Counter[str]:
    """What has happened, by kind. Raises Broken."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        happened += Run(seed, module).play().happened
    return happened
