"""What the report calls things."""

from delayline.times import format_moment
from reconcile.logic.ledger import Category
from reconcile.report.summary import State, TopicSummary

WORST_FIRST = (
    Category.MISSING,
    Category.DELIVERED_AFTER_CANCEL,
    Category.CONFIRMED_IN_VAIN,
    Category.UNASKED,
    Category.ENDED_AFTER_SKIP,
    Category.DUPLICATED,
    Category.TWO_OUTCOMES,
    Category.WRONG_SUCCESSOR,
    Category.WRONG_OUTCOME,
    Category.ORPHAN,
    Category.ALTERED,
    Category.MISPLACED,
    Category.WRONGLY_EXPIRED,
    Category.BEHIND_DEADLINE,
    Category.EARLY,
    Category.LATE,
    Category.UNAUDITABLE,
)

LETTERS = {
    Category.MISSING: "M",
    Category.DELIVERED_AFTER_CANCEL: "C",
    Category.CONFIRMED_IN_VAIN: "V",
    Category.UNASKED: "A",
    Category.ENDED_AFTER_SKIP: "S",
    Category.DUPLICATED: "D",
    Category.TWO_OUTCOMES: "T",
    Category.WRONG_SUCCESSOR: "N",
    Category.WRONG_OUTCOME: "K",
    Category.ORPHAN: "O",
    Category.ALTERED: "W",
    Category.MISPLACED: "P",
    Category.WRONGLY_EXPIRED: "X",
    Category.BEHIND_DEADLINE: "B",
    Category.EARLY: "E",
    Category.LATE: "L",
    Category.UNAUDITABLE: "U",
}
"""In the picture: the colour shows how bad it is, the letter what it is."""

SEVERITIES = {
    Category.MISSING: "lost",
    Category.DELIVERED_AFTER_CANCEL: "wrong",
    Category.CONFIRMED_IN_VAIN: "wrong",
    Category.UNASKED: "wrong",
    Category.ENDED_AFTER_SKIP: "wrong",
    Category.DUPLICATED: "wrong",
    Category.TWO_OUTCOMES: "wrong",
    Category.WRONG_SUCCESSOR: "wrong",
    Category.WRONG_OUTCOME: "wrong",
    Category.ORPHAN: "wrong",
    Category.ALTERED: "wrong",
    Category.MISPLACED: "wrong",
    Category.WRONGLY_EXPIRED: "lost",
    Category.BEHIND_DEADLINE: "wrong",
    Category.EARLY: "off",
    Category.LATE: "off",
    Category.UNAUDITABLE: "unknown",
}

MEANINGS = {
    Category.MISSING: "accepted, its window is closed, and it has no outcome",
    Category.DELIVERED_AFTER_CANCEL: "delivered although its cancel had been confirmed",
    Category.CONFIRMED_IN_VAIN: "an operation on it was confirmed, and it has not ended by that",
    Category.UNASKED: "cancelled or moved, and no operation asked for it",
    Category.ENDED_AFTER_SKIP: "delivered, or ended otherwise, although an operator had had it skipped",
    Category.DUPLICATED: "delivered more than once",
    Category.TWO_OUTCOMES: "two ends that contradict each other",
    Category.WRONG_SUCCESSOR: "carried on under another id, or ended for a message that was never accepted",
    Category.WRONG_OUTCOME: "an outcome that a record of its kind cannot have",
    Category.ORPHAN: "an outcome of a record that was never accepted",
    Category.ALTERED: "in its topic with another key, value, header or due time than it was accepted with",
    Category.MISPLACED: "in another partition of its topic",
    Category.WRONGLY_EXPIRED: "expired without a deadline, or before it",
    Category.BEHIND_DEADLINE: "delivered behind its own deadline",
    Category.EARLY: "delivered before it was due",
    Category.LATE: "delivered later than tolerated",
    Category.UNAUDITABLE: "the data for a verdict has been deleted from the queue",
}

STATES = {state: state.value for state in State} | {State.UNAUDITABLE: "partly unauditable"}


def category_words(category: str) -> str:
    """`delivered after cancel`; a category that this program does not know stays readable."""
    return category.replace("_", " ")


def worst(counts: dict[str, int]) -> Category | None:
    """Of the categories that were counted at all; None where nothing was found."""
    return next((category for category in WORST_FIRST if counts.get(category)), None)


def counted(counts: dict[str, int]) -> str:
    """`2 missing, 1 late`, the worst first; empty where nothing was found."""
    return ", ".join(
        f"{counts[category]:,} {category_words(category)}" for category in WORST_FIRST if counts.get(category)
    )


def urgency(topic: TopicSummary) -> tuple[int, bool, str]:
    """Sorts topics by the worst that was found, then those that could not be judged, then by name."""
    found = worst(topic.findings)
    place = len(WORST_FIRST) if found is None else WORST_FIRST.index(found)
    return (place, topic.state is State.JUDGED, topic.topic)


def about(duration_ms: float) -> str:
    """`512 ms`, `1.02 s`, `17.5 min`, `4.66 h`, `49.7 d`."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
    unit, size = next(((unit, size) for unit, size in units if duration_ms >= size), ("ms", 1))
    return f"{float(f'{duration_ms / size:.3g}'):,g} {unit}"


def timeliness(lateness_ms: int | None) -> str:
    """`340 ms early`, `1.2 min late`; empty where nothing was delivered."""
    if lateness_ms is None:
        return ""
    return f"{about(abs(lateness_ms))} {'early' if lateness_ms < 0 else 'late'}"


def minute(moment_ms: int) -> str:
    """`2026-01-01 00:05`, UTC."""
    return format_moment(moment_ms)[:16].replace("T", " ")
