"""The reconcile job beside a live installation, for longer than a test takes: `make prove-reconcile`, or
`python -m tests.fault.reconcile.run`.

    SEED=4711          the same choices again; without it one is drawn and printed
    PARTS=kills,live   some of it
    RUNS=10            beside the traffic

    kills   a run over an archive, killed at twenty-four moments, and repeated
    live    runs beside traffic on Kafka while everything is killed; planted faults; repairs, killed and beside runs;
            topics and partitions made and deleted between two runs

Exit code 1 when a promise was broken, or when something did not happen as often as wanted. Logs and ledgers stay in
.cache/proof then.
"""

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import SystemRandom

from tests.brokers.distribution import CACHE, Unavailable
from tests.fault.kafka import nemesis as deeds
from tests.fault.kafka.run import shortfalls
from tests.fault.reconcile import kills, live, runs

FOLDER = CACHE.parent / "proof"
RUNS = 10

Played = tuple[Counter[str], list[str]]


def _kills(seed: int, folder: Path) -> Played:
    try:
        return kills.killed_everywhere(seed, folder)
    except AssertionError as error:
        return Counter(), [str(error)]


def _live(seed: int, folder: Path) -> Played:
    return live.play(seed, folder, int(os.environ.get("RUNS") or RUNS))


PARTS: dict[str, Callable[[int, Path], Played]] = {"kills": _kills, "live": _live}

WANTED: dict[str, Mapping[str, int]] = {
    "kills": {kills.KILLS: 20, kills.REPEATED: 8, kills.BEHIND: 1, kills.BEFORE: 1, kills.ROWS: 10_000},
    "live": {
        runs.RUNS: RUNS,
        runs.KILLS: 2,
        runs.REPEATED: 1,
        runs.JUDGED: 1,
        deeds.KILLS: 8,
        deeds.BROKER_KILLS: 1,
        live.RECORDS: 2000,
        "cancels confirmed": 20,
        "moves confirmed": 20,
        "sent with a deadline or a repeat": 60,
        live.PLANTED: 3,
        live.REPAIR_KILLS: 6,
        live.REPAIR_KILLS_OPEN: 1,
        live.REPAIRED: (live.KILLED_REPAIRS + live.REPAIRS_BESIDE) * live.LOST_EACH,
        live.BESIDE: 2,
        live.BORN: 2 * live.BIRTHS - 1,
        live.DELETED: live.BIRTHS - 2,
    },
}


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1, 2**32))
    names = (os.environ.get("PARTS") or ",".join(PARTS)).split(",")
    print(f"SEED={seed} PARTS={','.join(names)}", flush=True)
    try:
        good = min([_proved(name, seed) for name in names])
    except Unavailable as error:
        print(f"No Kafka: {error}.", file=sys.stderr)
        return 1
    print("every promise kept" if good else "NOT PROVEN", flush=True)
    return 0 if good else 1


def _proved(name: str, seed: int) -> bool:
    """Raises Unavailable."""
    folder, started_s = FOLDER / f"{seed}-reconcile-{name}", time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    tally, failures = PARTS[name](seed, folder)
    print(f"\n{name}: {time.monotonic() - started_s:.0f} s")
    for what, count in sorted(tally.items()):
        print(f"{count:>9,}  {what}")
    missing = shortfalls(tally, WANTED[name])
    for failure in failures:
        print(f"FAILED  {failure}")
    for one in missing:
        print(f"NOT OFTEN ENOUGH  {one}")
    sys.stdout.flush()
    if not (failures or missing):
        shutil.rmtree(folder)
    return not (failures or missing)


if __name__ == "__main__":
    sys.exit(main())
