"""Workers on RocketMQ that are killed again and again while they deliver, and a judge that reads the targets.

Two workers and an API run as anybody would start them. A sender posts batches with delays; a seeded killer sends
SIGKILL to one of the workers, or to both, and starts them again. In the end what was acknowledged has to be in the
target's queues once, and none of it before its due time, by the broker's own stamps.
"""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import httpx

from delayline.clock import SystemClock
from rocketmq.client.client import Client
from rocketmq.wire.bodies import Queue
from tests.brokers.rocketmq import BROKER, RocketMq
from tests.fault.server import Server, http_client

QUEUES = 2
DRAIN_WITHIN_S = 90.0
CLOCK = SystemClock()


@dataclass
class Verdict:
    """What is wrong, by tag; and how much there was."""

    acknowledged: int
    lost: list[str]
    twice: list[str]
    early: list[str]
    strange: list[str]
    latest_ms: int = 0
    kills: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.twice or self.early or self.strange)


@dataclass
class Sent:
    """Tags that were acknowledged, and those whose fate the sender never learned."""

    acknowledged: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Delivered:
    """A message in the target."""

    tag: str
    stored_ms: int
    due_ms: int


def judge(sent: Sent, delivered: list[Delivered]) -> Verdict:
    """What was acknowledged is there once, what was of unknown fate at most once, nothing else is, nothing early."""
    counts = Counter(one.tag for one in delivered)
    return Verdict(
        acknowledged=len(sent.acknowledged),
        lost=sorted(sent.acknowledged - counts.keys()),
        twice=sorted(tag for tag, count in counts.items() if count > 1),
        early=sorted(one.tag for one in delivered if one.stored_ms < one.due_ms),
        strange=sorted(counts.keys() - sent.acknowledged - sent.unknown),
        latest_ms=max((one.stored_ms - one.due_ms for one in delivered), default=0),
    )


class Sender(threading.Thread):
    """Posts batches, each to one queue, until it is to stop."""

    def __init__(self, url: str, topic: str, random: Random) -> None:
        super().__init__(daemon=True)
        self._url = f"{url}/v1/topics/{topic}/messages"
        self._random = random
        self.sent = Sent()
        self.stopping = threading.Event()

    def run(self) -> None:
        number = 0
        with http_client(10) as http:
            while not self.stopping.wait(0.02):
                number += 1
                self._send(http, [f"{number}-{index}" for index in range(self._random.choice([1, 20, 100]))])

    def _send(self, http: httpx.Client, tags: list[str]) -> None:
        messages = [
            {"value": tag, "partition": 0, "schedule": {"delay": f"{self._random.choice([1, 300, 1500, 3000])}ms"}}
            for tag in tags
        ]
        try:
            status = http.post(self._url, json={"messages": messages}).status_code
        except httpx.TransportError:
            status = 503
        known = self.sent.acknowledged if status == 201 else self.sent.unknown
        known.update(tags)


def delivered_into(server: RocketMq, topic: str) -> list[Delivered]:
    """All messages of the target."""
    found: list[Delivered] = []
    with Client(server.settings) as client:
        for number in range(QUEUES):
            queue, offset = Queue(topic, BROKER, number), 0
            while messages := client.broker.pull(queue, offset).messages:
                for one in messages:
                    due_ms = int(one.properties_map()["delayline-due"])
                    found.append(Delivered(one.body.decode(), one.stored_ms, due_ms))
                offset = messages[-1].queue_offset + 1
    return found


Strike = Callable[[list[Server], int, Random], None]
"""Does something to the workers, or to what they need, so many times."""


def run(server: RocketMq, folder: Path, kills: int, seed: int, strike: "Strike | None" = None) -> Verdict:
    """Kill workers so many times, or strike in another way, wait until all has arrived, and judge."""
    random, topic = Random(seed), f"orders-{uuid4().hex[:8]}"
    with Client(server.settings) as client:
        client.admin.create_topic(topic, BROKER, QUEUES)
    settings: dict[str, Any] = {
        "mq__kind": "rocketmq",
        "mq__bootstrap_servers": server.settings.name_servers[0],
        "namespace": f"ns{uuid4().hex[:8]}",
        "delay__topics": "orders-*",
        "delay__discovery_interval": "200ms",
    }
    api = Server(folder / "api", "api", **settings)
    workers = [Server(folder / f"worker-{number}", "worker", **settings) for number in range(2)]
    try:
        for process in (api, *workers):
            process.start()
        api.wait_ready()
        sender = Sender(api.url, topic, random)
        sender.start()
        (strike or kill_workers)(workers, kills, random)
        sender.stopping.set()
        sender.join(20)
        _wait_for(server, topic, sender.sent)
        verdict = judge(sender.sent, delivered_into(server, topic))
        verdict.kills = kills
        return verdict
    finally:
        for process in (api, *workers):
            process.kill()


def kill_workers(workers: list[Server], kills: int, random: Random) -> None:
    """One of them, or both at once."""
    pause = threading.Event()
    for _ in range(kills):
        pause.wait(random.uniform(0.5, 3.0))
        dying = random.choice([workers[:1], workers[1:], workers])
        for worker in dying:
            worker.kill()
        pause.wait(random.uniform(0.0, 0.5))
        for worker in dying:
            worker.start()


def broker_killer(server: RocketMq) -> Strike:
    """Kills the broker, and starts it again."""

    def strike(_: list[Server], kills: int, random: Random) -> None:
        pause = threading.Event()
        for _ in range(kills):
            pause.wait(random.uniform(2.0, 4.0))
            server.broker.kill()
            server.broker.start()
            server.wait_ready()
        pause.wait(3.0)

    return strike


def _wait_for(server: RocketMq, topic: str, sent: Sent) -> None:
    """Until all that was acknowledged has arrived, or has had its time."""
    until_s, pause = CLOCK.monotonic_s() + DRAIN_WITHIN_S, threading.Event()
    while CLOCK.monotonic_s() < until_s:
        there = {one.tag for one in delivered_into(server, topic)}
        if sent.acknowledged <= there:
            return
        pause.wait(0.5)
