"""The proof of the Kafka proxy in its short form. `make chaos-kafka-proxy` is the long one."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom

import pytest

from tests.conftest import required
from tests.fault.kafka.run import shortfalls
from tests.fault.proxy import end_to_end, parts
from tests.fault.proxy.clients import Load
from tests.fault.proxy.marked import POINTS
from tests.fault.proxy.parts import Outcome, Stage
from tests.fault.proxy.proxies import KILLS, marked
from tests.fault.proxy.run import report

SEED = int(os.environ.get("SEED", "0")) or SystemRandom().randrange(1, 2**31)
MARKS = 4
END_TO_END_S = 8.0


def played(name: str, play: Callable[[], Outcome]) -> Outcome:
    print(f"SEED={SEED}")
    with required("Kafka"):
        outcome = play()
    report(name, outcome)
    return outcome


def test_nothing_is_lost_doubled_or_misplaced_when_proxies_and_the_broker_are_killed(tmp_path: Path) -> None:
    points = Random(SEED).sample(POINTS, MARKS)

    def trouble(made: Stage) -> None:
        for _ in range(3):
            parts.kill_one(made)
        parts.at_points(points, 0)(made)
        made.kill_broker()

    outcome = played("short", lambda: parts.play(1, parts.MAIN_KINDS, Load(rate=200), SEED, tmp_path, trouble))

    assert (outcome.verdict.broken, outcome.failures) == ([], [])
    assert shortfalls(outcome.tally, {KILLS: 8, parts.BROKER_KILLS: 1}) == []
    assert sum(outcome.tally[marked(point)] for point in points) > 0
    assert outcome.verdict.chances["in a buffer"] > 100
    assert outcome.verdict.chances["acknowledged"] > 2000


@pytest.mark.thorough
def test_what_is_sent_through_the_proxy_arrives_once_when_proxies_and_workers_are_killed(tmp_path: Path) -> None:
    outcome = played("end to end", lambda: end_to_end.play(SEED, tmp_path, END_TO_END_S))

    assert (outcome.verdict.broken, outcome.failures) == ([], [])
    assert shortfalls(outcome.tally, {KILLS: 1, parts.BROKER_KILLS: 1}) == []
    assert outcome.verdict.chances["delivered"] > 100
