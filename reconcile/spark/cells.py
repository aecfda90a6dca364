"""What a run has read, cell by cell: counts, and XORs in which what agrees on both sides cancels out.

A cell holds the rows about the records of one topic whose due times are in one window and whose positions are in one
bucket. Each record counts twice: accepted, and done. Each re-append counts twice too: by itself, and by the outcome
row of the record that it carries on. Cells of several runs add up, so that a row is read once in its life. An XOR
sees parity only and a sum of hashes overflows: that is why cells have counts as well.

    rows -> `cells`, parts of cells by kind of row -> `counted`, by window   -> windows.py
                                                    -> `suspects`, by cell    -> suspects.py
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from delayline.buffer import facts
from delayline.buffer.outcome import CANCELLED, FORWARDED, REPLACED, RESCHEDULED, Outcome
from reconcile.frames.numbers import name_of
from reconcile.logic import row_kind
from reconcile.logic.ledger import (
    BUCKETS,
    HOUR_MS,
    INSTRUCTIONS,
    KEEP_TIME,
    LATENESS_BINS,
    POSITION_BITS,
    SKIPPED,
    WINDOW_MS,
)
from reconcile.logic.partitions import NUMBERS, Partitions
from reconcile.logic.suspects import DEADLINES, DIRTY, GIVES_WAY, MORTAL, NAMED, UNKEPT, UNTIMELY
from reconcile.logic.testimony import MESSAGE, OPERATION, OTHER

CELL = ("topic", "window_ms", "bucket")
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
"""A part of a cell: rows of one kind, as a number (`row_kind.py`). XORs are of the positions, the
moments, the hashes of (position, moment), those with the id and of what kind it is too, and the names in links.
`slack_min_ms` is the shortest time to a deadline, from where lateness is counted; of links, from when
they are due."""

LINKS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("shard", IntegerType(), False),
        StructField("offset", LongType(), False),
        StructField("due_ms", LongType(), False),
        StructField("by_id", StringType(), True),
        StructField("by_offset", LongType(), False),
        StructField("by_due_ms", LongType(), False),
        StructField("by_expires_ms", LongType(), True),
    ]
)
"""One re-append, by the record that it carries on: `offset`, `due_ms` are that one's, `by_...` its own."""


def links(accepted: DataFrame) -> DataFrame:
    """The links among rows by `schemas.ACCEPTED`, by `LINKS`."""
    return accepted.where(F.col("replaces_offset").isNotNull() & F.col("replaces_due_ms").isNotNull()).select(
        "topic",
        "shard",
        F.col("replaces_offset").alias("offset"),
        F.col("replaces_due_ms").alias("due_ms"),
        F.col("id").alias("by_id"),
        F.col("offset").alias("by_offset"),
        F.col("due_ms").alias("by_due_ms"),
        F.col("expires_ms").alias("by_expires_ms"),
    )


def cells(accepted: DataFrame, links: DataFrame | None, done: DataFrame, late_after_ms: int) -> DataFrame:
    """Parts of cells by `CELLS` of rows by `schemas.ACCEPTED`, `LINKS` and `schemas.DONE`. What was delivered more
    than `late_after_ms` after it was due is late. A counter for each outcome and each lateness would be dear per
    row: the kind of a row is one number of the key, and only a window spreads it over counters."""
    kind = F.when(is_message(), row_kind.MESSAGE | row_kind.UNTIMED).otherwise(row_kind.OTHER | row_kind.UNTIMED)
    slack_ms, lateness = F.col("expires_ms") - _from_ms(), lateness_ms()
    none, carrying = F.lit(0).cast("long"), _link(successor(), F.col("id"))
    sides = [
        _in_cells(accepted, moment_ms(), kind, _check(record_class()), none, slack_ms=slack_ms),
        _in_cells(
            done,
            moment_ms(),
            _outcome(lateness, late_after_ms),
            _check(outcome_class()),
            F.when(carried(), carrying).otherwise(none),
            lateness_ms=lateness,
        ),
    ]
    if links is not None:
        link = _link(F.col("by_id"), F.col("by_id"))
        kept = F.when(F.col("by_due_ms") == F.col("due_ms"), row_kind.KEPT).otherwise(row_kind.UNTIMED)
        lives_ms = F.col("by_expires_ms") - F.col("by_due_ms")
        sides.append(_in_cells(links, F.col("due_ms"), kept + row_kind.LINK, none, link, slack_ms=lives_ms))
    every = reduce(DataFrame.unionByName, sides)
    return every.groupBy(*CELL, "said").agg(
        F.count("*").alias("count"),
        F.bit_xor("position").alias("xor_position"),
        F.bit_xor("moment_ms").alias("xor_moment"),
        F.bit_xor("plain").alias("xor_plain"),
        F.bit_xor("check").alias("xor_check"),
        F.bit_xor("link").alias("xor_link"),
        F.max("lateness_ms").alias("late_max_ms"),
        F.min("slack_ms").alias("slack_min_ms"),
    )


