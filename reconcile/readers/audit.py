"""Audit records -> outcome rows, and what else they record, or that they cannot be read. Natively in Spark: a record
has up to a thousand rows as JSON columns, and none of them passes through Python. Page: docs/formats/audit.md.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from delayline.buffer.outcome import AUDIT_VERSION, LOW_WATER, OUTCOMES, SKIPPED, Outcome
from reconcile.frames.numbers import number_of
from reconcile.frames.schemas import AUDIT_RECORDS, DONE
from reconcile.logic import ledger
from reconcile.logic.partitions import NUMBERS, Partitions
from reconcile.readers.contract import Audit

SHOWN_CHARS = 1000
"""Of a record that cannot be read."""

_CORRUPT = "_corrupt"
_COLUMNS = {"off": LongType, "id": StringType, "due": LongType, "acc": LongType, "out": StringType}
_COLUMNS |= {"suc": StringType, "rsn": StringType}
_REQUIRED = ("off", "acc", "out")
_VALUE = StructType(
    [
        *(StructField(name, LongType()) for name in ("v", "at", "epoch", "next", "low", "pending", "first")),
        *(StructField(name, StringType()) for name in ("kind", "topic", "shard", _CORRUPT)),
        *(StructField(name, ArrayType(kind())) for name, kind in _COLUMNS.items()),
    ]
)
_NO_NUMBERS = "a mark lacks its numbers"
_NO_PARTITION = "its shard is no partition of Kafka"
_NO_BROKER = "its shard is no queue of a broker that this ledger knows"
_EPOCH_MAX = (1 << 31) - 1

MALFORMED = "malformed"
"""The kind of what cannot be read."""


def parse(raw: DataFrame, partitions: Partitions = NUMBERS) -> Audit:
    """Of records by `rows.RAW`; shards get the numbers that they have among `partitions`."""
    parsed = F.from_json(F.col("value").cast("string"), _VALUE, {"columnNameOfCorruptRecord": _CORRUPT})
    # Out of an array of one, so that Spark does not read the JSON once more wherever a filter asks about it.
    exploded = raw.withColumn("parsed", F.explode(F.array(parsed)))
    numbered = exploded.withColumn("number", number_of(F.col("parsed")["shard"], partitions))
    records = numbered.withColumn("why", _why(partitions))
    sound = records.where(F.col("why").isNull()).select("audit_partition", "audit_offset", "number", "parsed.*")
    return Audit(_typed(_readable_parts(records), AUDIT_RECORDS), _rows(sound.where(F.col("kind") == OUTCOMES)))


def _readable_parts(records: DataFrame) -> DataFrame:
    """Of a mark that lacks its numbers it is known that it is one: its shard is not judged by the rest of it. Of
    what cannot be read otherwise it may be known whose it is, and that it has no outcome rows: `rows` is 0."""
    parsed, none = F.col("parsed"), F.lit(-1).cast("long")
    is_broken, is_mark = F.col("why").isNotNull(), F.col("why").eqNullSafe(F.lit(_NO_NUMBERS))
    value = F.substring(F.col("value").cast("string"), 1, SHOWN_CHARS)
    is_known = F.coalesce(~_is_foreign(), F.lit(False))
    numbers = {"next": parsed["next"], "low_ms": parsed["low"], "pending": parsed["pending"]}
    return records.select(
        "audit_partition",
        "audit_offset",
        F.when(is_broken, MALFORMED).otherwise(parsed["kind"]).alias("kind"),
        F.when(is_known, parsed["topic"]).alias("topic"),
        F.when(~is_broken | is_mark, F.col("number")).alias("shard"),
        F.when(~is_broken | is_mark, parsed["at"]).alias("at_ms"),
        F.when(is_known & (parsed["kind"] != OUTCOMES), 0).when(~is_broken, F.size(parsed["off"])).alias("rows"),
        *(F.when(is_mark, none).when(~is_broken, number).alias(name) for name, number in numbers.items()),
        F.when(~is_broken, parsed["first"]).alias("first"),
        F.when(is_broken, value).alias("value"),
        "why",
    )


def _rows(outcomes: DataFrame) -> DataFrame:
    rows = F.inline(F.arrays_zip(*_COLUMNS))
    columns = ("topic", "number", "at", "epoch", "audit_partition", "audit_offset")
    names = {"number": "shard", "off": "offset", "due": "due_ms", "acc": "accepted_ms", "at": "done_ms"}
    names |= {"out": "outcome", "suc": "successor", "rsn": "reason"}
    named = outcomes.select(*columns, rows).withColumnsRenamed(names)
    is_skip = (F.col("outcome") == Outcome.DEAD) & F.col("reason").eqNullSafe(ledger.SKIPPED)
    outcome = F.when(is_skip, ledger.SKIPPED).otherwise(F.col("outcome"))
    return _typed(named.withColumn("outcome", outcome), DONE)


def _typed(rows: DataFrame, schema: StructType) -> DataFrame:
    """The schema's columns."""
    return rows.select(*(F.col(field.name).cast(field.dataType) for field in schema))


