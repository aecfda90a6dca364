"""Spark, as the job needs it, whatever the machine's own defaults are."""

import logging
import os
import re
import sys

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # Parquet files written here are read elsewhere
    "spark.sql.ansi.enabled": "true",  # a sum that does not fit is an error, not another number
    "spark.sql.adaptive.enabled": "true",  # splits the hour that has most rows, puts the others together
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.log.level": "ERROR",  # its warnings are about itself
}
"""What the job's results depend on, and how much it talks."""

LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "16",
    "spark.driver.memory": "1g",  # what does not fit is spilled
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=160m",
}
"""On this machine alone nobody else has to reach the driver, and nobody should. Java's best compiler takes longer
than it saves, even over two million rows (95 CPU seconds without it, 131 with it)."""

FEW = 100_000
"""Rows for which to compile a query takes longer than to interpret it."""


_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit has started the JVM already, and leaves where it listens."""


def open_session(master: str | None) -> SparkSession:
    """`master` None: the one that spark-submit names, or this machine's cores. The session that there is, if any."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # readers that are Python run where this does
    chosen = master or (None if _SUBMITTED in os.environ else "local[*]")
    progress = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    options = dict(SETTINGS, **progress, **(LOCAL if chosen and chosen.startswith("local") else {}))
    logging.getLogger("py4j").setLevel(logging.WARNING)
    builder = SparkSession.Builder().appName("delayline reconcile").config(map=dict(options))
    return (builder.master(chosen) if chosen else builder).getOrCreate()


def prepare(spark: SparkSession, rows: int) -> None:
    """For queries over so many rows: compiled, or interpreted. It says nothing in a cluster, whose settings are its
    own."""
    if local_cores(spark):
        spark.conf.set("spark.sql.codegen.wholeStage", str(rows > FEW).lower())
        spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if rows > FEW else "NO_CODEGEN")


def local_cores(spark: SparkSession) -> int:
    """How many of this machine's cores Spark uses; 0 in a cluster."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", spark.conf.get("spark.master", "") or "")
    if found is None:
        return 0
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)