def summed(cells: DataFrame) -> DataFrame:
    """One part of each cell for each kind of row, by `CELLS`."""
    return cells.groupBy(*CELL, "said").agg(
        F.sum("count").alias("count"),
        *(F.bit_xor(name).alias(name) for name in XORS),
        F.max("late_max_ms").alias("late_max_ms"),
        F.min("slack_min_ms").alias("slack_min_ms"),
    )


def counted_rows(cells: DataFrame) -> list[int]:
    """How many records, links and outcome rows these parts of cells have."""
    what = F.col("said").bitwiseAND(~(row_kind.CARRIED | row_kind.UNTIMED))
    sides = (what < row_kind.LINK, what == row_kind.LINK, what >= row_kind.FIRST_OUTCOME)
    (row,) = cells.agg(*(F.sum(F.when(side, F.col("count")).otherwise(0)) for side in sides)).collect()
    return [count or 0 for count in row]


def counted(cells: DataFrame) -> DataFrame:
    """By `topic`, `window_ms` and `said`: `count`, `late_max_ms`, the cells that there are as bits (`buckets`), and
    from how many rows by `CELLS` that comes (`parts`)."""
    return cells.groupBy("topic", "window_ms", "said").agg(
        F.sum("count").alias("count"),
        F.max("late_max_ms").alias("late_max_ms"),
        F.bit_or(F.expr("shiftleft(1L, bucket)")).alias("buckets"),
        F.count("*").alias("parts"),
    )


