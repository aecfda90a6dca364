"""Spark, as the job needs it, whatever the machine's own defaults are."""

import logging
import os
import sys

from pyspark.sql import SparkSession

from reconcile.connect import connect, remote

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
}
"""On this machine alone nobody else has to reach the driver, and nobody should."""


_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit has started the JVM already, and leaves where it listens."""


def open_session(master: str | None) -> SparkSession:
    """`master` None: the one that spark-submit names, or this machine's cores. The session that there is, if any.
    With SPARK_REMOTE it is one of Spark Connect. Raises ConfigError, NoAnswer, PySparkException."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # readers that are Python run where this does
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if url := remote():
        own = {} if url.startswith("sc:") else {**LOCAL, "spark.ui.showConsoleProgress": "false"}
        return connect(url, "delayline reconcile", {**SETTINGS, **own})
    chosen = master or (None if _SUBMITTED in os.environ else "local[*]")
    progress = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    options = dict(SETTINGS, **progress, **(LOCAL if chosen and chosen.startswith("local") else {}))
    builder = SparkSession.Builder().appName("delayline reconcile").config(map=dict(options))
    return (builder.master(chosen) if chosen else builder).getOrCreate()
