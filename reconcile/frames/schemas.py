"""What rows hold: those that readers give to the ledger, and those in which it records its findings. Every time is
epoch milliseconds UTC in a long: Spark's own timestamps follow the session's zone."""

from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from reconcile.logic.ledger import OUTCOMES, Category
from reconcile.logic.windows import COUNTS, UNANSWERED


def _schema(*fields: tuple[str, type[IntegerType] | type[LongType] | type[StringType], bool]) -> StructType:
    return StructType([StructField(name, kind(), nullable) for name, kind, nullable in fields])


ACCEPTED = _schema(
    ("topic", StringType, False),  # the target topic
    ("shard", IntegerType, False),
    ("offset", LongType, False),  # in the buffer topic
    ("kind", StringType, False),  # message, operation, control, decision, rules; skipped, of a range
    ("id", StringType, True),  # as outcome rows call it, with ~n for an occurrence; null where it is no message
    ("due_ms", LongType, True),  # null where it is no message
    ("accepted_ms", LongType, False),  # of the first acceptance
    ("appended_ms", LongType, False),  # of this record
    ("replaces_due_ms", LongType, True),  # of a re-append: the key of the record that it carries on
    ("replaces_offset", LongType, True),
    ("rules", StringType, True),  # of a rules record: the rules in force behind it, JSON
    ("asks", StringType, True),  # of an operation: the reason in its row if it is done, cancelled or rescheduled
    ("ref", StringType, True),  # whom it names: a message id, or an own id behind =
    ("expires_ms", LongType, True),  # of a message: the last moment at which it may be delivered
    ("moves_to_ms", LongType, True),  # of an operation: the due time that it asks for
    ("digest", LongType, True),  # of what the client has sent (`delayline.records.content`); null where nobody knows
)
"""One record of a buffer topic."""

DONE = _schema(
    ("topic", StringType, False),
    ("shard", IntegerType, False),
    ("offset", LongType, False),
    ("id", StringType, True),
    ("due_ms", LongType, True),
    ("accepted_ms", LongType, False),
    ("done_ms", LongType, False),
    ("outcome", StringType, False),
    ("successor", StringType, True),
    ("reason", StringType, True),
    ("epoch", IntegerType, False),
    ("audit_partition", IntegerType, False),
    ("audit_offset", LongType, False),
)
"""One outcome row of the audit topic."""

AUDIT_RECORDS = _schema(
    ("audit_partition", IntegerType, False),
    ("audit_offset", LongType, False),
    ("kind", StringType, False),  # outcomes, low_water, skipped; malformed, of what cannot be read
    ("topic", StringType, True),
    ("shard", IntegerType, True),
    ("at_ms", LongType, True),
    ("rows", LongType, True),  # outcome rows in it; null of what is malformed, and may have some
    ("next", LongType, True),
    ("low_ms", LongType, True),
    ("pending", LongType, True),  # null: a writer that did not record it
    ("first", LongType, True),
    ("value", StringType, True),  # of what is malformed: its beginning
    ("why", StringType, True),
)
"""One record of the audit topic, but for the rows in it.

`low_water`: every record of the shard with an offset below `next` and a due time before `low_ms` is terminal;
`pending` counts those below `next` that are not. A mark that lacks its numbers is malformed, and has -1 for them.
`skipped`: offsets `[first, next)` that an operator has had passed over; `first` is null for what was given up at a
takeover, all below `next`."""

MALFORMED = _schema(
    ("audit_partition", IntegerType, False),
    ("audit_offset", LongType, False),
    ("value", StringType, True),  # its beginning
    ("why", StringType, False),
)
"""An audit record that cannot be read: counted and kept aside."""

DELIVERED = _schema(
    ("topic", StringType, False),
    ("partition", IntegerType, False),
    ("offset", LongType, False),  # in the target topic
    ("id", StringType, False),  # delayline-id
    ("due_ms", LongType, True),  # delayline-due; null where that cannot be read
    ("delivered_ms", LongType, False),  # the record's timestamp
    ("digest", LongType, True),  # of what was delivered, as that of an accepted record; null where nobody knows
)
"""One record of a target topic with a `delayline-id`, for `--against targets`."""

FINDINGS = _schema(
    ("run", IntegerType, False),
    ("topic", StringType, False),
    ("window_ms", LongType, False),
    ("category", StringType, False),
    ("id", StringType, True),
    ("shard", IntegerType, False),
    ("offset", LongType, False),
    ("due_ms", LongType, True),
    ("accepted_ms", LongType, True),
    ("done_ms", LongType, True),
    ("lateness_ms", LongType, True),
    ("surplus", LongType, False),
    ("detail", StringType, True),
)
"""What is wrong with one record, or with one link between records; `shard` and `offset` are its place in the buffer.
A missing record has no `done_ms`. A missing successor, or what was re-appended although it had ended, has that of the
record that it was to carry on, whose place and due time the finding gives. `accepted_ms` is null where a cell alone
has named the record, `id` and `due_ms` where it is no message. `surplus`: ends of messages beyond the one of an
accepted message; -1 where that has only an outcome of an instruction."""

WINDOWS = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("window_ms", LongType(), False),
        StructField("version", IntegerType(), False),
        StructField("run", IntegerType(), False),
        *(StructField(name, LongType(), False) for name in (*COUNTS, *OUTCOMES)),
        StructField("lateness", ArrayType(LongType(), True), False),
        StructField("late_max_ms", LongType(), True),
        StructField("cells", LongType(), False),
        StructField("dirty_cells", LongType(), False),
        *(StructField(str(name), LongType(), False) for name in (*Category, *UNANSWERED)),
    ]
)
"""One judgement of one window; a later version replaces it. Counts as in `windows.Tally`, of all runs; outcomes count
rows; categories count findings; `lateness[i]` is bin i. `unanswered` counts the messages without an end that
are `missing` or have an instruction's outcome, `unanswered_unauditable` those that are not, `unanswered_skipped`
those that an operator has had skipped, and `surplus` ends of messages beyond one each, so that
accepted - others + surplus = the outcomes of messages + unanswered + unanswered_unauditable + unanswered_skipped."""
