"""The proof in its short form: each fault once or a few times. `make prove` is the long one."""

import os
from collections.abc import Mapping
from pathlib import Path
from random import SystemRandom

from tests.conftest import required
from tests.fault.kafka import nemesis as deeds
from tests.fault.kafka.nemesis import Nemesis
from tests.fault.kafka.run import Outcome, Part, play, report, shortfalls
from tests.fault.kafka.scene import SESSION_S, Scene, Size
from tests.fault.kafka.takeover import Takeovers

SEED = int(os.environ.get("SEED", "0")) or SystemRandom().randrange(1, 2**32)
SMALL = Size(topics=2, partitions=3, stream_rate=100, group_rate=20, post_rate=30, delay_max_ms=2500)
WANTED = {
    deeds.KILLS: 8,
    deeds.KILLS_OPEN: 2,
    **dict.fromkeys((deeds.FREEZES, deeds.STOPS, deeds.DOOR_KILLS, deeds.BROKER_KILLS, deeds.GROUP_DELETIONS), 1),
}
SESSIONS_MAX = 4
"""A killed owner is missed for one session; how long the rest takes depends on the machine, but not without end."""


def everything_once(made: Scene, nemesis: Nemesis) -> Mapping[str, list[float]]:
    takeovers = Takeovers(made, nemesis)
    takeovers.kill()
    nemesis.rampage([nemesis.freeze, nemesis.stop, nemesis.kill_api, nemesis.kill_broker], 0.2, 1)
    while shortfalls(made.tally, {deeds.KILLS_OPEN: WANTED[deeds.KILLS_OPEN]}) and made.tally[deeds.KILLS] < 10:
        nemesis.kill_in_transaction()
    nemesis.rampage([nemesis.kill, nemesis.kill_all, nemesis.delete_group, nemesis.kill], 0.2, 1)
    return takeovers.seconds


def played(part: Part, folder: Path) -> Outcome:
    print(f"SEED={SEED}")
    with required("Kafka"):
        outcome = play(part, SEED, folder)
    report(part, outcome)
    return outcome


def test_what_is_sent_arrives_once_in_order_and_never_early_whatever_is_killed(tmp_path: Path) -> None:
    outcome = played(Part("everything once", SMALL, everything_once), tmp_path)
    assert (outcome.violations, outcome.failures) == ([], [])
    assert shortfalls(outcome.tally, WANTED) == []
    assert outcome.chances.delivered > 2000
    assert max(outcome.takeovers_s["SIGKILL"]) < SESSIONS_MAX * SESSION_S
