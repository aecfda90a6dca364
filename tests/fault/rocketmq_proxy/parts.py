"""The parts of the proof.

kills     clients send in every way; proxies, workers and now and then the broker are killed
recalls   messages are recalled around their due instants; workers are stopped for a moment, and proxies and workers
          killed
"""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

from tests.brokers.rocketmq import BROKER, RocketMq
from tests.fault.proxy.parts import Outcome
from tests.fault.proxy.proxies import KILLS as PROXY_KILLS
from tests.fault.rocketmq.nemesis import BROKER_KILLS
from tests.fault.rocketmq.nemesis import KILLS as WORKER_KILLS
from tests.fault.rocketmq_proxy.judge import Answered, Found, Note, Recall, judge
from tests.fault.rocketmq_proxy.recalls import JavasClient, Recalling
from tests.fault.rocketmq_proxy.scene import QUEUES, TOGETHER, ProxyNemesis, Stage, stage
from tests.fault.rocketmq_proxy.senders import OwnSender, ended

BROKER_EVERY, TOGETHER_EVERY = 20, 6
"""Of so many kills of proxies, one of the broker, or one together with a worker."""
JAVA_THREADS, OWN_SENDERS = 3, 2
PAUSE_S = 0.02
BETWEEN_LAPSES_S = 0.5, 1.2
LAPSES_BETWEEN = 6
"""Before each kill under recalls: a shard that lost its owner decides nothing for a while, and both answers must have
their chances."""
ASKED_AGAIN, BY_JAVA = "recalls not decided at the first ask", "recalls by Java's client"
CLIENTS = ("Java's RocketMQ client", "rocketmq.client")

Played = tuple[list[Note], list[Recall]]


def kills(seed: int, folder: Path, count: int) -> Outcome:
    """So many of proxies, and as many of workers. Raises Unavailable."""
    wanted = {
        PROXY_KILLS: count,
        WORKER_KILLS: count,
        TOGETHER: count // TOGETHER_EVERY,
        BROKER_KILLS: max(1, count // BROKER_EVERY),
    }

    def play(made: Stage, nemesis: ProxyNemesis) -> Played:
        made.java.stream(made.topic, threads=JAVA_THREADS, pause_ms=round(1000 * PAUSE_S), seed=seed)
        senders = [
            OwnSender(made.name_server, made.topic, f"own-{number}", PAUSE_S, seed) for number in range(OWN_SENDERS)
        ]
        for sender in senders:
            sender.start()
        nemesis.rest(2, 3)
        nemesis.until(wanted, 0.1, 1.5)
        nemesis.rest(2, 3)
        return [*(Note(**line) for line in made.java.hush()), *ended(senders)], []

    return _played(seed, folder, play)


def recalls(seed: int, folder: Path, count: int) -> Outcome:
    """Of so many messages, and some more by Java's client. Raises Unavailable."""

    def play(made: Stage, nemesis: ProxyNemesis) -> Played:
        java = JavasClient(made.java, made.topic, BROKER, QUEUES, Random(seed))
        recalling = Recalling(made.name_server, made.topic, java, count, seed)
        recalling.start()
        while recalling.running:
            for _ in range(LAPSES_BETWEEN):
                nemesis.rest(*BETWEEN_LAPSES_S)
                nemesis.lapse()
            nemesis.kill_one_of_both()
        recalling.join()
        made.tally[ASKED_AGAIN] += sum(one.asks > 1 for one in recalling.recalls)
        made.tally[BY_JAVA] += sum(one.tag.startswith("java") for one in recalling.recalls)
        made.failures += recalling.failures
        return recalling.notes, recalling.recalls

    return _played(seed, folder, play)


def _played(seed: int, folder: Path, play: Callable[[Stage, ProxyNemesis], Played]) -> Outcome:
    started_s = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with closing(RocketMq()) as server:
        server.start()
        with stage(server, str(seed), folder) as made:
            notes, recalled = play(made, ProxyNemesis(made, Random(f"{seed} deeds")))
            there = made.found(lambda now: _is_over(now, notes, recalled))
            verdict = judge(notes, there, recalled)
            seconds = time.monotonic() - started_s
            return Outcome(CLIENTS, made.tally, verdict, made.failures, seconds, _remarks(notes, there))


def _is_over(there: Found, notes: list[Note], recalled: list[Recall]) -> bool:
    """Whether all is delivered that must be."""
    arrived = {(one.shard, one.offset) for one in there.delivered}
    open_tags = {one.tag for one in recalled if one.answer is not Answered.TOO_LATE}
    stored = there.stored
    is_stored = all(note.tag in stored for note in notes if note.is_acknowledged)
    return is_stored and all((one.shard, one.offset) in arrived for one in there.buffered if one.tag not in open_tags)


def _remarks(notes: list[Note], there: Found) -> list[str]:
    latest_ms = max((one.stored_ms - one.due_ms for one in there.delivered), default=0)
    failures = Counter(note.failure[:100] for note in notes if note.failure)
    return [
        f"{sum(note.attempts > 1 for note in notes)} messages whose client repeated the send",
        f"{latest_ms} ms at most from due to the broker's stamp",
        *(f"{count} x {failure}" for failure, count in failures.most_common(5)),
    ]
