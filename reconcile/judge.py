"""What cells say by themselves: which are clean, which one record is missing, what a window adds up to.

A cell is clean when its counts agree and its XORs are zero; XORs alone would not do, being blind to what comes twice.
Where exactly one record of a cell was accepted and not done, the XORs are that record's own: it is named without
looking at any row. Everything else that is dirty is looked up (`findings`).
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from reconcile.cells import COUNTS, LATENESS, MESSAGE, OPERATION, OTHER
from reconcile.ledger import NO_OUTCOME, POSITION_BITS, SKIPPED, Category

FINDINGS = StructType(
    [
        StructField("run", IntegerType(), False),
        StructField("topic", StringType(), False),
        StructField("window_ms", LongType(), False),
        StructField("category", StringType(), False),
        StructField("id", StringType(), True),
        StructField("shard", IntegerType(), False),
        StructField("offset", LongType(), False),
        StructField("due_ms", LongType(), True),
        StructField("accepted_ms", LongType(), True),
        StructField("done_ms", LongType(), True),
        StructField("lateness_ms", LongType(), True),
        StructField("surplus", LongType(), False),
        StructField("detail", StringType(), True),
    ]
)
"""What is wrong with one record, or with one link between records; `shard` and `offset` say where it lies in the
buffer. A missing record has no `done_ms`. A missing successor, or what was re-appended although it had ended, has
that of the record that it was to carry on, whose place and due time the finding gives. `accepted_ms` is null where a
cell alone has named the record, `id` and `due_ms` where it is no message. `surplus`: ends of messages beyond the one
of an accepted message; -1 where that has only an outcome of an instruction."""

WINDOWS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("window_ms", LongType(), False),
        StructField("version", IntegerType(), False),
        StructField("run", IntegerType(), False),
        *(StructField(name, LongType(), False) for name in COUNTS if name not in ("early", "late")),
        StructField("lateness", ArrayType(LongType(), True), False),
        StructField("late_max_ms", LongType(), True),
        StructField("cells", LongType(), False),
        StructField("dirty_cells", LongType(), False),
        *(StructField(category.value, LongType(), False) for category in Category),
        StructField("unanswered", LongType(), False),
        StructField("unanswered_unauditable", LongType(), False),
        StructField("unanswered_skipped", LongType(), False),
        StructField("surplus", LongType(), False),
    ]
)
"""One judgement of one window; a later version replaces it. Counts as in `cells.summed`, of all runs; outcomes count
rows; categories count findings; `lateness[i]` is bin i. `unanswered` counts the messages without an end that
are `missing` or have an instruction's outcome, `unanswered_unauditable` those that are not, `unanswered_skipped`
those that an operator has had skipped, and `surplus` ends of messages beyond one each, so that
accepted - others + surplus = the outcomes of messages + unanswered + unanswered_unauditable + unanswered_skipped."""


def dirty(summed: DataFrame, untold_until_ms: int = 0) -> DataFrame:
    """Those of `cells.summed` in which somebody says what nobody else says, with `named`: whether the cell alone
    tells what is missing. Where outcomes of what was appended before `untold_until_ms` may have been deleted, it does
    not: when that was it does not know."""
    named = F.lit(False) if untold_until_ms else _is_named()
    return summed.where(_is_dirty()).withColumn("named", named)


def decoded(dirty: DataFrame, run: int) -> DataFrame:
    """Findings of `dirty` cells that name their record."""
    is_message = F.col("xor_check") == _hash_of_own_id()
    return dirty.where("named").select(
        F.lit(run).alias("run"),
        "topic",
        "window_ms",
        F.lit(Category.MISSING.value).alias("category"),
        F.when(is_message, _own_id()).alias("id"),
        _shard().alias("shard"),
        _offset().alias("offset"),
        F.when(is_message, F.col("xor_moment")).alias("due_ms"),
        F.when(~is_message, F.col("xor_moment")).alias("accepted_ms"),
        F.lit(None).cast("long").alias("done_ms"),
        F.lit(None).cast("long").alias("lateness_ms"),
        F.lit(0).cast("long").alias("surplus"),
        F.lit(NO_OUTCOME).alias("detail"),
    )


def windows(summed: DataFrame, findings: DataFrame, run: int, earlier: DataFrame) -> DataFrame:
    """One row by `WINDOWS` for each window that has cells in `summed` or findings. `earlier`: the rows of earlier
    runs for these windows, of any version; the new version is one above."""
    of_cells = _of_cells(summed)
    of_findings = _of_findings(findings)
    before = earlier.groupBy("topic", "window_ms").agg(F.max("version").alias("before"))
    joined = of_cells.join(of_findings, ["topic", "window_ms"], "left").join(before, ["topic", "window_ms"], "left")
    complete = joined.withColumns(
        {"version": F.coalesce(F.col("before"), F.lit(0)) + 1, "run": F.lit(run).cast("int")}
    )
    return complete.select(*(_or_zero(field).alias(field.name) for field in WINDOWS.fields))


# --- one cell


def _is_dirty() -> Column:
    differences = (
        F.col("accepted") != F.col("done"),
        F.col("links") != F.col("carried"),
        *(F.col(name) != 0 for name in ("xor_check", "xor_link")),
    )
    return reduce(or_, differences)


def _is_named() -> Column:
    """One record more accepted than done, and what remains in the XORs is one record: its own hash says so."""
    one = (F.col("accepted") == F.col("done") + 1) & (F.col("xor_plain") == _hash())
    other = F.col("xor_check").isin(_hash(F.lit(OPERATION)), _hash(F.lit(OTHER)))
    whole = (F.col("xor_check") == _hash_of_own_id()) | other
    linked = (F.col("links") == F.col("carried")) & (F.col("xor_link") == 0)
    return one & whole & linked


def _hash(*more: Column) -> Column:
    return F.xxhash64(F.col("xor_position"), F.col("xor_moment"), *more)


def _hash_of_own_id() -> Column:
    return _hash(_own_id(), F.lit(MESSAGE))


def _shard() -> Column:
    return F.shiftright("xor_position", POSITION_BITS).cast("int")


def _offset() -> Column:
    return F.col("xor_position").bitwiseAND(F.lit((1 << POSITION_BITS) - 1))


def _own_id() -> Column:
    """The id of a message that lies where it was accepted first."""
    parts = (F.col("topic"), _shard().cast("string"), _offset().cast("string"), F.col("xor_moment").cast("string"))
    return F.concat_ws(".", *parts)


# --- a window


def _of_cells(summed: DataFrame) -> DataFrame:
    counts = [F.sum(name).alias(name) for name in COUNTS if name not in ("early", "late")]
    return summed.groupBy("topic", "window_ms").agg(
        *counts,
        F.array(*(F.sum(name) for name in LATENESS)).alias("lateness"),
        F.max("late_max_ms").alias("late_max_ms"),
        F.count("*").alias("cells"),
        F.count_if(_is_dirty()).alias("dirty_cells"),
    )


def _of_findings(findings: DataFrame) -> DataFrame:
    categories = [F.count_if(F.col("category") == category.value).alias(category.value) for category in Category]
    message = F.col("due_ms").isNotNull()
    absent = message & F.col("done_ms").isNull()
    return findings.groupBy("topic", "window_ms").agg(
        *categories,
        F.count_if((absent & (F.col("category") == Category.MISSING.value)) | (F.col("surplus") < 0)).alias(
            "unanswered"
        ),
        F.count_if(absent & (F.col("category") == Category.UNAUDITABLE.value)).alias("unanswered_unauditable"),
        F.count_if(absent & (F.col("category") == SKIPPED)).alias("unanswered_skipped"),
        F.sum(F.greatest("surplus", F.lit(0))).alias("surplus"),
    )


def _or_zero(field: StructField) -> Column:
    """A window without findings has none of each category."""
    counted = isinstance(field.dataType, LongType) and not field.nullable
    return F.coalesce(field.name, F.lit(0).cast("long")) if counted else F.col(field.name)
