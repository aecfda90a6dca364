"""The proof of the Kafka proxy: `make chaos-kafka-proxy`, or `python -m tests.fault.proxy.run`.

    SEED=4711          the same choices again
    PARTS=kills,marks  some of: kills, marks, cluster, end-to-end
    DURATION=120       seconds of trouble in each part, twice as many in the last one

Exit code 1 when something was lost, doubled, misplaced, early, out of order, or given up, when a process ended by
itself, or when a fault did not happen as often as wanted. Logs stay in .cache/proof then.
"""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import SystemRandom

from tests.brokers.distribution import CACHE, Unavailable
from tests.fault.kafka.run import shortfalls
from tests.fault.proxy import end_to_end, parts
from tests.fault.proxy.clients import Fate
from tests.fault.proxy.judge import RULES
from tests.fault.proxy.marked import POINTS
from tests.fault.proxy.parts import Outcome
from tests.fault.proxy.proxies import KILLS, marked

FOLDER = CACHE.parent / "proof"
DURATION_S = 100.0

PARTS: Mapping[str, Callable[..., Outcome]] = {
    "kills": parts.kills,
    "marks": parts.marks,
    "cluster": parts.cluster,
    "end-to-end": end_to_end.play,
}
WANTED = {
    KILLS: 60,
    parts.BROKER_KILLS: 2,
    parts.LEADER_KILLS: 2,
    end_to_end.WORKER_KILLS: 5,
    end_to_end.TOGETHER: 1,
    **{marked(point): 1 for point in POINTS},
}
RECORDS_WANTED = 100_000
ACKNOWLEDGED = Fate.ACKNOWLEDGED.value


def report(name: str, outcome: Outcome) -> None:
    print(f"\n{name}: {outcome.seconds:.0f} s, clients: {', '.join(outcome.clients)}")
    for what, count in sorted(outcome.tally.items()):
        print(f"{count:>9}  {what}")
    for what, count in sorted(outcome.verdict.chances.items()):
        print(f"{count:>9}  records {what}")
    for remark in outcome.remarks:
        print(f"{'':>11}{remark}")
    for rule, text in outcome.verdict.broken[:20]:
        print(f"BROKEN  {rule}: {text}")
    for failure in outcome.failures:
        print(f"FAILED  {failure}")
    sys.stdout.flush()


def conclude(outcomes: Sequence[Outcome], rules: Mapping[str, str], wanted: Mapping[str, int]) -> int:
    """The last lines, and the exit code. Each of the rules beside what had a chance to break it; what is `wanted` is
    in the tallies."""
    chances = sum((outcome.verdict.chances for outcome in outcomes), Counter[str]())
    broken = Counter(rule for outcome in outcomes for rule, _ in outcome.verdict.broken)
    print()
    for rule in dict.fromkeys([*rules, *broken]):
        of = rules.get(rule, ACKNOWLEDGED)
        print(f"{broken[rule]:>9}  {rule}, of {chances[of]} records {of}")
    missing = shortfalls(sum((outcome.tally for outcome in outcomes), Counter[str]()), wanted)
    for each in missing:
        print(f"NOT OFTEN ENOUGH  {each}")
    good = all(outcome.good for outcome in outcomes) and not missing
    print("every promise kept" if good else "NOT PROVEN", flush=True)
    return 0 if good else 1


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1, 2**31))
    chosen = [name for name in PARTS if name in (os.environ.get("PARTS") or ",".join(PARTS)).split(",")]
    duration_s = float(os.environ.get("DURATION") or DURATION_S)
    print(f"SEED={seed} PARTS={','.join(chosen)} DURATION={duration_s:.0f}", flush=True)
    outcomes = []
    try:
        for name in chosen:
            folder = FOLDER / f"proxy-{seed}-{name}"
            outcome = PARTS[name](seed, folder, duration_s)
            report(name, outcome)
            outcomes.append(outcome)
            if outcome.good:
                shutil.rmtree(folder)
    except Unavailable as error:
        print(f"No Kafka: {error}.", file=sys.stderr)
        return 1
    rules = dict.fromkeys(RULES, ACKNOWLEDGED)
    if chosen != list(PARTS) or duration_s < DURATION_S:
        return conclude(outcomes, rules, {})
    chances = sum((outcome.verdict.chances for outcome in outcomes), Counter[str]())
    outcomes[0].tally["records"] = sum(chances[fate] for fate in ("acknowledged", "unknown", "aborted", "given up"))
    return conclude(outcomes, rules, {**WANTED, "records": RECORDS_WANTED})


if __name__ == "__main__":
    sys.exit(main())
