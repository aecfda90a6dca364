"""The proof on RocketMQ: `make prove MQ=rocketmq`, or `python -m tests.fault.rocketmq.run`; SEED=... repeats choices.

    storm     one broker: workers are killed, frozen for longer than their broker waits, and stopped;
              sessions end at their heartbeat, others write into journals
    aimed     one broker: workers are killed at certain requests of a commit
    brokers   two masters, which are killed and frozen; workers as well

All the while it is asked for messages that wait: no answer may hide one.

Exit code 1 when a promise was broken, or a fault did not happen as often as wanted. Logs stay in .cache/proof then.
"""

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields
from pathlib import Path
from random import Random, SystemRandom

from tests.brokers.distribution import CACHE, Unavailable
from tests.brokers.rocketmq import RocketMq
from tests.fault.kafka.run import shortfalls
from tests.fault.rocketmq import gate as gates
from tests.fault.rocketmq import nemesis as deeds
from tests.fault.rocketmq.gate import Aim
from tests.fault.rocketmq.judge import Evidence, Verdict, judge
from tests.fault.rocketmq.nemesis import Nemesis
from tests.fault.rocketmq.scene import ANSWERS, Scene, Size, scene

FOLDER = CACHE.parent / "proof"
WANTED = {
    deeds.KILLS: 60,
    deeds.kills(Aim.DELIVERY): 10,
    deeds.kills(Aim.REST): 5,
    deeds.FREEZES: 2,
    deeds.GHOSTS: 10,
    deeds.FOREIGN: 100,
    ANSWERS: 150,
    **dict.fromkeys((deeds.STOPS, deeds.BROKER_KILLS, deeds.BROKER_FREEZES), 2),
}
MESSAGES_WANTED = 50_000
TAKEOVERS_WANTED = 60


@dataclass
class Outcome:
    """What a part came to."""

    tally: Counter[str]
    failures: list[str]
    evidence: Evidence
    verdict: Verdict
    seconds: float

    @property
    def good(self) -> bool:
        return self.verdict.is_clean and not self.failures


@dataclass(frozen=True)
class Part:
    """A name, brokers, load, and what happens."""

    name: str
    size: Size
    play: Callable[[Nemesis], None]


def storm(nemesis: Nemesis) -> None:
    plan = [nemesis.kill] * 26 + [nemesis.freeze] * 2 + [nemesis.stop] * 3
    nemesis.rampage(plan + [nemesis.leave_ghosts] * 3 + [nemesis.write_into_journals] * 3, 0.5, 3)


def aimed(nemesis: Nemesis) -> None:
    nemesis.rampage([nemesis.kill_between_deliveries] * 16 + [nemesis.kill_before_rows] * 8, 0.2, 1.5)


def brokers(nemesis: Nemesis) -> None:
    nemesis.rampage([nemesis.kill_broker] * 3 + [nemesis.freeze_broker] * 3 + [nemesis.kill] * 6, 1, 4)


PARTS = (
    Part("storm", Size(), storm),
    Part("aimed", Size(), aimed),
    Part("brokers", Size(masters=2, queues=2), brokers),
)


def play(part: Part, seed: int, folder: Path) -> Outcome:
    """Run one part to its end and judge it. Raises Unavailable where there can be no broker."""
    started_s = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    properties = {**gates.PROPERTIES, **deeds.PROPERTIES}
    with closing(RocketMq(part.size.masters, properties=properties)) as server, ExitStack() as stack:
        before = {name: stack.enter_context(gates.gate(one.port)) for name, one in server.brokers.items()}
        server.start()
        made = stack.enter_context(scene(server, part.size, f"{seed} {part.name}", folder))
        nemesis = Nemesis(made, Random(f"{seed} {part.name} deeds"), before)
        nemesis.rest(3, 4)
        part.play(nemesis)
        return outcome_of(made, time.monotonic() - started_s)


