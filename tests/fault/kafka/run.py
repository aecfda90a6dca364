"""The proof: `make prove`, or `python -m tests.fault.kafka.run`; SEED=... repeats the choices of a run.

Three parts, each on brokers of its own:

    storm       one node, everything that can happen to workers, API, broker and group, at random
    takeovers   one node, 5,000 messages a second: how long shards stand still when their owner goes
    cluster     three nodes whose leaders are killed

Exit code 1 when a promise was broken, when a fault did not happen as often as wanted, or when shards stood still for
too long. Logs and evidence stay in .cache/proof then.
"""

import os
import pickle
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random, SystemRandom

from tests.brokers.distribution import CACHE, Unavailable
from tests.brokers.kafka import QUICK_START, Kafka
from tests.fault.kafka import nemesis as deeds
from tests.fault.kafka.clients import GROUP_MAX
from tests.fault.kafka.figures import Chances, Waits, chances, waits
from tests.fault.kafka.nemesis import Nemesis, restarted
from tests.fault.kafka.processes import Disk, Worker
from tests.fault.kafka.scene import Scene, Size, scene
from tests.fault.kafka.takeover import Takeovers
from tests.simulation.checker import Violation, check

FOLDER = CACHE.parent / "proof"
TAKEOVER_MAX_S = 8.0
"""From SIGKILL to the next delivery, and for any reader of a target topic, at a session timeout of 6 s."""

WANTED = {
    deeds.KILLS: 60,
    deeds.KILLS_OPEN: 10,
    deeds.BROKER_RESTARTS: 10,
    **dict.fromkeys((restarted(disk) for disk in Disk), 1),
    **dict.fromkeys((deeds.FREEZES, deeds.STOPS, deeds.DOOR_KILLS, deeds.BROKER_KILLS), 1),
    **dict.fromkeys((deeds.LEADER_KILLS, deeds.GROUP_DELETIONS), 1),
}
MESSAGES_WANTED = 50_000


@dataclass
class Outcome:
    """What a part came to. `takeovers_s` are seconds by what made the owner go."""

    tally: Counter[str]
    failures: list[str]
    violations: list[Violation]
    chances: Chances
    waits: Waits
    messages: int
    seconds: float
    takeovers_s: dict[str, list[float]] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return not (self.failures or self.violations)


Play = Callable[[Scene, Nemesis], Mapping[str, list[float]] | None]


@dataclass(frozen=True)
class Part:
    """A name, brokers, load, and what happens."""

    name: str
    size: Size
    play: Play
    nodes: int = 1
    java_options: Sequence[str] = tuple(QUICK_START)
    properties: Mapping[str, str] = field(default_factory=dict)


def storm(_: Scene, nemesis: Nemesis) -> None:
    order = [nemesis.kill] * 32 + [nemesis.kill_in_transaction] * 16 + [nemesis.kill_all] * 5
    order += [nemesis.freeze] * 3 + [nemesis.stop] * 3 + [nemesis.kill_api] * 3
    order += [nemesis.kill_broker] * 3 + [nemesis.delete_group] * 2
    nemesis.rampage(order, 0.5, 4)


def takeovers(made: Scene, nemesis: Nemesis) -> Mapping[str, list[float]]:
    found = Takeovers(made, nemesis)
    found.settle()
    for departure in (found.kill, found.stop, found.kill, found.freeze, found.kill, found.kill, found.stop):
        departure()
    return found.seconds


def restarts(_scene: Scene, nemesis: Nemesis) -> None:
    """The broker and all workers come back together: none of them knows anything, and each has to learn what is
    true."""
    nemesis.rest(25, 30)
    for _ in range(6):
        nemesis.kill_all()
        nemesis.rest(1, 9)
        nemesis.restart_broker()
        nemesis.kill_all()
        nemesis.rest(5, 8)
        nemesis.restart_broker()
        nemesis.rest(10, 14)


