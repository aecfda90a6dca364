"""Against the target topics themselves: an audit that does not trust the rows about deliveries.

What is in a topic with a `delayline-id` is compared, id by id, with what the buffer has accepted and what the
audit has of it. It is an id join over what is compared, several times dearer than cells: for an hour or a day.

    twice or more in the topic                                 duplicated
    in the topic, and the audit has it cancelled               delivered_after_cancel
    in the topic, and the audit has it ended in another way    two_outcomes
    in the topic, and it was never accepted                    orphan
    not in the topic, and the audit has it delivered            missing
    not in the topic, and the audit has nothing of it           missing
    another key, value, header or due time than was accepted   altered
    in another partition than it was accepted for              misplaced
    stamped before it was due, or later than tolerated         early, late
    stamped behind its deadline by more than a commit takes    behind_deadline

What was accepted is known by the record's digest (`delayline.records.content`), made where the buffer was read: where
that is not known, of a record that was gone before any run, content is not compared. A repeat's due time is that of
its tick, which may be after the one that its record waited for, never before.
A message whose last known record was superseded goes on outside of the windows that are compared: that is no finding.
What a consumer group got again (`retry`) is in the group's topic.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from reconcile.frames.numbers import name_of, number_of
from reconcile.frames.schemas import FINDINGS
from reconcile.logic.ledger import Category
from reconcile.logic.partitions import NUMBERS, Partitions
from reconcile.spark.cells import moment_ms, window_ms

RETRY = "retry"
COMMITTED_WITHIN_MS = 10_000
"""A deadline is judged when a delivery begins, and the record is stamped when it is written: within the timeout of
its transaction."""
_ID = ("topic", "id")


def verdicts(
    accepted: DataFrame,
    done: DataFrame,
    delivered: DataFrame,
    run: int,
    late_after_ms: int | None,
    partitions: Partitions = NUMBERS,
) -> DataFrame:
    """What is wrong with the messages of these rows by `schemas.ACCEPTED`, `DONE` and `DELIVERED`, by
    `judge.FINDINGS`. Of `accepted` and `done` all rows of the windows compared; of `delivered` at least what was
    delivered of them. Rows of `delivered` that neither of the others knows are orphans: the caller looks for them in
    other windows. `late_after_ms` is None where the topics' times do not show when a record was delivered."""
    by_id = _by_id(accepted, done, delivered).withColumn("where", _where(partitions))
    found = by_id.withColumn("verdict", F.explode(F.array_compact(F.array(*_verdicts(late_after_ms)))))
    return _finding(found, run, partitions)


def _by_id(accepted: DataFrame, done: DataFrame, delivered: DataFrame) -> DataFrame:
    """One row per id: where its last record lies, which ends the audit has of it, and its copies in the topic."""
    records = (
        accepted.where("kind = 'message'")
        .groupBy(*_ID)
        .agg(
            F.max(F.struct("offset", "shard", "due_ms", "accepted_ms")).alias("record"),
            F.max_by("expires_ms", "offset").alias("expires_ms"),
            F.max("digest").alias("digest"),
        )
    )
    ends = (
        done.where("id is not null and outcome <> 'superseded'")
        .groupBy(*_ID)
        .agg(
            F.array_sort(F.collect_list(F.struct("done_ms", "outcome", "reason"))).alias("ends"),
            F.max(F.struct("offset", "shard", "due_ms", "accepted_ms")).alias("ended"),
        )
    )
    moved = done.where("outcome = 'superseded'").groupBy(*_ID).agg(F.lit(True).alias("moved"))
    copies = delivered.groupBy(*_ID).agg(
        F.array_sort(F.collect_set(F.struct("delivered_ms", "partition", "offset", "due_ms", "digest"))).alias(
            "copies"
        )
    )
    joined = records.join(ends, list(_ID), "full").join(moved, list(_ID), "full").join(copies, list(_ID), "full")
    nothing = {name: F.coalesce(name, F.array().cast(joined.schema[name].dataType)) for name in ("ends", "copies")}
    return joined.withColumns({**nothing, "moved": F.coalesce("moved", F.lit(False))})


# --- verdicts on one id


def _verdicts(late_after_ms: int | None) -> tuple[Column, ...]:
    return _verdict(), _altered(), _misplaced(), _untimely(late_after_ms), _behind_deadline(late_after_ms)


def _verdict() -> Column:
    ends, copies = F.col("ends"), F.size("copies")
    is_delivered = F.exists(ends, _is_delivery)
    elsewhere = F.exists(ends, lambda end: (end["outcome"] == "delivered") & ~_is_delivery(end))
    cancelled = F.exists(ends, lambda end: end["outcome"] == "cancelled")
    never_accepted = F.col("record").isNull() & F.col("ended").isNull() & ~F.col("moved")
    silent = (F.size(ends) == 0) & ~F.col("moved")
    return (
        F.when(never_accepted, _verdict_of(Category.ORPHAN, F.col("where")))
        .when(copies > 1, _verdict_of(Category.DUPLICATED, F.col("where")))
        .when(
            (copies == 0) & is_delivered,
            _verdict_of(Category.MISSING, F.lit("the audit has it as delivered; it is not in the topic")),
        )
        .when((copies == 0) & silent, _verdict_of(Category.MISSING, F.lit("no outcome, and not in the topic")))
        .when(
            (copies > 0) & cancelled & ~is_delivered,
            _verdict_of(Category.DELIVERED_AFTER_CANCEL, _against_the_audit()),
        )
        .when(
            (copies > 0) & (F.size(ends) > 0) & ~is_delivered & ~elsewhere,
            _verdict_of(Category.TWO_OUTCOMES, _against_the_audit()),
        )
    )


