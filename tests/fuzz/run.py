"""Hostile input, for as long as is asked: `make fuzz`, or `python -m tests.fuzz.run`.

    SEED=4711                the same choices again; without it one is drawn and printed
    SECONDS=3600             for each entrance
    PARTS=http,kafka         some of: config, buffers, http, kafka, rocketmq, embedded
    COVER=1                  show how much of each entrance's modules was reached; slower by half

Exit code 1 when a promise was broken; the input is shown.
"""

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random, SystemRandom

from coverage import Coverage

from tests.fault.server import ROOT
from tests.fuzz.buffers import Buffers
from tests.fuzz.campaign import Broken, Campaign
from tests.fuzz.configuration import Configuration
from tests.fuzz.embedded_log import EmbeddedLog
from tests.fuzz.http_server import HttpServer
from tests.fuzz.kafka_proxy import KafkaProxy
from tests.fuzz.rocketmq_proxy import RocketmqProxy

SECONDS = 60.0
COVERAGE = Path(__file__).with_name("coverage.toml")
PARTS: dict[str, type[Campaign]] = {
    one.name: one for one in (Configuration, Buffers, HttpServer, KafkaProxy, RocketmqProxy, EmbeddedLog)
}


def attack(part: type[Campaign], seed: int, seconds: float) -> Campaign:
    """One campaign. Raises Broken."""
    with tempfile.TemporaryDirectory() as folder, part(Random(seed), Path(folder)) as campaign:
        campaign.run(seconds)
        return campaign


@contextmanager
def covered(part: type[Campaign]) -> Iterator[None]:
    """Prints how many lines of the modules behind the entrance were reached, in this process and in its servers."""
    with tempfile.TemporaryDirectory() as folder:
        coverage = Coverage(data_file=f"{folder}/data", config_file=str(COVERAGE))
        coverage.start()
        try:
            yield
        finally:
            coverage.stop()
            coverage.save()
            coverage.combine()
            coverage.report(include=[str(ROOT / pattern) for pattern in part.covers])


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1 << 31))
    seconds = float(os.environ.get("SECONDS") or SECONDS)
    print(f"SEED={seed} SECONDS={seconds:.0f}", flush=True)
    broken = []
    for name in (os.environ.get("PARTS") or ",".join(PARTS)).split(","):
        started = time.monotonic()
        try:
            with covered(PARTS[name]) if os.environ.get("COVER") else nullcontext():
                done = attack(PARTS[name], seed, seconds)
        except Broken:
            traceback.print_exc()
            broken.append(name)
        else:
            print(*(f"{times:>9,}  {what}" for what, times in sorted(done.counts.items())), sep="\n")
        print(f"{name}: {'BROKEN' if name in broken else 'held'}, {time.monotonic() - started:.0f} s\n", flush=True)
    print(f"BROKEN: {', '.join(broken)}" if broken else "every promise kept")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
