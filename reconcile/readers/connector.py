"""The ledger's reader of a Kafka through Spark's own connector: less CPU for small records, but jars and another
client with properties of its own. What it plans, checks and refuses is the other reader's (`kafka.py`).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delayline.clock import Clock
from delayline.errors import ConfigError
from delayline.records.record import encode_body
from mq.contract import LogRecord
from mq.kafka.settings import KafkaSettings
from reconcile.frames.schemas import ACCEPTED
from reconcile.logic.plan import Range, Read
from reconcile.readers import rows
from reconcile.readers.kafka import KafkaReader
from reconcile.readers.work import translated_errors

JARS = {
    "org.apache.spark.sql.kafka010.KafkaSourceProvider": "spark-sql-kafka-0-10_2.13",
    "org.apache.spark.kafka010.KafkaConfigUpdater": "spark-token-provider-kafka-0-10_2.13",
    "org.apache.kafka.clients.consumer.KafkaConsumer": "kafka-clients",
    "org.apache.commons.pool2.impl.GenericKeyedObjectPool": "commons-pool2",
}
"""A class of each jar that is needed. The versions that go together: deploy/spark/kafka-connector/pom.xml."""

_SECURITY = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
_SAME = {"security.protocol", "ssl.endpoint.identification.algorithm"}
_OF_SASL = {"sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"}
_TLS = {"ssl.ca.location": "ssl.truststore.location"}


class KafkaConnectorReader(KafkaReader):
    """Called by one thread. `close` it."""

    def __init__(self, settings: KafkaSettings, clock: Clock, spark: SparkSession) -> None:
        """Raises ConfigError where jars are missing, or for client properties that it cannot give the connector."""
        check_jars(spark)
        self._options = {
            "kafka.bootstrap.servers": settings.bootstrap_servers,
            "kafka.isolation.level": "read_committed",
            "failOnDataLoss": "true",  # else what is not held is left out
            "includeHeaders": "true",
            **{f"kafka.{name}": value for name, value in java_properties(settings.properties).items()},
        }
        super().__init__(settings, clock)

    def audit_records(self, spark: SparkSession, ranges: Mapping[int, Range]) -> DataFrame:
        planned = {partition: range_ for partition, range_ in ranges.items() if range_.start < range_.end}
        if not planned:
            return spark.createDataFrame([], rows.RAW)
        found = self._load(spark, {self._names.audit: planned})
        return found.select(
            F.col("partition").alias("audit_partition"), F.col("offset").alias("audit_offset"), "value"
        )

    def buffer_rows(self, spark: SparkSession, reads: Sequence[Read]) -> DataFrame:
        if not reads:
            return spark.createDataFrame([], ACCEPTED)
        planned: dict[str, dict[int, Range]] = {}
        for read in reads:
            planned.setdefault(self._names.buffer(read.topic), {})[read.shard] = Range(read.start, read.end)
        by_place = {(self._names.buffer(read.topic), read.shard): read for read in reads}
        found = self._load(spark, planned).withColumn("at_ms", F.unix_millis("timestamp"))
        columns = found.select("topic", "partition", "offset", "at_ms", "key", "value", "headers")
        return columns.mapInArrow(_rows(by_place), ACCEPTED)

    def _load(self, spark: SparkSession, planned: Mapping[str, Mapping[int, Range]]) -> DataFrame:
        """One task for each partition, in the order of offsets: the connector's own rule while nothing asks for more
        (`minPartitions`)."""

        starts, ends = (
            {topic: {n: part[at] for n, part in of.items()} for topic, of in planned.items()} for at in (0, 1)
        )
        assigned = {topic: list(of) for topic, of in planned.items()}
        offsets = {"assign": assigned, "startingOffsets": starts, "endingOffsets": ends}
        where = {name: json.dumps(value) for name, value in offsets.items()}
        return spark.read.format("kafka").options(**self._options, **where).load()


def _rows(reads: Mapping[tuple[str, int], Read]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """From records to rows, for a task: one partition's records and no others."""

    def of_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        records = (batch for batch in batches if batch.num_rows)
        if (first := next(records, None)) is not None:
            place = first["topic"][0].as_py(), first["partition"][0].as_py()
            with translated_errors():
                yield from rows.accepted(reads[place], map(_log_records, chain((first,), records)))

    return of_task


def _log_records(batch: pa.RecordBatch) -> list[LogRecord]:
    columns = [batch[name].to_pylist() for name in ("offset", "at_ms", "key", "value", "headers")]
    return [
        LogRecord(
            offset, at_ms, encode_body(key, value, [(one["key"].encode(), one["value"]) for one in headers or ()])
        )
        for offset, at_ms, key, value, headers in zip(*columns, strict=True)
    ]


def check_jars(spark: SparkSession) -> None:
    """Raises ConfigError that names the jars which are missing."""
    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    missing = [jar for name, jar in JARS.items() if not _is_there(loader, name)]
    if missing:
        raise ConfigError(
            f"--reader: kafka-connector needs jars that Spark has not been given: {', '.join(missing)}; name them in "
            "spark.jars (their versions: deploy/spark/kafka-connector/pom.xml), or take the reader kafka."
        )


def _is_there(loader: Any, name: str) -> bool:
    try:
        loader.loadClass(name)
    except Py4JJavaError:
        return False
    return True


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's properties as the Java client calls them. Raises ConfigError for those that have no counterpart
    here: none is left out silently."""
    known = _SAME | _OF_SASL | _TLS.keys()
    if unknown := sorted(properties.keys() - known):
        raise ConfigError(
            f"mq.properties: the reader kafka-connector cannot pass on {', '.join(unknown)}; take the reader kafka."
        )
    named = {name: value for name, value in properties.items() if name in _SAME}
    for name, value in properties.items():
        if name in _TLS:
            named |= {"ssl.truststore.type": "PEM", _TLS[name]: value}
    return named | _sasl(properties)


def _sasl(properties: Mapping[str, str]) -> dict[str, str]:
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
    if mechanism is None:
        return {}
    if mechanism not in _MODULES:
        raise ConfigError(f"mq.properties: the reader kafka-connector does not know the SASL mechanism {mechanism}.")
    user, password = (_quoted(properties.get(f"sasl.{name}", "")) for name in ("username", "password"))
    login = f'{_SECURITY}.{_MODULES[mechanism]} required username="{user}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    """As JAAS reads it between quotation marks."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
