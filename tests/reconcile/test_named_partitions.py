"""Partitions that have names, of several brokers: their numbers in Spark, and the names of what is missing."""

from typing import TYPE_CHECKING, Any

import pytest

from reconcile.logic.partitions import NUMBERS, Partitions
from tests.reconcile.situations import LATE_AFTER_MS, T

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TWO = Partitions(("broker-b", "broker-a"))
NAMES = ["broker-b:0", "broker-a:1023", "broker-a:7", "broker-c:0", "broker-a:1024", "broker-a:07", "7", "x", ""]
NUMBERED = [0, 1023, 1031, 1024, 7, 1 << 18]


@pytest.mark.parametrize("partitions", [TWO, NUMBERS])
def test_columns_have_the_names_and_numbers_that_the_ledger_gives(
    spark: "SparkSession", partitions: Partitions
) -> None:
    from pyspark.sql import functions as F

    from reconcile.frames.local_frame import small
    from reconcile.frames.numbers import name_of, number_of

    names = small(spark, [(name,) for name in NAMES], "name string")
    numbers = small(spark, [(number,) for number in NUMBERED], "number int")
    found = [row[0] for row in names.select(number_of(F.col("name"), partitions)).collect()]
    called = [row[0] for row in numbers.select(name_of(F.col("number"), partitions)).collect()]
    assert found == [partitions.number(name) for name in NAMES]
    known = [number for number in NUMBERED if number < 2048 or not partitions.brokers]
    assert called == [partitions.name(number) if number in known else None for number in NUMBERED]


def test_a_cell_names_the_message_of_a_brokers_queue_that_it_lacks(spark: "SparkSession") -> None:
    from reconcile.frames.local_frame import small
    from reconcile.frames.schemas import ACCEPTED, DONE
    from reconcile.frames.tables import rows_of
    from reconcile.logic import suspects
    from reconcile.spark import cells

    shard, lost = 1031, f"orders.broker-a:7.5.{T}"
    known: dict[str, Any] = {"topic": "orders", "shard": shard, "offset": 5, "kind": "message", "id": lost}
    known |= dict.fromkeys(("due_ms", "accepted_ms", "appended_ms"), T)
    accepted = small(spark, [[known.get(name) for name in ACCEPTED.fieldNames()]], ACCEPTED)
    parts = cells.cells(accepted, None, small(spark, [], DONE), LATE_AFTER_MS)
    found = [suspects.Suspect(*row) for row in rows_of(cells.suspects(parts, False, TWO).toArrow())]
    (missing,) = suspects.named(found, TWO)
    assert (missing.id, missing.shard, missing.due_ms) == (lost, shard, T)
    (unnamed,) = [suspects.Suspect(*row) for row in rows_of(cells.suspects(parts).toArrow())]
    assert not unnamed.names_its_record, "its own id is not the one of a partition with a number"
