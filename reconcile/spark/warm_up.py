"""Two small runs of the job, from which Java's class archive is made."""

import os
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from delayline.clock import Clock
from reconcile.directory.files import LocalFiles
from reconcile.errors import ReconcileError
from reconcile.readers.parquet import ParquetReader
from reconcile.settings import JobSettings
from reconcile.spark.class_archive import QUIET, folder, put
from reconcile.spark.job import run
from reconcile.spark.session import open_session

MESSAGES = 200
"""Enough that every kind of query of a run has rows."""

EXIT_S_MAX = 300.0
"""Java writes the archive when it ends: 15 s on a quiet machine."""

_START_MS = 1_767_225_600_000


def make_class_archive(clock: Clock) -> Path:
    """Two small runs of the job, and what Java has loaded for them. Replaces older archives. Needs a process without
    Spark. Raises ReconcileError, OSError, and what Spark raises."""
    place = folder()
    if " " in str(place):
        raise ReconcileError(f"{place} has a space in it, which Java's options cannot have; Spark starts without it")
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="delayline-prepare-", dir=place) as temporary:
        made = Path(temporary) / "made"
        _run_and_dump(Path(temporary), made, clock)
        if not made.is_file():
            raise ReconcileError(f"Java has written no class archive: {_why_not()}")
        made.chmod(0o644)
        return put(made)


def _why_not() -> str:
    if settings := os.environ.get("SPARK_CONF_DIR"):
        return f"it cannot with a folder of settings on its class path, and SPARK_CONF_DIR is {settings}"
    return "its own error is printed above"


def _run_and_dump(temporary: Path, made: Path, clock: Clock) -> None:
    spark = open_session("local[*]", java_options=f" -XX:ArchiveClassesAtExit={made} {QUIET}")
    try:
        for part in (1, 2):  # the second one reads what the first one has left
            _run(spark, temporary, part, clock)
    finally:
        _end(spark)


def _run(spark: SparkSession, temporary: Path, part: int, clock: Clock) -> None:
    archive, ledger = temporary / "archive", temporary / "ledger"
    _write_archive(archive, part * MESSAGES)
    settings = JobSettings(output=str(ledger), reader="parquet", input=str(archive))
    run(settings, ParquetReader(spark, archive, "prepare"), LocalFiles(ledger), spark, clock)


def _write_archive(archive: Path, messages: int) -> None:
    """So many messages, one a second; one in twenty was not delivered."""
    shutil.rmtree(archive, ignore_errors=True)
    last_ms = _START_MS + messages * 1000
    mark = {"topic": "t", "shard": 0, "audit_partition": 0, "audit_offset": messages}
    tables = {
        "accepted": [_accepted(offset) for offset in range(messages)],
        "done": [_done(offset) for offset in range(messages) if offset % 20],
        "marks": [{**mark, "at_ms": last_ms, "next": messages, "low_ms": last_ms, "pending": 0}],
    }
    for name, rows in tables.items():
        (archive / name).mkdir(parents=True)
        table = pa.Table.from_pylist(rows)
        narrow = [field.with_type(pa.int32()) if field.name in _NARROW else field for field in table.schema]
        pq.write_table(table.cast(pa.schema(narrow)), archive / name / "part-0.parquet")


_NARROW = ("shard", "epoch", "audit_partition")


def _accepted(offset: int) -> dict[str, object]:
    at_ms = _START_MS + offset * 1000
    message = {"topic": "t", "shard": 0, "offset": offset, "id": f"m{offset}", "due_ms": at_ms + 500}
    return {**message, "kind": "message", "accepted_ms": at_ms, "appended_ms": at_ms}


def _done(offset: int) -> dict[str, object]:
    message = _accepted(offset)
    kept = {name: message[name] for name in ("topic", "shard", "offset", "id", "due_ms", "accepted_ms")}
    at_ms = _START_MS + offset * 1000 + 520
    place = {"audit_partition": 0, "audit_offset": offset}
    return {**kept, "done_ms": at_ms, "outcome": "delivered", "epoch": 1, **place}


def _end(spark: SparkSession) -> None:
    """Until Java has ended: then the archive is there."""
    context = spark.sparkContext
    gateway = context._gateway
    spark.stop()
    assert gateway is not None  # this process has started it
    gateway.shutdown()
    java = gateway.proc
    if java.stdin is not None:
        java.stdin.close()
    java.wait(timeout=EXIT_S_MAX)
