"""B18: the RocketMQ proxy beside the broker itself, in the same run: plain sends of a topic that takes delays, pulls,
latency at 5,000 a second; and delayed sends beside RocketMQ's own timer.

RocketMQ's Java client sends single messages. Endpoints take turns, and ratios are taken within each round. CPU is
that of the proxy's process alone: where client, proxy and broker share few cores, throughput follows from it.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from uuid import uuid4

from bench.on_rocketmq.peer import JavaPeer, java_peer
from bench.on_rocketmq.rig import on_broker
from bench.processes.endpoint import Endpoint, running
from bench.report import Lap, Report, Target
from rocketmq.client.client import Client
from tests.brokers.rocketmq import BROKER, RocketMq, jars
from tests.ports import free_range

ROUNDS = 5
MESSAGES, PACED = 40_000, 15_000
SIZES = (256, 4096)
UNDER_WAY = 200
ACTS = ("single", "pull", "delayed")
SEND_MIN, PULL_MIN, DELAYED_MIN = 0.9, 0.9, 1.0
P99_MORE_MS = 1.0

Peers = dict[str, tuple[Endpoint, JavaPeer]]


def run(scale: float) -> Report:
    """About five minutes at scale 1."""
    count = max(int(MESSAGES * scale), 500)
    report = Report(f"B18 RocketMQ proxy: {count:,} single messages per lap, {UNDER_WAY} under way, one queue")
    report.notes.append(f"Medians of {ROUNDS} rounds in turns, each ratio within its round.")
    return on_broker(report, lambda server: _measure(report, server, count, max(int(PACED * scale), 500)))


def _measure(report: Report, server: RocketMq, count: int, paced: int) -> None:
    topic = f"orders-{uuid4().hex[:8]}"
    with Client(server.settings) as client:
        client.admin.create_topic(topic, BROKER, 2)
        client.admin.create_group("bench-consumer", BROKER)
    straight = Endpoint("direct", server.settings.name_servers[0])
    with proxy(straight.servers) as ours:
        for size in SIZES:
            with ExitStack() as stack:
                peers: Peers = {}
                for endpoint in (straight, ours):
                    options = (endpoint.servers, topic, BROKER, "1", str(UNDER_WAY), str(size))
                    peers[endpoint.name] = endpoint, stack.enter_context(java_peer(jars(), *options))
                for act in ACTS:
                    _add_ratio(report, f"{act}, {size} B", _in_turns(peers, act, count), count)
                _add_latency(report, size, _paced(peers, paced))


@contextmanager
def proxy(name_servers: str) -> Iterator[Endpoint]:
    """`delayline proxy rocketmq`."""
    port = free_range(12)
    with tempfile.TemporaryDirectory(prefix="delayline-bench-") as folder:
        environ = {
            **os.environ,
            "DELAYLINE_DATA_DIR": folder,
            "DELAYLINE_MQ__KIND": "rocketmq",
            "DELAYLINE_MQ__BOOTSTRAP_SERVERS": name_servers,
            "DELAYLINE_NAMESPACE": f"ns{uuid4().hex[:8]}",
            "DELAYLINE_DELAY__TOPICS": "orders-*",
            "DELAYLINE_PROXY__ROCKETMQ__PORT": str(port),
            "DELAYLINE_PROXY__ROCKETMQ__METRICS_PORT": "0",
        }
        command = [sys.executable, "-m", "delayline", "proxy", "rocketmq"]
        with running("Delayline", command, port, environ) as endpoint:
            yield endpoint


def _in_turns(peers: Peers, act: str, count: int) -> dict[str, list[Lap]]:
    """Wall time of each lap, with the CPU time of the endpoint's process. The first round is not counted."""
    rounds: dict[str, list[Lap]] = {name: [] for name in peers}
    for number in range(1 + ROUNDS):
        names = sorted(peers, reverse=bool(number % 2))
        for name in names:
            endpoint, peer = peers[name]
            before_s, lap = endpoint.cpu_s(), Lap()
            peer.lap(act, count, lap)
            lap.cpu_s = endpoint.cpu_s() - before_s
            rounds[name] += [lap] if number else []
    return rounds


def _add_ratio(report: Report, what: str, rounds: dict[str, list[Lap]], count: int) -> None:
    straight, ours = rounds["direct"], rounds["Delayline"]
    wanted = {"single": SEND_MIN, "pull": PULL_MIN, "delayed": DELAYED_MIN}[what.partition(",")[0]]
    ratio = median(one.wall_s / other.wall_s for one, other in zip(straight, ours, strict=True))
    report.add(f"{what}: direct", count / median(lap.wall_s for lap in straight), "messages/s")
    report.add(f"{what}: through the proxy, ratio", ratio, "", Target(">=", wanted))
    report.add(f"{what}: the proxy's CPU", 1e6 * median(lap.cpu_s for lap in ours) / count, "us")


def _paced(peers: Peers, count: int) -> dict[str, list[list[int]]]:
    """p50 and p99 in us, of each lap at 5,000 a second."""
    found: dict[str, list[list[int]]] = {name: [] for name in peers}
    for number in range(1 + ROUNDS):
        for name in sorted(peers, reverse=bool(number % 2)):
            figures = peers[name][1].lap("paced", count, Lap())
            found[name] += [figures] if number else []
    return found


def _add_latency(report: Report, size: int, found: dict[str, list[list[int]]]) -> None:
    for place, share in enumerate(("p50", "p99")):
        straight, ours = (median(one[place] for one in found[name]) / 1000 for name in ("direct", "Delayline"))
        report.add(f"5,000/s, {size} B: direct, {share}", straight, "ms")
        more = ours - straight
        target = Target("<=", P99_MORE_MS) if share == "p99" else None
        report.add(f"5,000/s, {size} B: the proxy adds, {share}", more, "ms", target)
