"""Spark, as the job needs it, whatever the machine's own defaults are."""

import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from reconcile.spark import class_archive
from reconcile.spark.connect import connect, remote

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # Parquet files written here are read elsewhere
    "spark.sql.ansi.enabled": "true",  # a sum that does not fit is an error, not another number
    "spark.sql.adaptive.enabled": "true",  # splits the hour that has most rows, puts the others together
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # the job shows its own progress
}
"""What the job's results depend on, and how much it talks."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "16",
    "spark.driver.memory": "1g",  # what does not fit is spilled
    "spark.hadoop.parquet.block.size": str(32 << 20),  # a task has whole row groups in memory
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
    _JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=160m",
}
"""On this machine alone nothing else has to reach the driver, and nothing should. Java's best compiler takes longer
than it saves, even over two million rows (95 CPU seconds without it, 131 with it). Vectored reads take their memory
outside the heap and wait for the collector to give it back: over 17 million rows of an hour a run failed with
"Cannot reserve direct buffer memory"."""

MEMORY = "SPARK_DRIVER_MEMORY"
"""Spark's own variable, which goes before the value here."""

FEW = 100_000
"""Rows for which to compile a query takes longer than to interpret it."""

QUIET = {"spark.log.level": "ERROR"}
"""Of a JVM that spark-submit has started already, with a log configuration of its own."""

LOG4J, LOG4J_FILE = "LOG4J_CONFIGURATION_FILE", Path(__file__).with_name("log4j2.properties")
LOCAL_ADDRESS = {"SPARK_LOCAL_IP": "127.0.0.1"}
"""Else Spark looks for an address of this machine, and warns of what it finds."""

INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
"""Java warns so about a module that Spark asks for, before it reads any setting."""

NAME = "delayline reconcile"
HEARD_WITHIN_S = 5.0

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit has started the JVM already, and leaves where it listens."""


def open_session(master: str | None, *, java_options: str | None = None) -> SparkSession:
    """`master` None: the one that spark-submit names, or this machine's cores. The session that there is, if any.
    With SPARK_REMOTE it is one of Spark Connect. `java_options` follow ours in a JVM that is started here; None:
    those of the class archive. Raises ConfigError, NoAnswer, PySparkException."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # readers that are Python run where this does
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if url := remote():
        return connect(url, NAME, SETTINGS | ({} if url.startswith("sc:") else LOCAL))
    is_submitted = _SUBMITTED in os.environ
    chosen = master or (None if is_submitted else "local[*]")
    is_local = chosen is not None and chosen.startswith("local")
    options = SETTINGS | (local_options(java_options) if is_local else {}) | (QUIET if is_submitted else {})
    if os.environ.get(MEMORY):
        options.pop("spark.driver.memory", None)
    if not is_submitted and SparkSession.getActiveSession() is None:
        _start(options | {"spark.master": chosen or ""}, LOCAL_ADDRESS if is_local else {})
    builder = SparkSession.Builder().appName(NAME).config(map=dict(options))
    return (builder.master(chosen) if chosen else builder).getOrCreate()


def local_options(java_options: str | None = None) -> dict[str, str]:
    """LOCAL, with the class archive if there is one, or with `java_options` instead."""
    more = class_archive.java_options() if java_options is None else java_options
    return LOCAL | {_JAVA_OPTIONS: LOCAL[_JAVA_OPTIONS] + more}


def _start(options: Mapping[str, str], variables: Mapping[str, str]) -> None:
    """A JVM that logs errors, and nothing else. Variables that the user has set stay as they are. Raises
    PySparkException."""
    for name, value in {LOG4J: str(LOG4J_FILE), **variables}.items():
        os.environ.setdefault(name, value)
    conf = SparkConf().setAppName(NAME).setAll(list(options.items()))
    reading, writing = os.pipe()
    hearing = Thread(target=_pass_on, args=(reading,), name="spark-stderr", daemon=True)
    hearing.start()
    try:
        gateway = launch_gateway(conf, {"stderr": writing})
    except PySparkException:
        os.close(writing)
        hearing.join(HEARD_WITHIN_S)  # why it has ended
        raise
    os.close(writing)  # the JVM has its own
    SparkContext(conf=conf, gateway=gateway)


def _pass_on(reading: int) -> None:
    """To this process's standard error, line by line, until the JVM ends."""
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if line != INCUBATOR:
                os.write(2, line)


def prepare(spark: SparkSession, rows: int) -> None:
    """For queries over so many rows: compiled, or interpreted. It does nothing in a cluster, whose settings are its
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
