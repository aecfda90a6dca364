"""The proof of the RocketMQ proxy in its short form. `make chaos-rocketmq-proxy` is the long one."""

import os
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom

import pytest

from tests.conftest import required
from tests.fault.kafka.run import shortfalls
from tests.fault.proxy.parts import Outcome
from tests.fault.proxy.proxies import KILLS as PROXY_KILLS
from tests.fault.proxy.run import report
from tests.fault.rocketmq.nemesis import BROKER_KILLS
from tests.fault.rocketmq.nemesis import KILLS as WORKER_KILLS
from tests.fault.rocketmq_proxy import parts
from tests.fault.rocketmq_proxy.judge import Answered

pytestmark = pytest.mark.thorough

SEED = int(os.environ.get("SEED", "0")) or SystemRandom().randrange(1, 2**31)


def played(play: Callable[[int, Path, int], Outcome], folder: Path, count: int) -> Outcome:
    print(f"SEED={SEED}")
    with required("RocketMQ"):
        outcome = play(SEED, folder, count)
    report(play.__name__, outcome)
    assert (outcome.verdict.broken, outcome.failures) == ([], [])
    return outcome


def test_what_clients_send_is_delivered_once_when_proxies_workers_and_the_broker_are_killed(tmp_path: Path) -> None:
    outcome = played(parts.kills, tmp_path, 4)

    assert shortfalls(outcome.tally, {PROXY_KILLS: 4, WORKER_KILLS: 4, BROKER_KILLS: 1}) == []
    assert outcome.verdict.chances["acknowledged"] > 100
    assert outcome.verdict.chances["delivered"] > 100


def test_an_answer_to_a_recall_is_kept_when_proxies_and_workers_are_killed(tmp_path: Path) -> None:
    outcome = played(parts.recalls, tmp_path, 200)

    assert outcome.tally[PROXY_KILLS] + outcome.tally[WORKER_KILLS] > 0
    for answer in (Answered.OK, Answered.TOO_LATE):
        assert outcome.verdict.chances[f"recalled: {answer.value}"] > 10
