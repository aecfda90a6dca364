"""The id-level look-up: what is wrong in a dirty cell, record by record.

Reads staged rows of the dirty cells only. All that is said of one place in the buffer (`topic`, `shard`, `offset`,
moment) comes together in one group: who was accepted there, its outcome rows, and re-appends that carry it on.

    accepted, no row                            missing, or unauditable
    accepted, two rows or more                  duplicated, delivered_after_cancel, two_outcomes
    a row of which nothing accepted is known    orphan (also under another id or with another due time)
    a carried record and no re-append           missing: its successor, once the row is settled
    a carried record and two re-appends         duplicated
    a re-append of a record that had ended      delivered_after_cancel where it was cancelled, else two_outcomes
    a re-append of what nobody accepted         orphan
    a message's row in an instruction's words   wrong_outcome; and an instruction's in those of a message, or an
                                                operation's in those of another instruction
    a re-append under another id than announced wrong_successor

    expired without a deadline, or before it    wrongly_expired
    delivered behind its deadline               behind_deadline

What ends for another message (`replaced`, `duplicate`) is a case of its own: that one may be due at any time.

    the other message was never accepted        wrong_successor, once the row is settled
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delayline.outcome import LATE_MAX, MISSED
from reconcile.cells import (
    CELL,
    MESSAGE,
    carried,
    first_id,
    gives_way,
    has_deadlines,
    hour,
    in_cell,
    is_message,
    lateness_ms,
    moment_ms,
    outcome_class,
    record_class,
    successor,
)
from reconcile.judge import FINDINGS, decoded, dirty
from reconcile.ledger import NO_OUTCOME, NOT_RE_APPENDED, RULE_MIN_MS, SKIPPED, Category
from reconcile.small import small

_PLACE = ("topic", "window_ms", "shard", "offset", "moment_ms")
_ID = r"\.(\d{1,9})\.(\d{1,18})\.(\d{1,18})$"
AUDIT_OFFSET_MAX = (1 << 63) - 1


class Settled(NamedTuple):
    """Outcome rows of a shard that stand below this offset of the audit are settled: what was committed with them
    has been read. `AUDIT_OFFSET_MAX` where the shard is complete."""

    topic: str
    shard: int
    below: int


class Staged(NamedTuple):
    """All that was staged, by every run, of the windows to be judged: by `schemas.ACCEPTED`, `cells.LINKS` (of the
    windows of the records that are carried on) and `schemas.DONE`. `others`: by `schemas.ACCEPTED`, of the hours of
    the messages that `hours_named` names."""

    accepted: DataFrame
    links: DataFrame
    done: DataFrame
    others: DataFrame


class Rules(NamedTuple):
    """What a run judges by. Outcome rows of what was appended before `untold_until_ms` may have been deleted: it may
    have been cancelled then, however late it is due. A shard that is not among the `settled` has no settled rows.
    `unread`: what was accepted there nobody knows."""

    run: int
    late_after_ms: int
    settled: Sequence[Settled]
    untold_until_ms: int = 0
    skips: "Sequence[Skipped]" = ()
    unread: "Sequence[Unread]" = ()


class Unread(NamedTuple):
    """Offsets `[first, end)` that no run has read."""

    topic: str
    shard: int
    first: int
    end: int


class Skipped(NamedTuple):
    """Offsets `[first, end)` that an operator has had passed over. A place in the log is a record of its own, due
    `at_ms`, at `first`."""

    topic: str
    shard: int
    first: int
    end: int
    at_ms: int | None
    audit_offset: int


def verdicts(summed: DataFrame, staged: Staged, rules: Rules) -> DataFrame:
    """What is wrong in the windows of these cells, by `judge.FINDINGS`, and `settled`: false where it is a missing
    successor that may stand in what has not been read yet. `summed` and the result are worth keeping: each is read
    more than once."""
    unclean = dirty(summed, rules.untold_until_ms)
    named = decoded(unclean, rules.run).withColumn("settled", F.lit(True))
    looked_up = _looked_up(unclean.where(~F.col("named")), staged, rules)
    untimely = _untimely(summed, staged.done, rules).withColumn("settled", F.lit(True))
    mortal = _of_deadlines(summed, staged, rules).withColumn("settled", F.lit(True))
    every = reduce(DataFrame.unionByName, (named, looked_up, untimely, mortal, _unaccepted(summed, staged, rules)))
    if not rules.skips:
        return every
    excused = every.withColumn("category", _excused(rules.skips))
    return excused.unionByName(_ended_after_skip(summed, staged.done, rules).withColumn("settled", F.lit(True)))


def findings(verdicts: DataFrame) -> DataFrame:
    """By `judge.FINDINGS`."""
    return verdicts.where("settled").drop("settled")


def unsettled(verdicts: DataFrame) -> DataFrame:
    """The windows (`topic`, `window_ms`) that are to be judged again."""
    return verdicts.where(~F.col("settled")).select("topic", "window_ms").distinct()


# --- what ended for another message


def hours_named(summed: DataFrame, done: DataFrame) -> list[int]:
    """The hours in which those messages are due for which others have ended."""
    rows = _given_way(summed, done).where("named_ms is not null")
    found = rows.select(hour(F.col("named_ms")).alias("hour")).distinct().collect()
    return sorted(row["hour"] for row in found)


def _given_way(summed: DataFrame, done: DataFrame) -> DataFrame:
    """Outcome rows, with the place that the other message's id names; null where it is none."""
    rows = _of_cells(done.where(gives_way()), moment_ms(), summed.where("given_way > 0"))
    shard, offset, due_ms = (F.try_to_number(_part(i), F.lit("9" * 18)).cast("long") for i in (1, 2, 3))
    return rows.withColumns({"named_shard": shard.cast("int"), "named_offset": offset, "named_ms": due_ms})