def outcome_of(made: Scene, seconds: float) -> Outcome:
    evidence = made.finish()
    return Outcome(made.tally, made.failures, evidence, judge(evidence), seconds)


# --- what is printed


def report(part: Part, outcome: Outcome) -> None:
    size, evidence = part.size, outcome.evidence
    print(
        f"\n{part.name}: {len(evidence.delivered)} deliveries, {size.masters * size.queues} shards, "
        f"{size.workers} workers, {size.masters} brokers, {outcome.seconds:.0f} s"
    )
    for name, count in sorted(outcome.tally.items()):
        print(f"{count:>9}  {name}")
    print(f"{evidence.claims:>9}  takeovers")
    print(f"{evidence.latest_ms:>9}  ms at most from due to the broker's stamp")
    for name, tags in ((one.name, getattr(outcome.verdict, one.name)) for one in fields(outcome.verdict)):
        for tag in tags[:20]:
            print(f"BROKEN  {name}: {tag}")
    for failure in outcome.failures:
        print(f"FAILED  {failure}")


def report_zeros(outcomes: Sequence[Outcome]) -> None:
    """Each zero beside the number of times that it could have been something else."""
    acknowledged = sum(len(one.evidence.sent.acknowledged) for one in outcomes)
    unknown = sum(len(one.evidence.sent.unknown) for one in outcomes)
    delivered = sum(len(one.evidence.delivered) for one in outcomes)
    rows = sum(len(one.evidence.rows) for one in outcomes)
    zeros = (
        ("lost", "lost", acknowledged, "acknowledged messages"),
        ("twice", "twice", delivered, "deliveries"),
        ("early", "early", delivered, "deliveries, by the broker's stamp"),
        ("never sent", "strange", delivered, "deliveries"),
        ("out of order", "passed", delivered, "deliveries"),
        ("without exactly one outcome row", "without_row", rows, "rows"),
    )
    print()
    for name, field, chances, of in zeros:
        print(f"{sum(len(getattr(one.verdict, field)) for one in outcomes):>9}  {name}, of {chances} {of}")
    print(f"{'':>11}{unknown} messages of unknown fate")


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1, 2**32))
    names = os.environ.get("PARTS", "").split(",") if os.environ.get("PARTS") else [part.name for part in PARTS]
    print(f"SEED={seed} PARTS={','.join(names)}", flush=True)
    try:
        return prove(names, seed)
    except Unavailable as error:
        print(f"No RocketMQ: {error}.", file=sys.stderr)
        return 1


def prove(names: Sequence[str], seed: int) -> int:
    """The parts of these names; the exit code. Raises Unavailable."""
    outcomes = []
    for part in (part for part in PARTS if part.name in names):
        folder = FOLDER / f"rocketmq-{seed}-{part.name}"
        outcome = play(part, seed, folder)
        report(part, outcome)
        sys.stdout.flush()
        outcomes.append(outcome)
        if outcome.good:
            shutil.rmtree(folder)
    return conclude(outcomes, whole=len(outcomes) == len(PARTS))


def conclude(outcomes: Sequence[Outcome], *, whole: bool) -> int:
    """The last lines, and the exit code."""
    report_zeros(outcomes)
    tally = sum((outcome.tally for outcome in outcomes), Counter[str]())
    tally["messages"] = sum(len(outcome.evidence.sent.acknowledged) for outcome in outcomes)
    tally["takeovers"] = sum(outcome.evidence.claims for outcome in outcomes)
    wanted: Mapping[str, int] = {**WANTED, "messages": MESSAGES_WANTED, "takeovers": TAKEOVERS_WANTED}
    missing = shortfalls(tally, wanted) if whole else []
    for each in missing:
        print(f"NOT OFTEN ENOUGH  {each}")
    good = all(outcome.good for outcome in outcomes) and not missing
    print("every promise kept" if good else "NOT PROVEN", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
