"""What a run has read, cell by cell: counts, and XORs in which what agrees on both sides cancels out.

A cell holds what is said of the records of one topic whose due time lies in one window and whose position in one
bucket. Each record is said twice: accepted, and done. Each re-append is said twice too: by itself, and by the outcome
row of the record that it carries on. Cells of several runs add up (`summed`), so that a row is read once in its
life. An XOR sees parity only and a sum of hashes overflows: that is why counts stand beside the XORs.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from delayline import buffer_facts as facts
from delayline.outcome import CANCELLED, FORWARDED, REPLACED, RESCHEDULED, Outcome
from reconcile.ledger import (
    BUCKETS,
    HOUR_MS,
    INSTRUCTIONS,
    LATENESS_BINS,
    OUTCOMES,
    POSITION_BITS,
    SKIPPED,
    WINDOW_MS,
)

CELL = ("topic", "window_ms", "bucket")
COUNTS = ("accepted", "others", "done", "links", "carried", "given_way", *OUTCOMES, "early", "late")
LATENESS = tuple(f"lateness_{i:02}" for i in range(LATENESS_BINS))
XORS = ("xor_position", "xor_moment", "xor_plain", "xor_check", "xor_link")

CELLS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("window_ms", LongType(), False),
        StructField("bucket", IntegerType(), False),
        StructField("said", IntegerType(), False),
        StructField("count", LongType(), False),
        *(StructField(name, LongType(), False) for name in XORS),
        StructField("late_max_ms", LongType(), True),
        StructField("slack_min_ms", LongType(), True),
    ]
)
"""A part of a cell: the rows of which the same is said, as a number (`said`, below). XORs are of the positions, the
moments, the hashes of (position, moment), those with the id and of what kind it is too, and what links say.
`slack_min_ms` is the shortest time from a due time to its deadline."""

LINKS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("shard", IntegerType(), False),
        StructField("offset", LongType(), False),
        StructField("due_ms", LongType(), False),
        StructField("by_id", StringType(), True),
        StructField("by_offset", LongType(), False),
    ]
)
"""One re-append, by the record that it carries on: `offset`, `due_ms` are that one's."""


def links(accepted: DataFrame) -> DataFrame:
    """The links among rows by `schemas.ACCEPTED`, by `LINKS`."""
    return accepted.where(F.col("replaces_offset").isNotNull() & F.col("replaces_due_ms").isNotNull()).select(
        "topic",
        "shard",
        F.col("replaces_offset").alias("offset"),
        F.col("replaces_due_ms").alias("due_ms"),
        F.col("id").alias("by_id"),
        F.col("offset").alias("by_offset"),
    )


def cells(accepted: DataFrame, links: DataFrame, done: DataFrame, late_after_ms: int) -> DataFrame:
    """Parts of cells by `CELLS` of rows by `schemas.ACCEPTED`, `LINKS` and `schemas.DONE`. What was delivered more
    than `late_after_ms` after it was due is late. A counter for each outcome and each lateness would be dear per
    row: what a row says is one number of the key, and only `summed` spreads it over counters."""
    timed = in_cell(done, moment_ms()).withColumn("lateness_ms", lateness_ms())
    kind = F.when(is_message(), _ACCEPTED | _UNTIMED).otherwise(_OTHER | _UNTIMED)
    link, carrying = _link(F.col("by_id"), F.col("by_id")), _link(successor(), F.col("id"))
    none = F.lit(0).cast("long")
    mortal = accepted.withColumn("slack_ms", F.col("expires_ms") - F.col("due_ms"))
    sides = (
        _said(in_cell(mortal, moment_ms()), kind, _check(record_class()), none),
        _said(in_cell(links, F.col("due_ms")), F.lit(_LINK | _UNTIMED), none, link),
        _said(timed, _outcome(late_after_ms), _check(outcome_class()), F.when(carried(), carrying).otherwise(none)),
    )
    return reduce(DataFrame.unionByName, sides)


