"""What operations did: the row of an operation, and the row of the record that it ended, stand in one commit.

Neither is said of the same record, so that no cell could hold both against each other. Commits can: what they say of
operations is counted, commit by commit, by who asked and what ended.

    an operation that cancelled or moved a message, and no row of its commit     confirmed_in_vain
    a message that was cancelled or moved, and no operation of its commit        unasked
    a message that was purged, and no purge behind it                            unasked
    an operation whose row says that it did what its record does not ask for     wrong_outcome

An operation names its message by its id, and then it must be that one; or by the sender's own id, which only the
message's shard knows: of those, the numbers must agree.

Only what is `ready` is judged. The rest waits for the next run.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

from delayline.buffer_facts import OPERATION, OWN_ID
from delayline.outcome import CANCELLED, PURGED, RESCHEDULED, Outcome
from reconcile.cells import first_id, moment_ms, window_ms
from reconcile.findings import testimony
from reconcile.judge import FINDINGS
from reconcile.ledger import Category
from reconcile.schemas import ACCEPTED, DONE
from reconcile.small import small

ACTS = StructType(
    [
        *DONE.fields,
        StructField("act", StringType(), False),
        StructField("is_operation", BooleanType(), False),
        StructField("bound", LongType(), False),
        StructField("is_read", BooleanType(), False),
        StructField("is_untold", BooleanType(), False),
    ]
)
"""An outcome row that is one side of an act, `is_operation` which one. `bound`: the end of its shard's buffer when
the row was read; whatever has asked for it stands below. `is_read`: whether its record is one that runs read.
`is_untold`: records of the audit could not be read where the other side may stand."""

_OF_OPERATION = ("topic", "shard", "offset", "asks", "ref", "moves_to_ms")
ASKED = StructType([field for field in ACCEPTED if field.name in _OF_OPERATION])
"""An operation's record."""

MOVED = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("shard", IntegerType(), False),
        StructField("offset", LongType(), False),
        StructField("due_ms", LongType(), False),
        StructField("moves_to_ms", LongType(), False),
    ]
)
"""A record whose message an operation has moved, and when that was due from then on."""

_COMMIT = ("topic", "shard", "epoch", "done_ms", "act")
_ROW = ("offset", "id")


class Told(NamedTuple):
    """What is known of a shard's rows: all that was committed with those before this offset of the audit has been
    read, and of all records below `next` the outcome. `skipped_at`: where in the audit its last skip stands, or
    -1."""

    topic: str
    shard: int
    below: int
    next: int
    skipped_at: int


class Paired(NamedTuple):
    """`found`: by `judge.FINDINGS`; `waiting`: by `ACTS`, for the next run; `moved`: by `MOVED`."""

    found: DataFrame
    waiting: DataFrame
    moved: DataFrame


def acts(done: DataFrame) -> DataFrame:
    """Those among rows by `schemas.DONE` (and more), with `act` and `is_operation`."""
    reason = F.col("reason")
    is_operation = F.col("id").isNull() & (F.col("outcome") == Outcome.APPLIED.value)
    tied = F.coalesce(reason.isin(CANCELLED, RESCHEDULED, PURGED), F.lit(False))
    is_moved = (F.col("outcome") == Outcome.SUPERSEDED.value) & reason.eqNullSafe(F.lit(RESCHEDULED))
    is_ended = F.col("id").isNotNull() & ((F.col("outcome") == Outcome.CANCELLED.value) | is_moved)
    act = F.when(tied, reason).otherwise(CANCELLED)
    found = done.where((is_operation & tied) | is_ended)
    return found.withColumns({"act": act, "is_operation": is_operation})


def operations(accepted: DataFrame) -> DataFrame:
    """Those among rows by `schemas.ACCEPTED`, by `ASKED` and with when they were accepted."""
    return accepted.where(F.col("kind") == OPERATION).select(*ASKED.fieldNames(), "accepted_ms")


def ready(acts: DataFrame, told: Sequence[Told]) -> DataFrame:
    """Rows by `ACTS` of shards that are read, with `is_ready` and `skipped_at`. A commit is ready when it has been
    read; what was purged, when whatever has asked for it has its outcome too."""
    table = small(acts.sparkSession, told, "topic string, shard int, below long, next long, skipped_at long")
    here = acts.join(F.broadcast(table), ["topic", "shard"])
    is_read, has_ended = F.col("audit_offset") < F.col("below"), F.col("bound") <= F.col("next")
    together = F.min(is_read).over(Window.partitionBy(*_COMMIT))
    return here.withColumn("is_ready", F.when(F.col("act") == PURGED, is_read & has_ended).otherwise(together))


def paired(ready: DataFrame, asked: DataFrame, run: int) -> Paired:
    """`ready`: by `ready`, worth keeping; `asked`: by `ASKED`, at least of the operations among those."""
    is_purge = F.col("act") == PURGED
    purged = _purged_by_nobody(ready.where(is_purge))
    known = ready.where(~is_purge & F.col("is_ready"))
    sides = _sides(known, asked)
    found = (_unpaired(sides), _unasked(purged.where("is_ready"), "no purge stands behind it"))
    waiting = ready.where(~is_purge & ~F.col("is_ready")).unionByName(purged.where(~F.col("is_ready")))
    whole = _finding(reduce(DataFrame.unionByName, found), run)
    return Paired(whole, waiting.select(*ACTS.fieldNames()), _moved(sides))


