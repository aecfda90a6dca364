"""Two proxy processes on the same ports, and what can happen to them."""

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random

from tests.fault.kafka.processes import COMMAND, Process
from tests.fault.proxy.marked import KILLED_AT, POINTS
from tests.ports import free_range

START_S = 60.0
MARK_S = 8.0
"""How long a marked proxy is waited for: a point that is not passed within it is not counted."""

PASSES_MAX = 6
POLL_S = 0.02
KILLED = 256 - 9

KILLS = "SIGKILL of a proxy at random"
STOPS = "SIGTERM of a proxy"


def marked(point: str) -> str:
    return f"SIGKILL {point}"


class Proxy(Process):
    """`delayline proxy <kind>`, or, of Kafka's, the same with a mark at which it ends."""

    def __init__(self, name: str, folder: Path, kind: str, settings: Mapping[str, str]) -> None:
        super().__init__(name, folder, ["proxy", kind], settings)
        self._unmarked = [*COMMAND, "proxy", kind]
        self.is_marked = False

    def begin(self, point: str | None = None, passes: int = 1) -> None:
        """Returns when it listens. Raises AssertionError."""
        program = self._unmarked
        if point is not None:
            program = ["-m", "tests.fault.proxy.marked", point, str(passes)]
        self.is_marked = point is not None
        self._command = program
        self.start()
        until_s = time.monotonic() + START_S
        while self.running and "metrics on" not in self.output():
            assert time.monotonic() < until_s, f"{self.name} does not start, see {self.log}"
            time.sleep(POLL_S)
        assert self.running or KILLED_AT in self.output(), f"{self.name} does not start, see {self.log}"


class Pair:
    """Both of them. `tally` counts what was done to them, `failures` what they did by themselves."""

    def __init__(
        self, kind: str, port: int, settings: Mapping[str, str], folder: Path, rnd: Random, tally: Counter[str]
    ) -> None:
        """`port` is the first one of those that both share."""
        self.port = port
        self.tally = tally
        self.failures: list[str] = []
        self._rnd = rnd
        own = {**settings, f"proxy__{kind}__port": str(port), f"proxy__{kind}__metrics_port": "0"}
        self.both = [Proxy(f"proxy-{number}", folder, kind, own) for number in (1, 2)]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        for proxy in self.both:
            proxy.begin()

    def supervise(self) -> None:
        """One that ended by itself is a failure, and is started again."""
        for proxy in self.both:
            if proxy.wanted and not proxy.running and not proxy.is_marked:
                self.failures.append(f"{proxy.name} ended by itself with {proxy.exit_code()}, see {proxy.log}")
                proxy.begin()

    def kill_one(self, pause_s: float = 0.0) -> None:
        self._kill(self._rnd.choice(self.both), pause_s)

    def kill_both(self) -> None:
        for proxy in self.both:
            proxy.kill()
            self.tally[KILLS] += 1
        for proxy in self.both:
            proxy.begin()

    def _kill(self, proxy: Proxy, pause_s: float) -> None:
        proxy.kill()
        self.tally[KILLS] += 1
        time.sleep(pause_s)
        proxy.begin()

    def stop_one(self) -> None:
        proxy = self._rnd.choice(self.both)
        code = proxy.stop()
        self.tally[STOPS] += 1
        if code:
            self.failures.append(f"{proxy.name} ended with {code} after SIGTERM, see {proxy.log}")
        proxy.begin()

    def kill_at(self, point: str) -> None:
        """One proxy ends itself at the point. The other is away meanwhile, so that every client passes by."""
        assert point in POINTS
        self._rnd.shuffle(self.both)
        chosen, other = self.both
        for proxy in self.both:
            proxy.kill()
            self.tally[KILLS] += 1
        chosen.begin(point, self._rnd.randint(1, PASSES_MAX))
        until_s = time.monotonic() + MARK_S
        while chosen.running and time.monotonic() < until_s:
            time.sleep(POLL_S)
        self._end_marked(chosen, point)
        chosen.begin()
        other.begin()

    def _end_marked(self, proxy: Proxy, point: str) -> None:
        if proxy.running:
            proxy.kill()
            self.tally[KILLS] += 1
        elif KILLED_AT in proxy.output():
            self.tally[marked(point)] += 1
        else:
            self.failures.append(f"{proxy.name} ended by itself with {proxy.exit_code()}, see {proxy.log}")

    def close(self) -> None:
        for proxy in self.both:
            proxy.kill()


def before_kafka(
    servers: str, nodes: int, namespace: str, topics: str, folder: Path, rnd: Random, tally: Counter[str]
) -> Pair:
    settings = {
        "namespace": namespace,
        "mq__kind": "kafka",
        "mq__bootstrap_servers": servers,
        "delay__topics": topics,
        "proxy__kafka__node_id_base": "1",
        "proxy__kafka__nodes_max": str(nodes),
    }
    return Pair("kafka", free_range(1 + nodes), settings, folder, rnd, tally)