def _part(of_id: int) -> Column:
    return F.regexp_extract(F.coalesce("successor", F.lit("")), _ID, of_id)


def _unaccepted(summed: DataFrame, staged: Staged, rules: Rules) -> DataFrame:
    """Rows that say that their message has ended for one that nobody accepted."""
    rows = _given_way(summed, staged.done).withColumn("lateness_ms", lateness_ms())
    names = ("topic", "named_shard", "named_offset", "successor")
    known = staged.others.where(is_message()).select(
        "topic",
        F.col("shard").alias("named_shard"),
        F.col("offset").alias("named_offset"),
        first_id(F.col("id")).alias("successor"),
    )
    unread = small(rows.sparkSession, rules.unread, "of_topic string, of_shard int, first long, end long")
    here = (F.col("topic") == F.col("of_topic")) & (F.col("named_shard") == F.col("of_shard"))
    is_unread = here & (F.col("named_offset") >= F.col("first")) & (F.col("named_offset") < F.col("end"))
    missing = rows.join(known, list(names), "left_anti").join(F.broadcast(unread), is_unread, "left_anti")
    told = _bounded(missing, rules.settled).withColumns(
        {
            "category": F.lit(Category.WRONG_SUCCESSOR.value),
            "surplus": F.lit(0).cast("long"),
            "detail": F.concat(
                testimony(), F.lit("; nobody accepted "), F.coalesce("successor", F.lit("what has no name"))
            ),
            "run": F.lit(rules.run),
        }
    )
    return told.select(*FINDINGS.fieldNames(), "settled")


# --- what an operator has had skipped


def _excused(skips: Sequence[Skipped]) -> Column:
    """Who waited in a skipped range has ended by that, and who had ended before it need not be readable any more.
    A place is a record itself, and ends by its own row."""
    absent = (F.col("category") == Category.MISSING.value) & F.col("done_ms").isNull()
    here = reduce(or_, (_is_in(skip) & ~_is_itself(skip) for skip in skips))
    places = reduce(or_, map(_is_in, skips))
    strange = F.col("category") == Category.ORPHAN.value
    return F.when((absent & here) | (strange & places), SKIPPED).otherwise(F.col("category"))


def _is_in(skip: Skipped) -> Column:
    here = (F.col("topic") == skip.topic) & (F.col("shard") == skip.shard)
    return here & (F.col("offset") >= skip.first) & (F.col("offset") < skip.end)


def _is_itself(skip: Skipped) -> Column:
    return (
        F.lit(skip.at_ms is not None)
        & (F.col("offset") == skip.first)
        & F.col("due_ms").eqNullSafe(F.lit(skip.at_ms))
    )