def _is_foreign() -> Column:
    """Whether the content of a record is unknown. A mark, or a skip, is one although its numbers are text: of JSON
    that does not fit Spark keeps the fields that do."""
    parsed = F.col("parsed")
    is_whole = F.col("value").isNotNull() & parsed.isNotNull() & parsed[_CORRUPT].isNull()
    is_known = parsed["kind"].isin(LOW_WATER, SKIPPED) | (is_whole & (parsed["kind"] == OUTCOMES))
    return ~F.coalesce(parsed["v"].eqNullSafe(F.lit(AUDIT_VERSION)) & is_known, F.lit(False))


def _why(partitions: Partitions) -> Column:
    """Why a record cannot be read: one sentence, null where it can."""
    parsed = F.col("parsed")
    is_mark, is_skip = parsed["kind"] == LOW_WATER, parsed["kind"] == SKIPPED
    has_rows = parsed["kind"] == OUTCOMES
    return (
        F.when(F.col("value").isNull(), "there is no value")
        .when(parsed[_CORRUPT].isNotNull() | parsed.isNull(), "it is not the JSON of an audit record")
        .when(~parsed["v"].eqNullSafe(F.lit(AUDIT_VERSION)), "it is of another version")
        .when(
            ~F.coalesce(parsed["kind"].isin(OUTCOMES, LOW_WATER, SKIPPED), F.lit(False)), "it is of an unknown kind"
        )
        .when(parsed["topic"].isNull() | parsed["at"].isNull(), "topic or time is missing")
        .when(~_fits(parsed["epoch"], _EPOCH_MAX), "its epoch is missing, or none")
        .when(F.col("number").isNull(), _NO_BROKER if partitions.brokers else _NO_PARTITION)
        .when(is_mark & (parsed["next"].isNull() | parsed["low"].isNull()), _NO_NUMBERS)
        .when(is_skip & ~_fits(F.coalesce(parsed["first"], F.lit(0)), parsed["next"]), "a skip lacks its offsets")
        .when(has_rows & _uneven(parsed), "its columns are not of one length")
        .when(has_rows & _holes(parsed), "a row lacks its offset, its times or its outcome")
        .when(has_rows & _unknown(parsed["out"]), "an outcome is unknown")
    )


def _fits(number: Column, most: Column | int) -> Column:
    return F.coalesce(number.between(0, most), F.lit(False))


def _uneven(parsed: Column) -> Column:
    """A column that is missing has no length."""
    rows = F.size(parsed["off"])
    same = [F.coalesce(F.size(parsed[name]) == rows, F.lit(False)) for name in _COLUMNS if name != "off"]
    return ~F.forall(F.array(*same), lambda one: one) | ~F.coalesce(rows > 0, F.lit(False))


def _holes(parsed: Column) -> Column:
    holes = [F.exists(parsed[name], lambda one: one.isNull()) for name in _REQUIRED]
    return F.exists(F.array(*holes), lambda one: one)


def _unknown(outcomes: Column) -> Column:
    return F.size(F.array_except(outcomes, F.array(*(F.lit(str(outcome)) for outcome in Outcome)))) > 0
