"""What a run has read, cell by cell: counts, and XORs in which what agrees on both sides cancels out.

A cell holds what is said of the records of one topic whose due time lies in one window and whose position in one
bucket. Each record is said twice: accepted, and done. Each re-append is said twice too: by itself, and by the outcome
row of the record that it carries on. Cells of several runs add up (`judge.summed`), so that a row is read once in its
life. An XOR sees parity only and a sum of hashes overflows: that is why counts stand beside the XORs.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from reconcile.ledger import BUCKETS, HOUR_MS, LATENESS_BINS, OUTCOMES, POSITION_BITS, REPLACED, WINDOW_MS

CELL = ("topic", "window_ms", "bucket")
COUNTS = ("accepted", "others", "done", "links", "carried", *OUTCOMES, "early", "late")
LATENESS = tuple(f"lateness_{i:02}" for i in range(LATENESS_BINS))
XORS = ("xor_position", "xor_moment", "xor_plain", "xor_check", "xor_link")


def _schema() -> StructType:
    key = [StructField("topic", StringType(), False), StructField("window_ms", LongType(), False)]
    bucket = [StructField("bucket", IntegerType(), False)]
    values = [StructField(name, LongType(), False) for name in (*COUNTS, *LATENESS, *XORS)]
    return StructType([*key, *bucket, *values, StructField("late_max_ms", LongType(), True)])


CELLS = _schema()
"""One cell. `others` of the `accepted` are no messages; `links` are said by re-appends, `carried` by outcome rows;
outcomes by name; `lateness_<i>`: see `ledger.LATENESS_BINS`. XORs are over both sides: of the positions, the moments,
the hashes of (position, moment), those with the id too, and over links the hashes of (position, moment)."""

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
    """Cells by `CELLS` of rows by `schemas.ACCEPTED`, `LINKS` and `schemas.DONE`. What was delivered more than
    `late_after_ms` after it was due is late."""
    sides = (_accepted(accepted), _links(links), _done(done, late_after_ms))
    return added(reduce(DataFrame.unionByName, (_completed(side) for side in sides)))


def added(parts: DataFrame) -> DataFrame:
    """One row per cell, of any number of partial ones by `CELLS`."""
    sums = [F.sum(name).alias(name) for name in (*COUNTS, *LATENESS)]
    xors = [F.bit_xor(name).alias(name) for name in XORS]
    return parts.groupBy(*CELL).agg(*sums, *xors, F.max("late_max_ms").alias("late_max_ms"))


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


# --- the three sides


def _accepted(rows: DataFrame) -> DataFrame:
    other = F.count_if(F.col("kind") != "message").alias("others")
    keyed = in_cell(rows, moment_ms())
    return keyed.groupBy(*CELL).agg(F.count("*").alias("accepted"), other, *_xors_of_records())


def _links(rows: DataFrame) -> DataFrame:
    keyed = in_cell(rows, F.col("due_ms"))
    return keyed.groupBy(*CELL).agg(F.count("*").alias("links"), _xor(_plain()).alias("xor_link"))


def _done(rows: DataFrame, late_after_ms: int) -> DataFrame:
    timed = in_cell(rows, moment_ms()).withColumns({"lateness": lateness_ms(), "carried": carried()})
    keyed = timed.withColumn("bin", _bin(F.col("lateness")))
    lateness = F.col("lateness")
    return keyed.groupBy(*CELL).agg(
        F.count("*").alias("done"),
        *(F.count_if(F.col("outcome") == name).alias(name) for name in OUTCOMES),
        F.count_if("carried").alias("carried"),
        F.count_if(lateness < 0).alias("early"),
        F.count_if(lateness > late_after_ms).alias("late"),
        *(F.count_if(F.col("bin") == i).alias(name) for i, name in enumerate(LATENESS)),
        F.max("lateness").alias("late_max_ms"),
        _xor(F.when(F.col("carried"), _plain())).alias("xor_link"),
        *_xors_of_records(),
    )


def lateness_ms() -> Column:
    """Of what was delivered, negative where it was early; null otherwise."""
    return F.when(F.col("outcome") == "delivered", F.col("done_ms") - F.col("due_ms"))


def carried() -> Column:
    """Whether the outcome row says that another record carries the message on. A newcomer of the same own id that
    replaced it, or the message that made it a duplicate, is another message."""
    another = (F.col("outcome") == "duplicate") | F.col("reason").eqNullSafe(REPLACED)
    return F.col("successor").isNotNull() & ~another


def _bin(lateness: Column) -> Column:
    """The number of bits of a lateness: half a millisecond keeps the logarithm away from whole numbers."""
    bits = (F.floor(F.log2(lateness + 0.5)) + 1).cast("int")
    return F.when(lateness >= 0, F.least(bits, F.lit(LATENESS_BINS - 1)))


def _plain() -> Column:
    return F.xxhash64("position", "moment_ms")


def _xor(values: Column) -> Column:
    return F.coalesce(F.bit_xor(values), F.lit(0).cast("long"))


def _xors_of_records() -> tuple[Column, ...]:
    return (
        _xor(F.col("position")).alias("xor_position"),
        _xor(F.col("moment_ms")).alias("xor_moment"),
        _xor(_plain()).alias("xor_plain"),
        _xor(F.xxhash64("position", "moment_ms", "id")).alias("xor_check"),
    )


def _completed(side: DataFrame) -> DataFrame:
    """With nothing where this side says nothing."""
    known = set(side.columns)
    return side.select(
        *(
            F.col(field.name)
            if field.name in known
            else F.lit(None if field.nullable else 0).cast(field.dataType).alias(field.name)
            for field in CELLS.fields
        )
    )
