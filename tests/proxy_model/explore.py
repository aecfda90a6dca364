"""All that a scope can lead to, state by state; and long random runs where that is too much."""

import random
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from delayline.errors import Bug
from proxy.kafka.produce.sequencer.gate import Gate
from tests.proxy_model.scope import Fault, Scope
from tests.proxy_model.world import Violation, World

STEPS_MAX = 2000


class Broken(Exception):
    """A violation, with the steps that led to it."""


@dataclass
class Explored:
    """How much there was. `points`: how many (state, fault) pairs were tried, by fault."""

    states: int = 0
    steps: int = 0
    endings: int = 0
    points: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Explored") -> None:
        self.states += other.states
        self.steps += other.steps
        self.endings += other.endings
        self.points += other.points

    def __str__(self) -> str:
        points = ", ".join(f"{name} {count}" for name, count in sorted(self.points.items()))
        return f"{self.states} states, {self.steps} steps, {self.endings} endings, faults at {points or 'none'}"


class _Graph:
    """States by number; where each came from, for traces, and what leads to it, for the way to an ending."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.came: list[tuple[int, str]] = []
        self.before: list[list[int]] = []

    def add(self, key: Hashable, origin: int, step: str) -> tuple[int, bool]:
        number = self.numbers.setdefault(key, len(self.came))
        new = number == len(self.came)
        if new:
            self.came.append((origin, step))
            self.before.append([])
        if origin >= 0:
            self.before[number].append(origin)
        return number, new

    def trace(self, number: int, last: str) -> str:
        steps = [last]
        while number >= 0:
            number, step = self.came[number]
            steps.append(step)
        return "\n  ".join(reversed(steps))

    def hopeless(self, endings: list[int]) -> int | None:
        """A state that no ending can be reached from."""
        reached = set(endings)
        waiting = deque(endings)
        while waiting:
            for origin in self.before[waiting.popleft()]:
                if origin not in reached:
                    reached.add(origin)
                    waiting.append(origin)
        return next((number for number in range(len(self.came)) if number not in reached), None)


def explore(scope: Scope, gate: Callable[[], Any] = Gate) -> Explored:
    """Every reachable state. Raises Broken."""
    explored, graph, endings = Explored(), _Graph(), []
    world = World(scope, gate)
    waiting = [(graph.add(world.key(), -1, str(scope))[0], world)]
    while waiting:
        number, world = waiting.pop()
        if world.finished:
            endings.append(number)
        for name, after in _successors(world, explored, graph, number):
            reached, new = graph.add(after.key(), number, name)
            if new:
                waiting.append((reached, after))
    if (stuck := graph.hopeless(endings)) is not None:
        raise Broken(graph.trace(stuck, "... from where it cannot end well"))
    explored.states, explored.endings = len(graph.came), len(endings)
    return explored


def _successors(world: World, explored: Explored, graph: _Graph, number: int) -> Iterator[tuple[str, World]]:
    for name, step in list(world.steps()):
        after = world.copied()
        explored.steps += 1
        if name.split()[-1] in Fault.__members__:
            explored.points[name.split()[-1]] += 1
        try:
            step(after)
        except (Violation, Bug) as violation:
            raise Broken(graph.trace(number, f"{name}: {violation}")) from violation
        yield name, after


def wander(scope: Scope, seed: int, gate: Callable[[], Any] = Gate) -> Explored:
    """One random run to its end: faults while the budget lasts. Raises Broken, also where it does not end."""
    choose, explored, names = random.Random(seed), Explored(), [f"seed {seed}: {scope}"]
    world = World(scope, gate)
    for _ in range(STEPS_MAX):
        if world.finished:
            explored.endings = 1
            return explored
        name, step = _chosen(world, choose)
        names.append(name)
        explored.steps += 1
        if name.split()[-1] in Fault.__members__:
            explored.points[name.split()[-1]] += 1
        try:
            step(world)
        except (Violation, Bug) as violation:
            raise Broken("\n  ".join([*names, str(violation)])) from violation
    raise Broken("\n  ".join([*names, "... does not end"]))


def _chosen(world: World, choose: random.Random) -> tuple[str, Callable[[World], None]]:
    """A fault one time in eight, so that a long budget spreads over a long run."""
    steps = list(world.steps())
    faults = [one for one in steps if one[0].split()[-1] in Fault.__members__]
    others = [one for one in steps if one not in faults]
    if faults and (not others or choose.random() < 0.125):
        return choose.choice(faults)
    if not others:
        raise Broken(f"{world.scope}: nothing can happen any more")
    return choose.choice(others)