def _ended_after_skip(summed: DataFrame, done: DataFrame, rules: Rules) -> DataFrame:
    """Outcome rows of what had been skipped: in the audit they stand behind it."""
    rows = _of_cells(done, moment_ms(), summed).withColumn("lateness_ms", lateness_ms())
    behind = (_is_in(skip) & (F.col("audit_offset") > skip.audit_offset) for skip in rules.skips)
    category, none = F.lit(Category.ENDED_AFTER_SKIP.value), F.lit(0).cast("long")
    found = rows.where(reduce(or_, behind) & (F.col("outcome") != SKIPPED))
    return _finding(found.withColumns({"category": category, "surplus": none, "detail": testimony()}), rules.run)


# --- early and late: from the outcome row alone


def _untimely(summed: DataFrame, done: DataFrame, rules: Rules) -> DataFrame:
    some = summed.where(F.col("early") + F.col("late") > 0)
    rows = _of_cells(done, moment_ms(), some).withColumn("lateness_ms", lateness_ms())
    is_early, is_late = F.col("lateness_ms") < 0, F.col("lateness_ms") > rules.late_after_ms
    category = F.when(is_early, Category.EARLY.value).when(is_late, Category.LATE.value)
    judged = rows.withColumns({"category": category, "surplus": F.lit(0).cast("long"), "detail": testimony()})
    return _finding(judged.where(is_early | is_late), rules.run)


# --- deadlines: from the outcome row and the record


def _of_deadlines(summed: DataFrame, staged: Staged, rules: Rules) -> DataFrame:
    """What has expired and should not have, and what was delivered and should have expired. The time of an outcome
    row is the one by which its owner has judged the deadline: they can be compared to the millisecond."""
    some = summed.where(has_deadlines())
    place = ("topic", "shard", "offset", "id")
    records = _of_cells(staged.accepted.where(is_message()), moment_ms(), some).select(*place, "expires_ms")
    rows = _of_cells(staged.done.where(F.col("outcome").isin("expired", "delivered")), moment_ms(), some)
    known = rows.withColumn("lateness_ms", lateness_ms()).join(records, list(place))
    deadline = F.concat(F.lit("; its deadline is "), F.coalesce(F.col("expires_ms").cast("string"), F.lit("none")))
    judged = known.withColumns(
        {
            "category": F.when(_is_wrongly_expired(), Category.WRONGLY_EXPIRED.value).when(
                _is_behind(), Category.BEHIND_DEADLINE.value
            ),
            "surplus": F.lit(0).cast("long"),
            "detail": F.concat(testimony(), deadline),
        }
    )
    return _finding(judged.where(F.col("category").isNotNull()), rules.run)


def _is_wrongly_expired() -> Column:
    done, reason = F.col("done_ms"), F.col("reason")
    by_rule = F.when(reason.eqNullSafe(F.lit(LATE_MAX)), done - F.col("due_ms") <= RULE_MIN_MS)
    by_series = by_rule.when(reason.eqNullSafe(F.lit(MISSED)), ~_is_occurrence())
    wrongly = by_series.otherwise(F.col("expires_ms").isNull() | (done <= F.col("expires_ms")))
    return (F.col("outcome") == "expired") & wrongly


def _is_behind() -> Column:
    """An occurrence may have been delivered for a later time than that of its record."""
    is_behind = F.coalesce(F.col("done_ms") > F.col("expires_ms"), F.lit(False))
    return (F.col("outcome") == "delivered") & is_behind & ~_is_occurrence()


def _is_occurrence() -> Column:
    return F.col("id").contains("~")


def _finding(judged: DataFrame, run: int) -> DataFrame:
    return judged.withColumn("run", F.lit(run)).select(*FINDINGS.fieldNames())


# --- the look-up


def _looked_up(cells: DataFrame, staged: Staged, rules: Rules) -> DataFrame:
    told = _told(cells, staged, rules.settled)
    verdicts = F.concat(F.array(_of_record(rules.untold_until_ms), _of_link()), _orphans())
    judged = told.withColumn("verdict", F.explode(F.array_compact(verdicts)))
    whole = judged.select(*_PLACE, "due_ms", "accepted_ms", "verdict.*").withColumn("run", F.lit(rules.run))
    return whole.select(*FINDINGS.fieldNames(), "settled")