def summed(cells: DataFrame) -> DataFrame:
    """One row per cell, of the parts that any number of runs have left: `CELL`, `COUNTS` (`others` of the `accepted`
    are no messages; `links` are said by re-appends, `carried` by outcome rows; `given_way` have ended for another
    message), `LATENESS`, `XORS` over both sides (`xor_link` over links), `late_max_ms` and `slack_min_ms`."""
    is_link = _what() == _LINK
    return cells.groupBy(*CELL).agg(
        *counts(),
        *(_xor_where(~is_link, name).alias(name) for name in XORS if name != "xor_link"),
        F.bit_xor("xor_link").alias("xor_link"),
        F.max("late_max_ms").alias("late_max_ms"),
        F.min("slack_min_ms").alias("slack_min_ms"),
    )


def has_deadlines() -> Column:
    """Of `summed`: whether something has expired, or may have been delivered behind its deadline."""
    return (F.col("expired") > 0) | F.coalesce(F.col("late_max_ms") > F.col("slack_min_ms"), F.lit(False))


def counts() -> list[Column]:
    """`COUNTS` and `LATENESS` of any group of parts of cells."""
    what, timing = _what(), F.col("said").bitwiseAND(_UNTIMED)
    is_timed, bins = timing < _EARLY, timing.bitwiseAND(_LATE - 1)
    conditions = {
        "accepted": what < _LINK,
        "others": what == _OTHER,
        "done": what >= _FIRST_OUTCOME,
        "links": what == _LINK,
        "carried": _is_carried(),
        "given_way": (what == _DUPLICATE) | ((what == _SUPERSEDED) & ~_is_carried()),
        **{name: what == _FIRST_OUTCOME + (i << 7) for i, name in enumerate(OUTCOMES)},
        "early": timing == _EARLY,
        "late": is_timed & (timing >= _LATE),
        **{name: is_timed & (bins == i) for i, name in enumerate(LATENESS)},
    }
    return [
        F.sum(F.when(condition, F.col("count")).otherwise(0)).alias(name) for name, condition in conditions.items()
    ]


# --- where a row belongs: columns of any frame with shard, offset and due time


def moment_ms() -> Column:
    """The due time; of what is no message, when it was accepted."""
    return F.coalesce(F.col("due_ms"), F.col("accepted_ms"))


def window_ms(moment: Column) -> Column:
    """Beginning of the window."""
    return moment - F.pmod(moment, F.lit(WINDOW_MS))


def hour(moment: Column) -> Column:
    """Hours since the epoch: the name of the folder."""
    return F.floor(moment / F.lit(HOUR_MS)).cast("int")


def position() -> Column:
    return F.shiftleft(F.col("shard").cast("long"), POSITION_BITS).bitwiseOR(F.col("offset"))


def bucket(of: Column) -> Column:
    return F.pmod(F.xxhash64(of), F.lit(BUCKETS)).cast("int")


def in_cell(rows: DataFrame, moment: Column) -> DataFrame:
    """With `moment_ms`, `position` and the columns of `CELL`."""
    placed = rows.withColumns({"moment_ms": moment, "position": position()})
    return placed.withColumns({"window_ms": window_ms(F.col("moment_ms")), "bucket": bucket(F.col("position"))})


def lateness_ms() -> Column:
    """Of what was delivered, negative where it was early; null otherwise."""
    return F.when(F.col("outcome") == "delivered", F.col("done_ms") - F.col("due_ms"))


def carried() -> Column:
    """Whether the outcome row says that another record carries the message on. A newcomer of the same own id that
    replaced it, or the message that made it a duplicate, is another message."""
    is_superseded = F.col("outcome") == "superseded"
    return (is_superseded | (F.col("successor").isNotNull() & ends_message())) & ~gives_way()


def gives_way() -> Column:
    """Whether the outcome row says that its message has ended for another one."""
    return (F.col("outcome") == "duplicate") | F.col("reason").eqNullSafe(REPLACED)


def successor() -> Column:
    """What the record is called that carries the message on: by its own id, where the row has no other name."""
    return F.coalesce("successor", "id")


def first_id(of: Column) -> Column:
    """Of an occurrence, the id of its message. No topic's name has a tilde."""
    return F.substring_index(of, "~", 1)


def is_message() -> Column:
    """Of a record."""
    return F.col("kind").isin("message", SKIPPED)


