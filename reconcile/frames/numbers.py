"""Names and numbers of partitions (`logic.partitions`) as columns."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from reconcile.logic.partitions import NUMBER, QUEUE, QUEUE_BITS, QUEUES_MAX, Partitions


def name_of(number: Column, partitions: Partitions) -> Column:
    """`Partitions.name`; null for a number that no broker has."""
    if not partitions.brokers:
        return number.cast("int").cast("string")
    broker = F.get(_brokers(partitions), F.shiftright(number, QUEUE_BITS).cast("int"))
    queue = number.bitwiseAND(F.lit(QUEUES_MAX - 1)).cast("int").cast("string")
    return F.concat(broker, F.lit(":"), queue)


def number_of(name: Column, partitions: Partitions) -> Column:
    """`Partitions.number`; null for what is no partition here."""
    if not partitions.brokers:
        return F.when(name.rlike(NUMBER), name.try_cast("int"))
    broker = F.array_position(_brokers(partitions), F.regexp_extract(name, QUEUE, 1)).cast("int") - 1
    queue = F.regexp_extract(name, QUEUE, 2).try_cast("int")
    return F.when(broker >= 0, broker * QUEUES_MAX + queue)


def _brokers(partitions: Partitions) -> Column:
    return F.array(*map(F.lit, partitions.brokers))