def _purged_by_nobody(rows: DataFrame) -> DataFrame:
    """Messages without a purge of their shard behind them, or in their commit. Where something was skipped since, it
    may have been the purge."""
    place = F.struct("audit_offset", "done_ms")
    purges = rows.where("is_operation").groupBy("topic", "shard").agg(F.max(place).alias("last"))
    ended = rows.where(~F.col("is_operation") & (F.col("audit_offset") >= F.col("skipped_at")))
    behind = ended.join(F.broadcast(purges), ["topic", "shard"], "left")
    return behind.where(F.col("last").isNull() | (F.col("last") < place)).drop("last")


class _Sides(NamedTuple):
    """`operations` with what their records say: `named` are those that name a message id, `others` all else. `names`:
    what has ended, once for each `ref` that can mean it; `loose`: what has ended and none of those names."""

    operations: DataFrame
    named: DataFrame
    others: DataFrame
    names: DataFrame
    loose: DataFrame


def _sides(rows: DataFrame, asked: DataFrame) -> _Sides:
    operations = rows.where("is_operation").join(asked, ["topic", "shard", "offset"], "left")
    ended = rows.where(~F.col("is_operation"))
    by_id = F.col("ref").isNotNull() & ~F.col("ref").startswith(OWN_ID)
    named, others = operations.where(by_id), operations.where(~by_id)
    names = ended.withColumn("ref", F.explode(F.array_distinct(F.array("id", first_id(F.col("id"))))))
    kept = names.join(named, [*_COMMIT, "ref"], "left_semi").select(*_COMMIT, *_ROW).distinct()
    return _Sides(operations, named, others, names, ended.join(kept, [*_COMMIT, *_ROW], "left_anti"))


def _moved(sides: _Sides) -> DataFrame:
    """Where who has moved it can be told."""
    known = (
        (sides.named.select(*_COMMIT, "ref", "moves_to_ms"), sides.names, [*_COMMIT, "ref"]),
        (_only(sides.others).select(*_COMMIT, "moves_to_ms"), _only(sides.loose), list(_COMMIT)),
    )
    moved = (ended.join(operations, by) for operations, ended, by in known)
    columns = MOVED.fieldNames()
    every = reduce(DataFrame.unionByName, (one.where("moves_to_ms is not null").select(*columns) for one in moved))
    return every.distinct()


def _only(rows: DataFrame) -> DataFrame:
    """Those that are the only ones of their commit."""
    counted = rows.withColumn("number", F.count("*").over(Window.partitionBy(*_COMMIT)))
    return counted.where("number = 1").drop("number")


def _unpaired(sides: _Sides) -> DataFrame:
    """What is said of one side only."""
    operations, named, others, names, loose = sides
    why_named = F.concat(F.lit("no row of this commit says so of "), F.col("ref"))
    why_other = F.concat(F.lit("too few rows of this commit say so; it names "), F.coalesce("ref", F.lit("?")))
    parts = (
        _in_vain(named.join(names, [*_COMMIT, "ref"], "left_anti"), F.col("ref"), why_named),
        _in_vain(_more(others, loose), F.lit(None), why_other),
        _unasked(_more(loose, others), "no operation of its commit asked for it"),
        _wrong(operations),
    )
    return reduce(DataFrame.unionByName, parts)


def _more(some: DataFrame, others: DataFrame) -> DataFrame:
    """Of the commits that have more of the first ones. Which of them are too many nobody knows, where there are any
    of the others."""
    count = others.groupBy(*_COMMIT).agg(F.count("*").alias("against"))
    counted = some.withColumn("number", F.count("*").over(Window.partitionBy(*_COMMIT)))
    more = counted.join(count, list(_COMMIT), "left").where(F.col("number") > F.coalesce("against", F.lit(0)))
    return more.drop("number", "against")


def _in_vain(operations: DataFrame, names: Column, why: Column) -> DataFrame:
    return _judged(operations, Category.CONFIRMED_IN_VAIN, names, why)


def _unasked(ended: DataFrame, why: str) -> DataFrame:
    return _judged(ended, Category.UNASKED, F.col("id"), F.lit(why))


def _wrong(operations: DataFrame) -> DataFrame:
    why = F.concat(F.lit("its record asks that a message be "), F.col("asks"))
    wrong = operations.where(F.col("asks").isNotNull() & (F.col("asks") != F.col("act")))
    return _judged(wrong, Category.WRONG_OUTCOME, F.lit(None), why)


def _judged(rows: DataFrame, category: Category, identity: Column, why: Column) -> DataFrame:
    said = F.when(F.col("is_untold"), Category.UNAUDITABLE.value).otherwise(category.value)
    detail = F.concat(testimony(), F.lit("; "), why)
    judged = rows.where("is_read").withColumns({"category": said, "detail": detail})
    return judged.withColumn("id", identity.cast("string")).select(
        "topic", "shard", "offset", "id", "due_ms", "accepted_ms", "done_ms", "category", "detail"
    )


def _finding(judged: DataFrame, run: int) -> DataFrame:
    whole = judged.withColumns(
        {
            "run": F.lit(run),
            "window_ms": window_ms(moment_ms()),
            "lateness_ms": F.lit(None).cast("long"),
            "surplus": F.lit(0).cast("long"),
        }
    )
    return whole.select(*FINDINGS.fieldNames())