def _told(cells: DataFrame, staged: Staged, settled: Sequence[Settled]) -> DataFrame:
    """One row per place: its record, that one's rows (`own`), those of others (`strange`), and re-appends."""
    accepted = _of_cells(staged.accepted, moment_ms(), cells)
    said = (
        accepted.select(*_PLACE, "id", "due_ms", "accepted_ms", "appended_ms", record_class().alias("record")),
        _of_cells(staged.links, F.col("due_ms"), cells).select(*_PLACE, "due_ms", "by_offset", "by_id"),
        _rows(_of_cells(staged.done, moment_ms(), cells), settled),
    )
    places = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), said)
    grouped = places.groupBy(*_PLACE).agg(
        F.count("record").alias("records"),
        F.coalesce(F.max("record"), F.lit(MESSAGE)).alias("of"),
        F.max("id").alias("id"),
        F.max("by_id").alias("by_id"),
        F.max("due_ms").alias("due_ms"),
        F.max("accepted_ms").alias("accepted_ms"),
        F.max("appended_ms").alias("appended_ms"),
        F.array_sort(F.collect_list("row")).alias("rows"),
        F.array_sort(F.collect_list("by_offset")).alias("links"),
    )
    own = F.filter("rows", lambda row: (F.col("records") > 0) & row["id"].eqNullSafe(F.col("id")))
    strange = F.filter("rows", lambda row: (F.col("records") == 0) | ~row["id"].eqNullSafe(F.col("id")))
    return grouped.withColumns({"own": own, "strange": strange})


def _of_cells(rows: DataFrame, moment: Column, cells: DataFrame) -> DataFrame:
    return in_cell(rows, moment).join(F.broadcast(cells.select(*CELL)), list(CELL), "left_semi")


def _rows(done: DataFrame, settled: Sequence[Settled]) -> DataFrame:
    row = F.struct(
        "done_ms",
        "audit_offset",
        "outcome",
        "id",
        successor().alias("successor"),
        carried().alias("carried"),
        outcome_class().alias("of"),
        lateness_ms().alias("lateness_ms"),
        testimony().alias("said"),
        "settled",
    )
    return _bounded(done, settled).select(*_PLACE, "due_ms", "accepted_ms", row.alias("row"))


def _bounded(done: DataFrame, settled: Sequence[Settled]) -> DataFrame:
    """With `settled`: whether what was committed with the row has been read."""
    bounds = small(done.sparkSession, settled, "topic string, shard int, below long")
    bounded = done.join(F.broadcast(bounds), ["topic", "shard"], "left")
    return bounded.withColumn("settled", F.coalesce(F.col("audit_offset") < F.col("below"), F.lit(False)))


def testimony() -> Column:
    """What an outcome row says, and where it stands."""
    place = F.concat(F.lit(", audit "), F.col("audit_partition"), F.lit("/"), F.col("audit_offset"))
    reason = F.concat(F.lit(" ("), F.col("reason"), F.lit(")"))
    said = (F.col("outcome"), reason, F.lit(" at "), F.col("done_ms"), place)
    return F.concat(*(F.coalesce(part, F.lit("")) for part in said))


# --- verdicts on one place


def _verdict(category: Column, identity: Column, rows: Column, detail: Column, **more: Column) -> Column:
    """A finding's own columns; of several rows, when the last was done."""
    surplus = more.get("surplus", F.lit(0))
    return F.struct(
        category.alias("category"),
        identity.alias("id"),
        F.array_max(rows["done_ms"]).alias("done_ms"),
        F.array_max(rows["lateness_ms"]).alias("lateness_ms"),
        surplus.cast("long").alias("surplus"),
        detail.alias("detail"),
        more.get("settled", F.lit(True)).alias("settled"),
    )


def _of_record(untold_until_ms: int) -> Column:
    own = F.col("own")
    untold = F.col("appended_ms") < untold_until_ms
    absence = F.when(untold, Category.UNAUDITABLE.value).otherwise(Category.MISSING.value)
    missing = _verdict(absence, F.col("id"), own, _no_outcome())
    surplus = _ends(own) - (F.col("of") == MESSAGE).cast("int")
    several = _verdict(_of_several(), F.col("id"), own, _all_said(own), surplus=surplus)
    strange = _verdict(F.lit(Category.WRONG_OUTCOME.value), F.col("id"), own, _all_said(own), surplus=surplus)
    exists, is_strange = F.col("records") > 0, F.exists(own, lambda row: row["of"] != F.col("of"))
    found = F.when(exists & (F.size(own) == 0), missing).when(exists & (F.size(own) > 1), several)
    return found.when(exists & is_strange, strange)


