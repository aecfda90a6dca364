"""The proof of the RocketMQ proxy: `make chaos-rocketmq-proxy`, or `python -m tests.fault.rocketmq_proxy.run`.

    SEED=4711       the same choices again
    PARTS=kills     some of: kills, recalls
    KILLS=60        of proxies, and as many of workers, in the part kills
    RECALLS=10000   in the part recalls

Exit code 1 when something was lost, doubled, early, or recalled and delivered, when a process ended by itself, or
when a fault did not happen as often as wanted. Logs stay in .cache/proof then.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import SystemRandom

from tests.brokers.distribution import CACHE, Unavailable
from tests.fault.proxy.parts import Outcome
from tests.fault.proxy.proxies import KILLS as PROXY_KILLS
from tests.fault.proxy.run import conclude, report
from tests.fault.rocketmq.nemesis import BROKER_KILLS
from tests.fault.rocketmq.nemesis import KILLS as WORKER_KILLS
from tests.fault.rocketmq_proxy import parts
from tests.fault.rocketmq_proxy.judge import RULES
from tests.fault.rocketmq_proxy.scene import TOGETHER

FOLDER = CACHE.parent / "proof"
KILLS, RECALLS = 60, 10_000

PARTS: Mapping[str, Callable[[int, Path, int], Outcome]] = {"kills": parts.kills, "recalls": parts.recalls}
WANTED = {PROXY_KILLS: KILLS, WORKER_KILLS: KILLS, TOGETHER: 5, BROKER_KILLS: 3}


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1, 2**31))
    chosen = [name for name in PARTS if name in (os.environ.get("PARTS") or ",".join(PARTS)).split(",")]
    counts = {
        "kills": int(os.environ.get("KILLS") or KILLS),
        "recalls": int(os.environ.get("RECALLS") or RECALLS),
    }
    print(f"SEED={seed} PARTS={','.join(chosen)} KILLS={counts['kills']} RECALLS={counts['recalls']}", flush=True)
    outcomes = []
    try:
        for name in chosen:
            folder = FOLDER / f"rocketmq-proxy-{seed}-{name}"
            outcome = PARTS[name](seed, folder, counts[name])
            report(name, outcome)
            outcomes.append(outcome)
            if outcome.good:
                shutil.rmtree(folder)
    except Unavailable as error:
        print(f"No RocketMQ: {error}.", file=sys.stderr)
        return 1
    return conclude(outcomes, RULES, WANTED if "kills" in chosen and counts["kills"] >= KILLS else {})


if __name__ == "__main__":
    sys.exit(main())
