"""A message that was moved, and whose new record is nowhere: found, sent again at its new time, and found no more."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from delayline.buffer.outcome import CANCELLED, RESCHEDULED, AuditRow, Outcome
from delayline.records.message import Key
from reconcile.report.repair_plan import LostSuccessor, decode_repair_plan
from tests.reconcile.installation import MINUTE_MS, NOW_MS, Installation, delivered
from tests.reconcile.test_job import topic_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DUE_MS, MOVED_MS = NOW_MS + MINUTE_MS, NOW_MS + 2 * MINUTE_MS
ID = f"orders.0.0.{DUE_MS}"


def asked(offset: int, did: str) -> AuditRow:
    return AuditRow(offset, None, None, NOW_MS, Outcome.APPLIED, None, did)


@pytest.mark.thorough
def test_it_is_found_sent_again_at_its_new_time_and_found_no_more(spark: "SparkSession", tmp_path: Path) -> None:
    """Beside it one that was cancelled, in the same commit."""
    move = [(b"delay-op", b"reschedule"), (b"delay-ref", ID.encode()), (b"delay", b"2m")]
    cancel = [(b"delay-op", b"cancel"), (b"delay-ref", b"mine")]
    messages = [[(b"delay", b"1m")], [(b"delay", b"1m"), (b"delay-id", b"mine")]]
    installation = Installation(spark, tmp_path, *messages, move, cancel)
    rows = [
        AuditRow(0, ID, DUE_MS, NOW_MS, Outcome.SUPERSEDED, ID, RESCHEDULED),
        AuditRow(1, f"orders.0.1.{DUE_MS}", DUE_MS, NOW_MS, Outcome.CANCELLED, None, CANCELLED),
        *(asked(2, RESCHEDULED), asked(3, CANCELLED)),
    ]
    installation.write_audit(rows, done_ms=NOW_MS + 7, next_offset=4, at_minute=10)

    first = installation.run(11)
    plan = installation.plan()
    sent, again = installation.repair(plan), installation.repair(plan)
    installation.write_audit([delivered(4, ID, MOVED_MS)], done_ms=MOVED_MS + 5, next_offset=5, at_minute=12)
    last = installation.run(13)

    assert (first.exit_code, topic_of(first.summary).findings) == (2, {"missing": 1})
    listed = decode_repair_plan(plan.read_bytes())
    assert (listed.successors, listed.messages, listed.more) == (
        [LostSuccessor(ID, "orders", 0, 0, DUE_MS, MOVED_MS)],
        [],
        0,
    )
    whats = [(ran.code, [one["what"] for one in json.loads(ran.out)["messages"]]) for ran in (sent, again)]
    assert whats == [(0, ["sent again"]), (0, ["has ended"])]
    assert installation.carried_on() == [(Key(DUE_MS, 0), MOVED_MS)]
    ledger = topic_of(last.summary).ledger
    assert (last.exit_code, topic_of(last.summary).findings) == (0, {})
    assert (ledger.delivered, ledger.superseded, ledger.cancelled, ledger.difference) == (1, 1, 1, 0)
