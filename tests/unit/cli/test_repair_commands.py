"""What `delayline reconcile repair` prints when it cannot send everything."""

from typing import Any

import pytest

from cli.failure import Failure
from cli.repair_commands import carried_out
from delayline.records.message import Key, Shard
from mq.errors import ClaimLost, QueueUnavailable
from reconcile.exits import Exit
from reconcile.repair import LostRecord, RepairStep, Verdict
from reconcile.report.repair_plan import LostMessage

FOUND = LostRecord(Shard("orders", "0"), Key(50, 1), b"", 0, 1, 50)
STEPS = [
    RepairStep(LostMessage(f"orders.0.{n}.50", "orders", 0, n, 50, None), Verdict.AGAIN, "", FOUND) for n in range(3)
]


class Repairing:
    """Sends one message, and fails then."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.sent = 0

    def send(self, step: RepairStep) -> RepairStep:
        if self.sent:
            raise self.error
        self.sent += 1
        return step._replace(verdict=Verdict.SENT)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            QueueUnavailable("EndTxn commit failed: Unknown broker error"),
            "orders.0.1.50: EndTxn commit failed: Unknown broker error; 1 message sent before. "
            "The same command again sends what is left",
        ),
        (ClaimLost("gone"), "another repair has begun, and sends what is left; 1 message sent before"),
    ],
)
def test_a_repair_that_does_not_get_through_fails_and_states_what_to_do(error: Exception, sentence: str) -> None:
    repairing: Any = Repairing(error)
    with pytest.raises(Failure) as failed:
        carried_out(repairing, STEPS)
    assert (str(failed.value), failed.value.exit_code) == (sentence, Exit.FAILED)
