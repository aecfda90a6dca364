"""Workers on RocketMQ are killed: nothing is lost, twice or early. And the judge finds what is."""

import os
import random
from pathlib import Path

import pytest

from tests.brokers.rocketmq import RocketMq, started
from tests.fault.rocketmq.kills import Delivered, Sent, broker_killer, judge, run
from tests.tiers import THOROUGH

KILLS = int(os.environ.get("KILLS", "0")) or (10 if THOROUGH else 3)
SEED = int(os.environ.get("SEED", "0")) or random.SystemRandom().randrange(1, 2**32)


def test_nothing_is_lost_twice_or_early_while_workers_are_killed(rocketmq: RocketMq, tmp_path: Path) -> None:
    verdict = run(rocketmq, tmp_path, KILLS, SEED)
    assert verdict.is_clean, (SEED, verdict)
    assert verdict.acknowledged > 100, (SEED, verdict)


@pytest.mark.thorough
def test_nothing_is_lost_twice_or_early_while_the_broker_is_killed(tmp_path: Path) -> None:
    """What it has acknowledged is in the machine's memory, which outlives its process."""
    with started() as server:
        verdict = run(server, tmp_path, 3, SEED, broker_killer(server))
    assert verdict.is_clean, (SEED, verdict)
    assert verdict.acknowledged > 100, (SEED, verdict)


@pytest.mark.parametrize(
    ("delivered", "wrong"),
    [
        ([Delivered("a", 5, 5)], "lost"),
        ([Delivered("a", 5, 5), Delivered("b", 5, 5), Delivered("a", 6, 5)], "twice"),
        ([Delivered("a", 5, 5), Delivered("b", 5, 5), Delivered("c", 5, 5), Delivered("c", 6, 5)], "twice"),
        ([Delivered("a", 5, 5), Delivered("b", 4, 5)], "early"),
        ([Delivered("a", 5, 5), Delivered("b", 5, 5), Delivered("x", 5, 5)], "strange"),
    ],
)
def test_the_judge_finds_what_is_wrong(delivered: list[Delivered], wrong: str) -> None:
    verdict = judge(Sent({"a", "b"}, {"c"}), delivered)
    assert getattr(verdict, wrong)
    assert not verdict.is_clean


def test_what_is_of_unknown_fate_may_be_there_or_not() -> None:
    there = [Delivered("a", 5, 5), Delivered("b", 7, 5)]
    assert judge(Sent({"a", "b"}, {"c"}), there).is_clean
    assert judge(Sent({"a", "b"}, {"c"}), [*there, Delivered("c", 5, 5)]).is_clean
