"""What the rows hold that readers give to the ledger. Every time is epoch milliseconds UTC in a long: Spark's own
timestamps follow the session's zone."""

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType


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
    ("asks", StringType, True),  # of an operation: what its row says if it is done, cancelled or rescheduled
    ("ref", StringType, True),  # whom it names: a message id, or an own id behind =
    ("expires_ms", LongType, True),  # of a message: the last moment at which it may be delivered
    ("moves_to_ms", LongType, True),  # of an operation: the due time that it asks for
    ("digest", LongType, True),  # of what the client has sent (`delayline.content`); null where nobody knows
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

MARKS = _schema(
    ("topic", StringType, False),
    ("shard", IntegerType, False),
    ("at_ms", LongType, False),
    ("next", LongType, False),
    ("low_ms", LongType, False),
    ("pending", LongType, True),  # null: a writer that did not say
    ("audit_partition", IntegerType, False),
    ("audit_offset", LongType, False),
)
"""One low-water row: every record of the shard with an offset below `next` and a due time before `low_ms` is
terminal; `pending` counts those below `next` that are not."""

SKIPS = _schema(
    ("topic", StringType, False),
    ("shard", IntegerType, False),
    ("first", LongType, True),  # null: what was given up at a takeover, all below `end`
    ("end", LongType, False),
    ("at_ms", LongType, False),
    ("audit_partition", IntegerType, False),
    ("audit_offset", LongType, False),
)
"""Offsets `[first, end)` that an operator has had passed over."""

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