def suspects(cells: DataFrame, has_gaps: bool = False, partitions: Partitions = NUMBERS) -> DataFrame:
    """The cells, of the parts that any number of runs have left, in which something may be wrong: `CELL`, `flags`
    with the reasons, how many rows of each side there are (`accepted`, `links`, `done`), how many of them were early
    or late (`untimely`) or name another message (`given_way`), the shortest time to a deadline (`slack_min_ms`), and
    what is left in the XORs (`xor_position`, `xor_moment`, `is_message`), which a `NAMED` cell's missing record alone
    has left there. Where the audit has gaps (`has_gaps`), no cell names its record: it does not know when that was
    appended, nor whether its outcome may have been deleted."""
    what, timing = (
        F.col("said").bitwiseAND(~(row_kind.CARRIED | row_kind.UNTIMED)),
        F.col("said").bitwiseAND(row_kind.UNTIMED),
    )
    is_carried = F.col("said").bitwiseAND(row_kind.CARRIED) != 0
    is_link = what == row_kind.LINK
    gives_way = (what == row_kind.OF["duplicate"]) | ((what == row_kind.OF["superseded"]) & ~is_carried)
    is_untimely = ~timing.isin(row_kind.UNTIMED, row_kind.KEPT) & (
        timing >= row_kind.LATE
    )  # early, or a bin with the mark of what is late
    numbers = {
        "accepted": what < row_kind.LINK,
        "links": is_link,
        "done": what >= row_kind.FIRST_OUTCOME,
        "carried": is_carried,
        "untimely": is_untimely,
        "expired": what == row_kind.OF["expired"],
        "given_way": gives_way,
    }
    summed = cells.groupBy(*CELL).agg(
        *(F.sum(F.when(condition, F.col("count")).otherwise(0)).alias(name) for name, condition in numbers.items()),
        *(_xor_where(~is_link, name).alias(name) for name in XORS if name != "xor_link"),
        F.bit_xor("xor_link").alias("xor_link"),
        _xor_where(timing == row_kind.KEPT, "xor_link").alias("xor_kept"),
        F.max("late_max_ms").alias("late_max_ms"),
        F.min("slack_min_ms").alias("slack_min_ms"),
    )
    flags = {
        DIRTY: _is_dirty(),
        NAMED: F.lit(False) if has_gaps else _is_dirty() & _is_named(partitions),
        UNTIMELY: F.col("untimely") > 0,
        MORTAL: (F.col("expired") > 0) | F.coalesce(F.col("late_max_ms") > F.col("slack_min_ms"), F.lit(False)),
        GIVES_WAY: F.col("given_way") > 0,
        UNKEPT: F.col("xor_kept") != 0,
        DEADLINES: (F.col("links") > 0) & F.col("slack_min_ms").isNotNull(),
    }
    why = reduce(Column.bitwiseOR, (F.when(condition, flag).otherwise(0) for flag, condition in flags.items()))
    flagged = summed.withColumns({"flags": why, "is_message": F.col("xor_check") == _hash_of_own_id(partitions)})
    rows, xors = ("accepted", "links", "done", "untimely", "given_way"), ("xor_position", "xor_moment", "is_message")
    return flagged.where("flags <> 0").select(*CELL, "flags", *rows, "slack_min_ms", *xors)


# --- one cell


def _is_dirty() -> Column:
    differences = (
        F.col("accepted") != F.col("done"),
        F.col("links") != F.col("carried"),
        *(F.col(name) != 0 for name in ("xor_check", "xor_link")),
    )
    return reduce(or_, differences)


def _is_named(partitions: Partitions) -> Column:
    """One record more accepted than done, and what remains in the XORs is one record: its own hash proves it."""
    one = (F.col("accepted") == F.col("done") + 1) & (F.col("xor_plain") == _hash())
    other = F.col("xor_check").isin(_hash(F.lit(OPERATION)), _hash(F.lit(OTHER)))
    whole = (F.col("xor_check") == _hash_of_own_id(partitions)) | other
    linked = (F.col("links") == F.col("carried")) & (F.col("xor_link") == 0)
    return one & whole & linked


def _hash(*more: Column) -> Column:
    return F.xxhash64(F.col("xor_position"), F.col("xor_moment"), *more)


def _hash_of_own_id(partitions: Partitions) -> Column:
    """The id of a message that lies where it was accepted first."""
    shard = name_of(F.shiftright("xor_position", POSITION_BITS), partitions)
    offset = F.col("xor_position").bitwiseAND(F.lit((1 << POSITION_BITS) - 1)).cast("string")
    own_id = F.concat_ws(".", F.col("topic"), shard, offset, F.col("xor_moment").cast("string"))
    return _hash(own_id, F.lit(MESSAGE))


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
    """With the columns of `CELL`."""
    return rows.withColumns({"window_ms": window_ms(moment), "bucket": bucket(position())})


def lateness_ms() -> Column:
    """Of what was delivered; null otherwise. Negative where it was early: before its due time. What was sent with a
    due time in the past can be late only from its acceptance on; clocks of several machines may differ a little."""
    early = F.col("done_ms") - F.col("due_ms")
    late = F.greatest(F.lit(0).cast("long"), F.col("done_ms") - _from_ms())
    return F.when(F.col("outcome") == "delivered", F.when(early < 0, early).when(early >= 0, late))


