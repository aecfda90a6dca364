"""Faults on the wire, for longer than `make test` takes: `make wire-faults`, or `python -m tests.fault.wire.run`.

    SEED=4711                   the same choices again; without it one is drawn and printed
    PARTS=model,storm,older,nodes   some of it
    CYCLES=500                  of a storm

    model    200,000 runs of the transaction's machine against the model of brokers (tests/wire_model)
    storm    a worker behind a broker that cuts, delays, refuses and garbles one request in five
    older    the same before KIP-890's second part, where partitions and offsets are added to transactions
    nodes    three nodes: leader and coordinators are killed while a request of a commit is on its way

Exit code 1 when a promise was broken.
"""

import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from random import SystemRandom

from tests.brokers.distribution import NEWEST, OLDER
from tests.brokers.kafka import Kafka
from tests.fault.wire.nodes import nodes_go
from tests.fault.wire.storm import storm
from tests.wire_model import run as model

CYCLES = 500
RATE = 0.2


def _model(_: int) -> Counter[str]:
    assert model.main([]) == 0, "the machine reported something else than readers saw"
    return Counter()


def _storm(seed: int, version: str = NEWEST) -> Counter[str]:
    with closing(Kafka(version=version)) as kafka:
        kafka.start()
        return storm(kafka, seed, int(os.environ.get("CYCLES") or CYCLES), RATE)


def _older(seed: int) -> Counter[str]:
    return _storm(seed, OLDER)


def _nodes(_: int) -> Counter[str]:
    with closing(Kafka(3)) as kafka:
        kafka.start()
        return nodes_go(kafka)


PARTS: dict[str, Callable[[int], Counter[str]]] = {
    "model": _model,
    "storm": _storm,
    "older": _older,
    "nodes": _nodes,
}


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1 << 31))
    print(f"seed {seed}")
    broken = []
    for name in (os.environ.get("PARTS") or ",".join(PARTS)).split(","):
        started = time.monotonic()
        try:
            done = PARTS[name](seed)
        except AssertionError:
            traceback.print_exc()
            broken.append(name)
        else:
            print(*(f"{count:>8,}  {what}" for what, count in sorted(done.items())), sep="\n")
        print(f"{name}: {'BROKEN' if name in broken else 'held'}, {time.monotonic() - started:.0f} s", flush=True)
    print(f"NOT PROVEN: {', '.join(broken)}" if broken else "every promise kept")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