def cluster(_: Scene, nemesis: Nemesis) -> None:
    order = [nemesis.kill_broker] * 3 + [nemesis.kill] * 4 + [nemesis.kill_in_transaction] * 3
    nemesis.rampage([*order, nemesis.delete_group], 1, 4)


SLOW_TO_LOAD = {"offsets.load.buffer.size": "20000"}
"""A group's coordinator reads its log in many steps."""

PARTS = (
    Part("storm", Size(), storm),
    Part("takeovers", Size(stream_rate=4700, group_rate=150, post_rate=150), takeovers, java_options=()),
    Part("restarts", Size(partitions=8), restarts, properties=SLOW_TO_LOAD),
    Part("cluster", Size(), cluster, nodes=3),
)


def play(part: Part, seed: int, folder: Path) -> Outcome:
    """Run one part to its end and judge it. Raises Unavailable where there can be no broker."""
    started_s = time.monotonic()
    with closing(Kafka(part.nodes, java_options=part.java_options, properties=part.properties)) as kafka:
        kafka.start()
        with scene(kafka, part.size, seed, folder) as made:
            measured: Mapping[str, list[float]] = {}
            nemesis = Nemesis(made, Random(f"{seed} {part.name}"))
            try:
                made.start()
                made.send()
                nemesis.rest(3, 4)
                measured = part.play(made, nemesis) or {}
            except AssertionError as error:
                made.failures.append(str(error))
            made.hush()
            made.tally["seconds until nothing was pending"] += round(made.drain())
            for worker in made.workers:
                if made.failures and worker.running:
                    worker.abort()
                else:
                    nemesis.end(worker)
            made.tally["shards read from the mirror alone"] += sum(map(_mirrored, made.workers))
            outcome = judge(made, time.monotonic() - started_s, dict(measured), folder)
            if not outcome.good:
                kafka.save(folder / "brokers", "__consumer_offsets-*", "__transaction_state-*", "*.cursor-*")
            return outcome


def _mirrored(worker: Worker) -> int:
    """How often its group had lost commits, or did not become stable; or the last commit's markers had a moment to
    go."""
    return worker.log.read_text(errors="replace").count("the worker group lacks what the mirror has")


def judge(made: Scene, seconds: float, takeovers_s: dict[str, list[float]], folder: Path) -> Outcome:
    evidence = made.evidence()
    history = evidence.history()
    forgotten = len(evidence.forgotten())
    made.tally["messages of clients' transactions that a killed broker forgot"] += forgotten
    if forgotten > GROUP_MAX * len(evidence.outages):
        made.failures.append(f"{forgotten} messages of clients' transactions are hidden: more than outages explain")
    violations = check(history)
    if violations:
        (folder / "evidence.pickle").write_bytes(pickle.dumps(evidence))
    return Outcome(
        made.tally,
        made.failures,
        violations,
        chances(evidence, history),
        waits(evidence),
        len(evidence.ledger.sent),
        seconds,
        takeovers_s,
    )


# --- what is printed


def report(part: Part, outcome: Outcome) -> None:
    size = part.size
    rate = size.stream_rate + size.group_rate + size.post_rate
    print(
        f"\n{part.name}: {outcome.messages} messages at {rate:.0f}/s, {size.topics * size.partitions} shards, "
        f"{size.workers} workers, {part.nodes} nodes, {outcome.seconds:.0f} s"
    )
    for name, count in sorted(outcome.tally.items()):
        print(f"{count:>9}  {name}")
    for name, seconds in outcome.takeovers_s.items():
        if seconds:
            print(f"{max(seconds):>9.2f}  s at most from {name} of an owner to the next delivery of all its shards")
            print(f"{'':>11}({', '.join(f'{each:.2f}' for each in seconds)})")
    print(f"{outcome.waits.closest_ms:>9}  ms at least from due to the broker's stamp")
    print(f"{outcome.waits.longest_ms:>9}  ms at most from due to a reader of the target having it")
    print(f"{outcome.waits.stalled_ms:>9}  ms at most in which the reader of a partition got nothing")
    for violation in outcome.violations:
        print(f"BROKEN  {violation}")
    for failure in outcome.failures:
        print(f"FAILED  {failure}")