def _is_delivery(end: Column) -> Column:
    return (end["outcome"] == "delivered") & ~end["reason"].eqNullSafe(RETRY)


def _altered() -> Column:
    def is_another(copy: Column) -> Column:
        return copy["digest"] != F.col("digest")

    def is_at_another_time(copy: Column) -> Column:
        due_ms, wanted = copy["due_ms"], _due_ms()
        other = F.when(_is_repeat(), due_ms < wanted).otherwise(due_ms != wanted)
        return wanted.isNotNull() & F.coalesce(other, F.lit(True))

    content = F.concat(F.lit("another key, value or header than was accepted; "), F.col("where"))
    moment = F.concat(F.lit("another due time than was accepted; "), F.col("where"))
    return F.when(F.exists("copies", is_another), _verdict_of(Category.ALTERED, content)).when(
        F.exists("copies", is_at_another_time), _verdict_of(Category.ALTERED, moment)
    )


def _misplaced() -> Column:
    shard = F.coalesce("record", "ended")["shard"]
    elsewhere = F.exists("copies", lambda copy: copy["partition"] != shard)
    return F.when(elsewhere, _verdict_of(Category.MISPLACED, F.col("where")))


def _untimely(late_after_ms: int | None) -> Column:
    lateness = _lateness_ms()
    if late_after_ms is None:
        return _nothing()
    known = F.col("record").isNotNull() | F.col("ended").isNotNull()
    early = F.when(known & (lateness < 0), _verdict_of(Category.EARLY, F.col("where")))
    return early.when(known & (lateness > late_after_ms), _verdict_of(Category.LATE, F.col("where")))


def _behind_deadline(late_after_ms: int | None) -> Column:
    """Of the record that was delivered, not of one that was moved. The deadline in an occurrence's record is not the
    one that it was delivered by."""
    if late_after_ms is None:
        return _nothing()
    first, record = F.get("copies", F.lit(0)), F.col("record")
    behind = (first["due_ms"] == record["due_ms"]) & (
        first["delivered_ms"] > F.col("expires_ms") + COMMITTED_WITHIN_MS
    )
    return F.when(behind & ~_is_repeat(), _verdict_of(Category.BEHIND_DEADLINE, F.col("where")))


def _nothing() -> Column:
    return F.lit(None).cast("struct<category:string,detail:string>")


def _lateness_ms() -> Column:
    """Of the first copy, by the time that it was to be delivered at, or from its acceptance on
    (`cells.lateness_ms`)."""
    first = F.get("copies", F.lit(0))
    due_ms = F.when(_is_repeat(), first["due_ms"]).otherwise(F.coalesce(_due_ms(), first["due_ms"]))
    early = first["delivered_ms"] - due_ms
    accepted_ms = F.coalesce("record", "ended")["accepted_ms"]
    late = F.greatest(F.lit(0).cast("long"), first["delivered_ms"] - F.greatest(due_ms, accepted_ms))
    return F.when(early < 0, early).when(early >= 0, late)


def _due_ms() -> Column:
    """Of the record that was delivered; null where that is not known: one that carries on what was moved may wait
    outside of the windows that are compared."""
    return F.coalesce(F.col("ended")["due_ms"], F.when(~F.col("moved"), F.col("record")["due_ms"]))


def _is_repeat() -> Column:
    return F.col("id").contains("~")


def _verdict_of(category: Category, detail: Column) -> Column:
    return F.struct(F.lit(category.value).alias("category"), detail.cast("string").alias("detail"))


def _where(partitions: Partitions) -> Column:
    def place(copy: Column) -> Column:
        return F.concat(name_of(copy["partition"], partitions), F.lit("/"), copy["offset"].cast("string"))

    return F.concat(F.lit("in the topic at "), F.concat_ws(", ", F.transform("copies", place)))


def _against_the_audit() -> Column:
    outcomes = F.concat_ws(", ", F.transform("ends", lambda end: end["outcome"]))
    return F.concat(F.lit("in the audit: "), outcomes, F.lit("; "), F.col("where"))


def _finding(found: DataFrame, run: int, partitions: Partitions) -> DataFrame:
    """An orphan's place is that of which its id speaks, as far as it can be read."""
    record = F.coalesce("record", "ended")
    parts = F.regexp_extract
    pattern = r"\.([^.]+)\.(\d{1,18})\.(\d{1,18})(~\d+)?$"
    shard = number_of(parts("id", pattern, 1), partitions)
    offset, due = (F.try_to_number(parts("id", pattern, i), F.lit("9" * 18)) for i in (2, 3))
    placed = found.withColumns(
        {
            "shard": F.coalesce(record["shard"], shard, F.lit(-1)),
            "offset": F.coalesce(record["offset"], offset.cast("long"), F.lit(-1).cast("long")),
            "due_ms": F.coalesce(record["due_ms"], F.get("copies", F.lit(0))["due_ms"], due.cast("long")),
            "accepted_ms": record["accepted_ms"],
            "done_ms": F.get("copies", F.lit(0))["delivered_ms"],
            "lateness_ms": _lateness_ms(),
        }
    )
    windowed = placed.withColumn("window_ms", F.coalesce(window_ms(moment_ms()), F.lit(0).cast("long")))
    whole = windowed.select("*", "verdict.*").withColumns(
        {"run": F.lit(run).cast("int"), "surplus": F.lit(0).cast("long")}
    )
    return whole.select(*FINDINGS.fieldNames())
