"""Workers on RocketMQ are killed: nothing is lost, twice or early. And the judge finds what is."""

import os
from pathlib import Path
from random import Random, SystemRandom

import pytest

from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import RocketMqAt
from tests.fault.kafka.run import shortfalls
from tests.fault.rocketmq import nemesis as deeds
from tests.fault.rocketmq.gate import Aim
from tests.fault.rocketmq.judge import Delivered, Evidence, Row, Sent, judge
from tests.fault.rocketmq.nemesis import Nemesis
from tests.fault.rocketmq.run import Outcome, Part, outcome_of, play, report
from tests.fault.rocketmq.scene import Size, scene

SEED = int(os.environ.get("SEED", "0")) or SystemRandom().randrange(1, 2**32)


def check(part: Part, outcome: Outcome) -> None:
    print(f"SEED={SEED}")
    report(part, outcome)
    assert outcome.good, SEED
    assert len(outcome.evidence.sent.acknowledged) > 100, SEED


def some_kills(nemesis: Nemesis) -> None:
    nemesis.rampage([nemesis.kill] * 3 + [nemesis.leave_ghosts], 0.5, 3)


def test_nothing_is_lost_twice_or_early_while_workers_are_killed(rocketmq: RocketMqAt, tmp_path: Path) -> None:
    part = Part("kills", Size(), some_kills)
    with scene(rocketmq, part.size, str(SEED), tmp_path) as made:
        part.play(Nemesis(made, Random(SEED)))
        made.wait_acknowledged(200)
        check(part, outcome_of(made, 0))


def a_bit_of_everything(nemesis: Nemesis) -> None:
    nemesis.rampage([nemesis.kill_between_deliveries, nemesis.kill_before_rows] * 2, 0.2, 1)
    nemesis.rampage([nemesis.kill_broker, nemesis.freeze_broker, nemesis.stop, nemesis.kill], 0.5, 3)


@pytest.mark.thorough
def test_nothing_is_lost_twice_or_early_whatever_is_killed(tmp_path: Path) -> None:
    """What a broker has acknowledged is in the machine's memory, which outlives its process."""
    part = Part("everything once", Size(masters=2), a_bit_of_everything)
    try:
        outcome = play(part, SEED, tmp_path)
    except Unavailable as error:
        pytest.skip(f"no RocketMQ: {error}")
    check(part, outcome)
    wanted = {deeds.kills(Aim.DELIVERY): 1, deeds.kills(Aim.REST): 1, deeds.BROKER_KILLS: 1, deeds.BROKER_FREEZES: 1}
    assert shortfalls(outcome.tally, wanted) == []


# --- the judge

A, B, C = (Delivered(tag, 5, 5, "a:0", offset) for offset, tag in enumerate("abc"))


@pytest.mark.parametrize(
    ("delivered", "wrong"),
    [
        ([A], "lost"),
        ([A, B, A], "twice"),
        ([A, B, C, C], "twice"),
        ([A, Delivered("b", 4, 5, "a:0", 1)], "early"),
        ([A, B, Delivered("x", 5, 5, "a:0", 3)], "strange"),
        ([Delivered("b", 7, 7, "a:0", 1), A], "passed"),
        ([A, B, Delivered("c", 5, 5, "a:0", 9)], "without_row"),
    ],
)
def test_the_judge_finds_what_is_wrong(delivered: list[Delivered], wrong: str) -> None:
    verdict = judge(Evidence(Sent({"a", "b"}, {"c"}), delivered, rows()))
    assert getattr(verdict, wrong)
    assert not verdict.is_clean


def rows() -> list[Row]:
    """For all that may be there."""
    return [Row("a:0", offset, "delivered") for offset in range(4)]


def test_what_is_of_unknown_fate_may_be_there_or_not() -> None:
    assert judge(Evidence(Sent({"a", "b"}, {"c"}), [A, B], rows())).is_clean
    assert judge(Evidence(Sent({"a", "b"}, {"c"}), [A, B, C], rows())).is_clean


def test_what_is_due_later_and_was_accepted_before_may_come_before() -> None:
    """It became readable later: the sooner one was delivered already, or was not there yet."""
    first = Delivered("a", 9, 9, "a:0", 0)
    second = Delivered("b", 9, 7, "a:0", 1)
    assert judge(Evidence(Sent({"a", "b"}), [first, second], rows())).is_clean
