"""`make prove MQ=rocketmq`: workers on RocketMQ, killed KILLS times; ends with 1 where anything is wrong."""

import os
import random
import sys
import tempfile
from pathlib import Path

from tests.brokers.rocketmq import started
from tests.fault.rocketmq.kills import run

KILLS_AT_ONCE = 20
"""Then the targets are judged, and it begins anew."""


def main() -> int:
    kills = int(os.environ.get("KILLS", "60"))
    seed = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
    print(f"SEED={seed} KILLS={kills}", flush=True)
    clean = True
    with started() as server, tempfile.TemporaryDirectory() as folder:
        for part, begin in enumerate(range(0, kills, KILLS_AT_ONCE)):
            parts_folder = Path(folder) / str(part)
            parts_folder.mkdir()
            verdict = run(server, parts_folder, min(KILLS_AT_ONCE, kills - begin), seed + part)
            print(verdict, flush=True)
            clean = clean and verdict.is_clean and verdict.acknowledged > 0
    print("nothing lost, twice or early" if clean else "NOT CLEAN")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