def _ends(rows: Column) -> Column:
    """How many say that a message has ended."""
    return F.size(F.filter(rows, lambda row: row["of"] == MESSAGE))


def _no_outcome() -> Column:
    """A message whose record has no row may go on all the same: whoever sends it again should know."""
    goes_on = F.concat(F.lit(f"{NO_OUTCOME}; re-appended at offset "), F.concat_ws(", ", "links"))
    return F.when(F.size("links") > 0, goes_on).otherwise(NO_OUTCOME)


def _of_several() -> Column:
    """The category of a record with two outcome rows or more."""
    delivered = F.filter("own", lambda row: row["outcome"] == "delivered")
    cancelled = F.filter("own", lambda row: row["outcome"] == "cancelled")
    after = F.array_max(_moments(delivered)) > F.array_min(_moments(cancelled))
    return (
        F.when(F.size(delivered) == F.size("own"), Category.DUPLICATED.value)
        .when(after, Category.DELIVERED_AFTER_CANCEL.value)
        .otherwise(Category.TWO_OUTCOMES.value)
    )


def _moments(rows: Column) -> Column:
    return F.transform(rows, lambda row: F.struct(row["done_ms"], row["audit_offset"]))


def _of_link() -> Column:
    """What is wrong between a record and what carries it on; null where the record's own verdict says it all."""
    rows, again = F.col("rows"), F.size("links")
    carrying = F.filter(rows, lambda row: row["carried"])
    ended = (F.size(rows) > 0) & (F.size(carrying) == 0)
    cancelled = F.exists(rows, lambda row: row["outcome"] == "cancelled")
    unknown = (F.col("records") == 0) & (F.size(rows) == 0)
    return (
        F.when((F.size(carrying) > 0) & (again == 0), _lost(carrying))
        .when(ended & cancelled & (again > 0), _re_appended(Category.DELIVERED_AFTER_CANCEL))
        .when(ended & (again > 0), _re_appended(Category.TWO_OUTCOMES))
        .when(unknown, _re_appended(Category.ORPHAN))
        .when(again > 1, _re_appended(Category.DUPLICATED))
        .when(
            (F.size(carrying) > 0) & _is_misnamed(F.get(carrying, F.lit(0))), _re_appended(Category.WRONG_SUCCESSOR)
        )
    )


def _is_misnamed(row: Column) -> Column:
    """Whether the re-append is called otherwise than the row says, or is of another message."""
    by = F.col("by_id")
    return ~(by.eqNullSafe(row["successor"]) & first_id(by).eqNullSafe(first_id(row["id"])))


def _lost(carrying: Column) -> Column:
    detail = F.concat(_all_said(carrying), F.lit(NOT_RE_APPENDED))
    settled = F.forall(carrying, lambda row: row["settled"])
    missing = F.lit(Category.MISSING.value)
    return _verdict(missing, F.get(carrying, F.lit(0))["successor"], carrying, detail, settled=settled)


def _re_appended(category: Category) -> Column:
    rows = F.col("rows")
    identity = F.coalesce(F.col("id"), F.get(rows, F.lit(0))["id"], F.col("by_id"))
    again = F.concat(F.lit("re-appended at offset "), F.concat_ws(", ", "links"))
    if category is Category.WRONG_SUCCESSOR:
        again = F.concat(again, F.lit(" as "), F.coalesce("by_id", F.lit("no message")))
    return _verdict(F.lit(category.value), identity, rows, F.concat_ws("; ", rows["said"], again))


def _orphans() -> Column:
    """One for each id under which rows speak of what nobody accepted."""
    strange = F.col("strange")
    identities = F.array_distinct(F.transform(strange, lambda row: row["id"]))

    def orphan(identity: Column) -> Column:
        rows = F.filter(strange, lambda row: row["id"].eqNullSafe(identity))
        return _verdict(F.lit(Category.ORPHAN.value), identity, rows, _all_said(rows), surplus=_ends(rows))

    return F.transform(identities, orphan)


def _all_said(rows: Column) -> Column:
    return F.concat_ws("; ", rows["said"])
