"""The proof can fail: it is handed runs that have found what they should not, or not what they should."""

import pytest

from reconcile.logic.plan import Cluster
from reconcile.report.summary import Ledger, NotJudged, Summary, TopicSummary
from tests.fault.reconcile.runs import complaints

DUPLICATED = {"duplicated": 1}


def summary_of(fresh: dict[str, int] | None = None, what: str | None = None, accepted: int = 0) -> Summary:
    topic = TopicSummary(topic="orders", fresh=fresh or {}, ledger=Ledger(accepted=accepted))
    not_judged = [NotJudged(what=what, why="")] if what else []
    cluster = Cluster("kafka", "1", "delayline")
    return Summary(cluster=cluster, run=1, at_ms=0, exit_code=0, seconds=0, topics=[topic], not_judged=not_judged)


def test_a_run_with_the_expected_result_is_good() -> None:
    assert complaints(summary_of(), 0) == []
    assert complaints(summary_of(what="unsettled"), 3) == []
    assert complaints(summary_of(DUPLICATED), 2, DUPLICATED) == []


@pytest.mark.parametrize(
    ("summary", "code", "fresh"),
    [
        (summary_of(DUPLICATED), 2, None),  # found, and nothing was there
        (summary_of(), 0, DUPLICATED),  # there, and not found
        (summary_of({"duplicated": 2}), 2, DUPLICATED),  # found twice
        (summary_of({"orphan": 1}), 2, DUPLICATED),  # by another name
        (summary_of(), 2, None),  # an exit code that means something else
        (summary_of(what="stalled"), 3, None),
        (summary_of(accepted=1), 0, None),  # a ledger that does not add up
    ],
)
def test_a_run_with_another_result_is_not(summary: Summary, code: int, fresh: dict[str, int] | None) -> None:
    assert complaints(summary, code, fresh)