def _from_ms() -> Column:
    """From when on a record could be delivered."""
    return F.greatest("due_ms", "accepted_ms")


def carried() -> Column:
    """Whether the outcome row states that another record carries the message on. A newcomer of the same own id that
    replaced it, or the message that made it a duplicate, is another message."""
    is_superseded = F.col("outcome") == "superseded"
    return (is_superseded | (F.col("successor").isNotNull() & ends_message())) & ~gives_way()


def gives_way() -> Column:
    """Whether the outcome row states that its message has ended for another one."""
    return (F.col("outcome") == "duplicate") | F.col("reason").eqNullSafe(REPLACED)


def keeps_time() -> Column:
    """Whether the outcome row states that its message goes on at the time that it had."""
    return (F.col("outcome") == "superseded") & F.coalesce(F.col("reason").isin(*KEEP_TIME), F.lit(False))


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


def record_class() -> Column:
    return F.when(is_message(), MESSAGE).when(F.col("kind") == facts.OPERATION, OPERATION).otherwise(OTHER)


def outcome_class() -> Column:
    """Of an outcome row. What an operation did is its reason; of other instructions nothing is ever unmatched."""
    did = F.coalesce(F.col("reason").isin(CANCELLED, RESCHEDULED, FORWARDED), F.lit(False))
    is_operation = (F.col("outcome") == Outcome.UNMATCHED.value) | did
    return F.when(ends_message(), MESSAGE).when(is_operation, OPERATION).otherwise(OTHER)


# --- the kind of a row


def _in_cells(
    rows: DataFrame, moment: Column, what: Column, check: Column, link: Column, **more: Column
) -> DataFrame:
    """Each row in its cell, with what goes into the cell's numbers."""
    none = F.lit(None).cast("long")
    placed = rows.withColumns({"moment_ms": moment, "position": position()})
    return placed.select(
        "topic",
        window_ms(F.col("moment_ms")).alias("window_ms"),
        bucket(F.col("position")).alias("bucket"),
        what.cast("int").alias("said"),
        "position",
        "moment_ms",
        F.xxhash64("position", "moment_ms").alias("plain"),
        check.cast("long").alias("check"),
        link.cast("long").alias("link"),
        more.get("lateness_ms", none).alias("lateness_ms"),
        more.get("slack_ms", none).alias("slack_ms"),
    )


def _outcome(lateness: Column, late_after_ms: int) -> Column:
    (first, code), *others = row_kind.OF.items()
    coded = F.when(F.col("outcome") == first, code)
    for name, code in others:
        coded = coded.when(F.col("outcome") == name, code)
    known = coded.otherwise(row_kind.UNKNOWN_OUTCOME)
    return known + F.when(carried(), row_kind.CARRIED).otherwise(0) + _timing(lateness, late_after_ms)


def _timing(lateness: Column, late_after_ms: int) -> Column:
    """The bin is the number of bits of a lateness: half a millisecond keeps the logarithm away from whole numbers."""
    bits = (F.floor(F.log2(lateness + 0.5)) + 1).cast("int")
    late = F.when(lateness > late_after_ms, row_kind.LATE).otherwise(0)
    untimed = F.when(keeps_time(), row_kind.KEPT).otherwise(row_kind.UNTIMED)
    timed = F.when(lateness >= 0, F.least(bits, F.lit(LATENESS_BINS - 1)) + late).otherwise(row_kind.EARLY)
    return F.when(lateness.isNull(), untimed).otherwise(timed)


def _check(of: Column) -> Column:
    return F.xxhash64("position", "moment_ms", "id", of)


def _link(by: Column, of: Column) -> Column:
    """A hash of the name under which a message is carried on, and of whose name that is."""
    return F.xxhash64(F.col("position"), F.col("moment_ms"), by, first_id(of))


def _xor_where(condition: Column, name: str) -> Column:
    return F.bit_xor(F.when(condition, F.col(name)).otherwise(0))
