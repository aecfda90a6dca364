"""A summary in which everything occurs that a report has to show."""

import random
from typing import Any

from msgspec.structs import replace

from reconcile.logic.ledger import WINDOW_MS, Category
from reconcile.logic.plan import Cluster
from reconcile.report.summary import (
    Finding,
    Ledger,
    Malformed,
    NotJudged,
    Point,
    State,
    Summary,
    TopicSummary,
    WindowSummary,
)

AT_MS = 1_767_225_600_000
CLUSTER = Cluster("kafka", "MkU3OEVBNTcwNTJENDM2Qk", "delayline")

BAD_DAYS: dict[str, dict[int, dict[str, int]]] = {
    "orders": {40: {Category.MISSING: 3}, 41: {Category.MISSING: 1, Category.LATE: 9}, 200: {Category.LATE: 2}},
    "cart-reminders": {100: {Category.DUPLICATED: 1}, 130: {Category.EARLY: 4}, 131: {Category.EARLY: 4}},
    "payment-retries": {
        20: {Category.DELIVERED_AFTER_CANCEL: 1},
        222: {Category.ORPHAN: 2, Category.TWO_OUTCOMES: 1},
        280: {Category.UNAUDITABLE: 17},
    },
    "trial-endings": {},
}


def windows(topic: str, count: int = 288) -> list[WindowSummary]:
    rnd = random.Random(topic)
    return [_window(topic, n, count, rnd) for n in range(count)]


def _window(topic: str, number: int, count: int, rnd: random.Random) -> WindowSummary:
    lateness = [rnd.randrange(limit) for limit in (1, 30, 200, 400, 90, 12, 3, 2, 1, 1, 2)]
    found = BAD_DAYS.get(topic, {}).get(number, {})
    late = found.get(Category.LATE, 0)
    lateness += [0] * 6 + [late]
    return WindowSummary(
        topic=topic,
        window_ms=AT_MS - (count - number) * WINDOW_MS,
        run=7,
        accepted=sum(lateness) + found.get(Category.MISSING, 0),
        done=sum(lateness),
        findings=found,
        lateness=lateness,
        late_max_ms=90_000 if late else 900 + number,
    )


def topic(name: str, shown: list[WindowSummary], **fields: Any) -> TopicSummary:
    """Its ledger and its findings are those of its windows."""
    found: dict[str, int] = {}
    for window in shown:
        for category, count in window.findings.items():
            found[category] = found.get(category, 0) + count
    ledger = Ledger(
        accepted=sum(window.accepted for window in shown) + 4_120 + 311 + 96 + found.get(Category.UNAUDITABLE, 0),
        delivered=sum(window.done for window in shown) + found.get(Category.ORPHAN, 0),
        cancelled=311,
        superseded=96,
        pending=4_120,
        missing=found.get(Category.MISSING, 0),
        unauditable=found.get(Category.UNAUDITABLE, 0),
        surplus=found.get(Category.ORPHAN, 0),
    )
    made = TopicSummary(topic=name, closed_until_ms=AT_MS, fresh=found, findings=found, ledger=ledger)
    return replace(made, **fields)


def finding(category: str, name: str, number: int, **fields: Any) -> Finding:
    due_ms = AT_MS - number * 1_234_567
    offset = 104_100 + number
    made = Finding(
        category=category,
        topic=name,
        shard=3,
        offset=offset,
        buffer=f"delayline.buffer.{name}",
        id=f"{name}.3.{offset}.{due_ms}",
        due_ms=due_ms,
        accepted_ms=due_ms - 3_600_000,
    )
    return replace(made, **fields)


def trend(count: int = 40, last: int = 7) -> list[Point]:
    """The newest runs up to this one."""
    rnd = random.Random(count)
    bad = {2: 3, 11: 1, 12: 9, count - 1: 20}
    return [
        Point(
            run=last - count + 1 + n,
            at_ms=AT_MS + 41_000 - (count - 1 - n) * 900_000,
            exit_code=2 if n in bad else 3 if n == 20 else 0,
            findings=bad.get(n, 0),
            accepted=(accepted := 17_000 + rnd.randrange(9_000)),
            delivered=accepted - rnd.randrange(4_000),
            half_ms=None if n == 20 else 2 ** rnd.randrange(3, 6),
            nearly_all_ms=None if n == 20 else 2 ** (14 if n in bad else rnd.randrange(7, 10)),
        )
        for n in range(count)
    ]


def summary(**fields: Any) -> Summary:
    """Of a bad day."""
    shown = [window for name in BAD_DAYS for window in windows(name)]
    states: dict[str, dict[str, Any]] = {
        "payment-retries": {"state": State.UNAUDITABLE, "reason": "17 records were trimmed before they were read"},
        "trial-endings": {"before_start": 12},
    }
    topics = [
        topic(name, [window for window in shown if window.topic == name], **states.get(name, {})) for name in BAD_DAYS
    ]
    topics += [
        TopicSummary(
            topic="mail-digest", state=State.STALLED, reason="shard 2 has reported nothing since 2025-12-31T21:10:00Z"
        ),
        TopicSummary(topic="invoices.overdue", state=State.RECREATED, reason="the buffer topic was made anew"),
    ]
    findings = [
        finding(category, name, 10 * number + n, lateness_ms={"early": -4_200, "late": 90_000}.get(category))
        for name, numbers in BAD_DAYS.items()
        for number, found in numbers.items()
        for category, count in found.items()
        for n in range(count)
    ]
    made = Summary(
        cluster=CLUSTER,
        at_ms=AT_MS + 41_000,
        seconds=48.2,
        run=7,
        exit_code=2,
        topics=topics,
        windows=shown,
        windows_total=len(shown),
        windows_judged=48,
        findings=findings,
        findings_total=len(findings),
        not_judged=[
            NotJudged(
                what="gap", topic="payment-retries", shard=1, records=17, why="offsets 4,100 to 4,117 were trimmed"
            ),
            NotJudged(what="stalled", topic="mail-digest", shard=2, why="no low-water mark for 2 h 50 m"),
            NotJudged(what="recreated", topic="invoices.overdue", why="its records begin at offset 0 once more"),
        ],
        malformed=[
            Malformed(audit_partition=0, audit_offset=9_041, why="version 9, this program knows 1", value='{"v":9,')
        ],
        malformed_total=1,
        trend=trend(7),
        rows_read={"done": 731_204, "marks": 960, "accepted": 735_100, "malformed": 1},
    )
    return replace(made, **fields)
