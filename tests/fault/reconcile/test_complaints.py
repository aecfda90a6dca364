"""The proof can fail: it is handed runs that have found what they should not, or not what they should."""

import pytest

from reconcile.logic.plan import Cluster
from reconcile.report.summary import Ledger, NotJudged, Summary, TopicSummary
from tests.fault.reconcile.runs import complaints

DUPLICATED = {"duplicated": 1}


def said(fresh: dict[str, int] | None = None, what: str | None = None, accepted: int = 0) -> Summary:
    topic = TopicSummary(topic="orders", fresh=fresh or {}, ledger=Ledger(accepted=accepted))
    not_judged = [NotJudged(what=what, why="")] if what else []
    cluster = Cluster("kafka", "1", "delayline")
    return Summary(cluster=cluster, run=1, at_ms=0, exit_code=0, seconds=0, topics=[topic], not_judged=not_judged)


def test_a_run_that_says_what_it_was_to_say_is_good() -> None:
    assert complaints(said(), 0) == []
    assert complaints(said(what="unsettled"), 3) == []
    assert complaints(said(DUPLICATED), 2, DUPLICATED) == []


@pytest.mark.parametrize(
    ("summary", "code", "fresh"),
    [
        (said(DUPLICATED), 2, None),  # found, and nothing was there
        (said(), 0, DUPLICATED),  # there, and not found
        (said({"duplicated": 2}), 2, DUPLICATED),  # found twice
        (said({"orphan": 1}), 2, DUPLICATED),  # by another name
        (said(), 2, None),  # an exit code that says something else
        (said(what="stalled"), 3, None),
        (said(accepted=1), 0, None),  # a ledger that does not add up
    ],
)
def test_a_run_that_says_something_else_is_not(summary: Summary, code: int, fresh: dict[str, int] | None) -> None:
    assert complaints(summary, code, fresh)
