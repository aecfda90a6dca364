"""The quantities of the ledger."""

from enum import StrEnum

from delayline.buffer.outcome import REPAIR, ROLL, SCHEDULED, Outcome

WINDOW_MS = 300_000
"""Five minutes of due time: what is judged, closed and reported as one."""

BUCKETS = 64
"""Cells per topic and window, by hash of the record's position: so that an anomaly is alone in its cell, and can be
read from the cell's XORs without looking at any other row."""

HOUR_MS = 3_600_000
"""Windows of an hour share a folder: what has been closed long ago is not opened again."""

POSITION_BITS = 44
"""A position is `shard << 44 | offset`: 17 * 10^12 records in each of half a million shards."""


SKIPPED = "skipped"
"""What an operator has had passed over. In the audit an outcome row `dead` with this reason is about a range; what
still waited there has no row, and ends as this too. No finding: an operator decided it."""

OUTCOMES = (*(outcome.value for outcome in Outcome), SKIPPED)
INSTRUCTIONS = frozenset({Outcome.APPLIED.value, Outcome.UNMATCHED.value})
"""Outcomes of records that are no messages."""

KEEP_TIME = (ROLL, SCHEDULED, REPAIR)
"""Reasons with which a record is carried on at the time that it had."""

RULE_MIN_MS = 1000
"""The strictest rule by which a message expires (`late_max`)."""

NO_OUTCOME = "no outcome"
"""The detail of a record without an outcome row, where nothing carries it on either."""

NOT_RE_APPENDED = "; not re-appended"
"""What follows the outcome, in the detail of a record whose message nothing carries on, although it was to go on."""

NOT_KEPT = "; rows of its hour are not kept any more"
"""What follows in the detail where a record cannot be judged for that reason."""

LATENESS_BINS = 26
"""Bin i counts what was delivered less than 2^i ms after it was due, and not less than 2^(i-1); the last one, from
four and a half hours on, has no bound."""


class Category(StrEnum):
    """What can be wrong with a record, or with the rows about it."""

    MISSING = "missing"  # accepted, its window is closed, and it has no outcome
    DUPLICATED = "duplicated"  # delivered more than once
    ALTERED = "altered"  # in its topic with another key, value, header or due time than it was accepted with
    MISPLACED = "misplaced"  # in another partition of its topic
    EARLY = "early"  # delivered before it was due
    LATE = "late"  # delivered later than tolerated
    BEHIND_DEADLINE = "behind_deadline"  # delivered behind its own deadline
    WRONGLY_EXPIRED = "wrongly_expired"  # expired without a deadline, or before it
    ORPHAN = "orphan"  # an outcome of a record that was never accepted
    DELIVERED_AFTER_CANCEL = "delivered_after_cancel"  # its cancel had been confirmed
    CONFIRMED_IN_VAIN = "confirmed_in_vain"  # an operation was confirmed, and nothing was done to its message
    UNASKED = "unasked"  # cancelled or moved, and no operation asked for it
    ENDED_AFTER_SKIP = "ended_after_skip"  # an operator had had its offset skipped
    TWO_OUTCOMES = "two_outcomes"  # contradictory ends of one record
    WRONG_OUTCOME = "wrong_outcome"  # an outcome that a record of its kind cannot have
    WRONG_SUCCESSOR = "wrong_successor"  # carried on under another id, or ended for a message that was never accepted
    UNAUDITABLE = "unauditable"  # the data for a verdict has been deleted from the queue
