"""Search long: `python -m tests.wire_model.run`.

    SEEDS=200000 FIRST=0     how many random runs, from which seed on
    ... run SEED             one run

Exit code 1 when a promise was broken.
"""

import os
import sys
import time
from collections import Counter
from multiprocessing import Pool

from tests.wire_model.play import Broken, play

SEEDS = 200_000
CHUNK = 1000
SHOWN_MAX = 3


def _some_of(seeds: range) -> Counter[str] | str:
    try:
        return play(seeds)
    except Broken as broken:
        return str(broken)


def main(arguments: list[str]) -> int:
    if arguments:
        print(_some_of(range(int(arguments[0]), int(arguments[0]) + 1)))
        return 0
    first, seeds = int(os.environ.get("FIRST") or 0), int(os.environ.get("SEEDS") or SEEDS)
    chunks = [range(start, min(start + CHUNK, first + seeds)) for start in range(first, first + seeds, CHUNK)]
    happened, broken, started = Counter[str](), [], time.monotonic()
    with Pool() as pool:
        for part in pool.imap_unordered(_some_of, chunks):
            if isinstance(part, str):
                broken.append(part)
            else:
                happened += part
    print(*(f"{count:>10,}  {word}" for word, count in sorted(happened.items())), sep="\n")
    print(f"{seeds:,} runs, {len(broken)} broke a promise, {time.monotonic() - started:.0f} s")
    print(*broken[:SHOWN_MAX], sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