def report_zeros(total: Chances, broken: Counter[str]) -> None:
    """Each zero beside the number of times that it could have been something else."""
    zeros = (
        ("lost", ("lost",), total.acknowledged, "acknowledged messages"),
        ("twice", ("duplicate",), total.delivered + total.dead, "deliveries and dead letters"),
        ("early", ("early",), total.delivered, "deliveries, by the broker's stamp"),
        ("out of order", ("order",), total.delivered, "deliveries"),
        ("altered", ("payload",), total.delivered + total.dead, "deliveries and dead letters"),
        ("without exactly one outcome row", ("outcome",), total.rows, "rows"),
        ("cursors that went wrong", ("cursor", "claim", "sentence"), total.cursors, "cursors"),
    )
    print()
    for name, rules, chances_, of in zeros:
        print(f"{sum(broken[rule] for rule in rules):>9}  {name}, of {chances_} {of}")
    print(f"{'':>11}{total.unknown} messages of unknown fate, {total.aborted} aborted ones, {total.claims} claims")


def shortfalls(tally: Counter[str], wanted: Mapping[str, int]) -> list[str]:
    """What did not happen as often as it should have."""
    return [f"{name}: {tally[name]} of {count}" for name, count in wanted.items() if tally[name] < count]


def slow(outcomes: Sequence[Outcome]) -> list[str]:
    """Takeovers that took too long, on a machine that was not too busy to measure."""
    found = [each for outcome in outcomes for each in outcome.takeovers_s.get("SIGKILL", ())]
    stalled_s = [outcome.waits.stalled_ms / 1000 for outcome in outcomes if outcome.takeovers_s]
    return [f"shards stood still for {each:.2f} s" for each in (*found, *stalled_s) if each > TAKEOVER_MAX_S]


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1, 2**32))
    names = os.environ.get("PARTS", "").split(",") if os.environ.get("PARTS") else [part.name for part in PARTS]
    print(f"SEED={seed} PARTS={','.join(names)}", flush=True)
    try:
        return prove(names, seed)
    except Unavailable as error:
        print(f"No Kafka: {error}.", file=sys.stderr)
        return 1


def prove(names: Sequence[str], seed: int) -> int:
    """The parts of these names; the exit code. Raises Unavailable."""
    outcomes = []
    for part in PARTS:
        if part.name not in names:
            continue
        folder = FOLDER / f"{seed}-{part.name}"
        outcome = play(part, seed, folder)
        report(part, outcome)
        sys.stdout.flush()
        outcomes.append(outcome)
        if outcome.good:
            shutil.rmtree(folder)
    return conclude(outcomes, whole=len(outcomes) == len(PARTS))


def conclude(outcomes: Sequence[Outcome], *, whole: bool) -> int:
    """The last lines, and the exit code."""
    broken = Counter(violation.rule for outcome in outcomes for violation in outcome.violations)
    report_zeros(sum((outcome.chances for outcome in outcomes), Chances()), broken)
    tally = sum((outcome.tally for outcome in outcomes), Counter[str]())
    tally["messages"] = sum(outcome.messages for outcome in outcomes)
    missing = shortfalls(tally, {**WANTED, "messages": MESSAGES_WANTED}) if whole else []
    complaints = [
        *(f"NOT OFTEN ENOUGH  {each}" for each in missing),
        *(f"TOO SLOW  {each}" for each in slow(outcomes)),
    ]
    for complaint in complaints:
        print(complaint)
    good = all(outcome.good for outcome in outcomes) and not complaints
    print(f"{'every promise kept' if good else 'NOT PROVEN'}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
