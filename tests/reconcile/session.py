"""The Spark of the tests' own process: small, and quick to start.

Its JVM takes the classes that an earlier one has loaded from an archive (class data sharing, JEP 350), which halves a
start: 4.5 s of a processor instead of 9. The archive lies in .cache, for these jars and this Java; the first session
that ends without one makes it, but where CI is set: a clean clone would pay 15 s for what it never uses again.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark

from tests.brokers import archive
from tests.brokers.distribution import CACHE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms512m -Xmn256m -XX:MetaspaceSize=192m"
"""Heap and metaspace have their final size from the start: to grow them step by step takes a sixth of a session."""
OPTIONS: dict[str, bool | float | int | str | None] = {
    "spark.driver.memory": "640m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # compiling takes longer than a few rows do
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
DUMP_S = 120.0
"""For the archive, at the end of the JVM: fifteen seconds on a quiet machine."""


@contextmanager
def opened() -> "Iterator[SparkSession]":
    """One core, one task per shuffle, 640 MB."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    kept = archive.options(_jars())
    with tempfile.TemporaryDirectory(dir=_jars().parent) as scratch, _first() as is_first:
        made = Path(scratch) / "made.jsa"
        makes = is_first and not kept and "CI" not in os.environ
        yield from _session([f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable"] if makes else kept)
        if made.exists():
            made.rename(archive.file(_jars()))


def _session(java: list[str]) -> "Iterator[SparkSession]":
    from pyspark.sql import SparkSession

    options = OPTIONS | {"spark.driver.extraJavaOptions": " ".join([JAVA, *java])}
    session = SparkSession.Builder().master("local[1]").config(map=options).getOrCreate()
    gateway: Any = session.sparkContext._gateway
    yield session
    session.stop()
    if not any("AtExit" in option for option in java):
        return
    gateway.shutdown()
    gateway.proc.stdin.close()  # what a JVM of pyspark's ends with
    try:
        gateway.proc.wait(DUMP_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()  # there is no archive then
        gateway.proc.wait()


def _jars() -> Path:
    """An archive stands beside it: a folder for each set of jars."""
    jars = Path(pyspark.__file__).with_name("jars")
    names = "\n".join(sorted(f"{jar} {jar.stat().st_mtime_ns}" for jar in jars.iterdir()))
    kept = CACHE.with_name("spark-classes") / hashlib.sha256(names.encode()).hexdigest()[:16]
    kept.mkdir(parents=True, exist_ok=True)
    return kept / "jars"


@contextmanager
def _first() -> Iterator[bool]:
    """Whether no other process is about to make the archive."""
    with _jars().with_name("lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