def ends_message() -> Column:
    """Whether the outcome of a row is one that messages have."""
    return ~F.col("outcome").isin(*INSTRUCTIONS)


MESSAGE, OPERATION, OTHER = 0, 1, 2
"""Of what kind a record is, as far as its outcome row tells."""


def record_class() -> Column:
    return F.when(is_message(), MESSAGE).when(F.col("kind") == facts.OPERATION, OPERATION).otherwise(OTHER)


def outcome_class() -> Column:
    """Of an outcome row. What an operation did is its reason; of other instructions nothing is ever unmatched."""
    did = F.coalesce(F.col("reason").isin(CANCELLED, RESCHEDULED, FORWARDED), F.lit(False))
    is_operation = (F.col("outcome") == Outcome.UNMATCHED.value) | did
    return F.when(ends_message(), MESSAGE).when(is_operation, OPERATION).otherwise(OTHER)


# --- what a row says, as one number:  outcome or side | carried | how late
#                                         bits 7..11       6       0..5

_ACCEPTED, _OTHER, _LINK, _FIRST_OUTCOME = 0 << 7, 1 << 7, 2 << 7, 3 << 7
_DUPLICATE, _SUPERSEDED = (_FIRST_OUTCOME + (OUTCOMES.index(name) << 7) for name in ("duplicate", "superseded"))
_CARRIED = 1 << 6
_LATE = 1 << 5  # and a bin below
_EARLY, _UNTIMED = 62, 63


def _outcome(late_after_ms: int) -> Column:
    first, *others = OUTCOMES
    code = F.when(F.col("outcome") == first, _FIRST_OUTCOME)
    for i, name in enumerate(others, 1):
        code = code.when(F.col("outcome") == name, _FIRST_OUTCOME + (i << 7))
    known = code.otherwise(_FIRST_OUTCOME + (len(OUTCOMES) << 7))
    return known + F.when(carried(), _CARRIED).otherwise(0) + _timing(F.col("lateness_ms"), late_after_ms)


def _timing(lateness: Column, late_after_ms: int) -> Column:
    """The bin is the number of bits of a lateness: half a millisecond keeps the logarithm away from whole numbers."""
    bits = (F.floor(F.log2(lateness + 0.5)) + 1).cast("int")
    late = F.when(lateness > late_after_ms, _LATE).otherwise(0)
    timed = F.when(lateness >= 0, F.least(bits, F.lit(LATENESS_BINS - 1)) + late).otherwise(_EARLY)
    return F.when(lateness.isNull(), _UNTIMED).otherwise(timed)


def _check(of: Column) -> Column:
    return F.xxhash64("position", "moment_ms", "id", of)


def _link(by: Column, of: Column) -> Column:
    """What says the name under which a message is carried on, and whose name that is."""
    return F.xxhash64(F.col("position"), F.col("moment_ms"), by, first_id(of))


def _said(rows: DataFrame, said: Column, check: Column, link: Column) -> DataFrame:
    """What is said by how many, and of whom."""
    unsaid = {name: F.lit(None).cast("long") for name in ("lateness_ms", "slack_ms") if name not in rows.columns}
    named = rows.withColumns({"said": said, "check": check, "link": link, **unsaid})
    return named.groupBy(*CELL, "said").agg(
        F.count("*").alias("count"),
        F.bit_xor("position").alias("xor_position"),
        F.bit_xor("moment_ms").alias("xor_moment"),
        F.bit_xor(F.xxhash64("position", "moment_ms")).alias("xor_plain"),
        F.bit_xor("check").alias("xor_check"),
        F.bit_xor("link").alias("xor_link"),
        F.max("lateness_ms").alias("late_max_ms"),
        F.min("slack_ms").alias("slack_min_ms"),
    )


def _what() -> Column:
    return F.col("said").bitwiseAND(~(_CARRIED | _UNTIMED))


def _is_carried() -> Column:
    return F.col("said").bitwiseAND(_CARRIED) != 0


def _xor_where(condition: Column, name: str) -> Column:
    return F.bit_xor(F.when(condition, F.col(name)).otherwise(0))
