"""From settings to a run: the reader that they name, Spark, and the output directory. Two command lines begin here,
`delayline reconcile run` and `python -m reconcile`, which spark-submit takes; neither has Spark before it is
needed."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from delayline.clock import Clock
from delayline.config import Settings
from delayline.encryption.data_key import find_data_key
from delayline.errors import ConfigError, DelaylineError
from reconcile.errors import ReconcileError
from reconcile.exits import exit_of
from reconcile.progress import Show, SparkCounts, reporting_progress
from reconcile.settings import JobSettings
from reconcile.spark import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mq.kafka.settings import KafkaSettings
    from mq.rocketmq.settings import RocketmqSettings
    from reconcile.directory.files import Files
    from reconcile.notices import Hear
    from reconcile.readers.contract import Reader
    from reconcile.spark.job import RunVerdict

T = TypeVar("T")

INSTALL = "`make reconcile-job` installs what it needs beside Java 17"


def start(job: JobSettings, settings: Settings, clock: Clock, show: Show, hear: "Hear") -> "RunVerdict":
    """One run, and its notices are sent; `hear` gets those that could not be. Raises ConfigError, ReconcileError,
    OSError."""
    from reconcile.notices import notices

    others = notices(job.push_metrics, job.webhook, settings, hear)
    try:
        verdict = run_job(job, settings, clock, show)
        others.ended(verdict.summary)
        verdict.note_reported()
    except (DelaylineError, OSError) as error:
        others.failed(exit_of(error), str(error))
        raise
    return verdict


def run_job(job: JobSettings, settings: Settings, clock: Clock, show: Show) -> "RunVerdict":
    _check_reader(job, settings)
    spark = session_of(job)
    from reconcile.readers.work import translated_errors
    from reconcile.spark.against import compare
    from reconcile.spark.job import run

    with (
        _one_sentence(),
        closing(_reader(job, settings, spark, clock)) as reader,
        translated_errors(),
        reporting_progress(SparkCounts(spark), show, clock) as on_step,
    ):
        files = _files(job, spark)
        if job.against == "targets":
            return compare(job, reader, files, spark, clock, settings.dispatch.timestamp == "delivery", on_step)
        return run(job, reader, files, spark, clock, on_step, reports=True)


def make_ready(clock: Clock) -> Path:
    """The class archive. Raises ConfigError, ReconcileError, OSError."""
    _check_java()
    try:
        from reconcile.spark.warm_up import make_class_archive
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    with _one_sentence():
        return make_class_archive(clock)


@contextmanager
def _one_sentence() -> Iterator[None]:
    """What Spark raises has pages; the first line has the reason. Raises ReconcileError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from reconcile.readers.work import first_sentence

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise ReconcileError(f"Spark failed: {first_sentence(error)}") from error


def session_of(job: JobSettings) -> "SparkSession":
    if connect.needs_java():
        _check_java()
    try:
        from pyspark.errors import PySparkException

        from reconcile.spark.session import open_session
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    try:
        return open_session(job.master)
    except PySparkException as error:
        raise _not_started(error) from error


def _check_java() -> None:
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise ConfigError(f"the reconcile job needs Java 17, and there is no java on the path; {INSTALL}.")


def _missing(error: ModuleNotFoundError) -> ConfigError:
    return ConfigError(f"the reconcile job needs the package {error.name}; {INSTALL}.")


def _not_started(error: Exception) -> ConfigError:
    return ConfigError(f"Spark does not start ({str(error).splitlines()[0]}); it needs Java 17 or later.")


def _check_reader(job: JobSettings, settings: Settings) -> None:
    reader = job.reader or settings.mq.kind
    kind = reader.removesuffix("-connector")
    if kind not in ("parquet", settings.mq.kind):
        raise ConfigError(f"--reader: {reader} reads an installation on {kind}, and mq.kind is {settings.mq.kind}.")
    connect.check(job, reader)


def _reader(job: JobSettings, settings: Settings, spark: "SparkSession", clock: Clock) -> "Reader":
    kind = job.reader or settings.mq.kind
    if kind == "parquet":
        from reconcile.readers.parquet import ParquetReader

        return ParquetReader(spark, Path(job.input or ""), settings.namespace)
    if kind == "embedded":
        from reconcile.readers.embedded import EmbeddedReader

        data_key = find_data_key(settings.data_dir, *settings.store.encryption_keys)
        return EmbeddedReader(settings.data_dir, settings.namespace, clock, data_key)
    if kind == "rocketmq":
        from reconcile.readers.rocketmq import RocketmqReader

        return RocketmqReader(_rocketmq(settings), clock)
    if kind == "kafka":
        from reconcile.readers.kafka import KafkaReader

        return KafkaReader(_kafka(settings), clock)
    from reconcile.readers.connector import KafkaConnectorReader

    return KafkaConnectorReader(_kafka(settings), clock, spark)


def _kafka(settings: Settings) -> "KafkaSettings":
    from mq.kafka.settings import KafkaSettings

    own = {"bootstrap_servers": settings.mq.bootstrap_servers, "set_aside_bytes_max": settings.mq.set_aside_bytes_max}
    return _of_brokers(KafkaSettings, settings, **own)


def _rocketmq(settings: Settings) -> "RocketmqSettings":
    from mq.rocketmq.settings import RocketmqSettings

    return _of_brokers(RocketmqSettings, settings, name_servers=settings.mq.bootstrap_servers)


def _of_brokers(kind: Callable[..., T], settings: Settings, **own: Any) -> T:
    """Of a reader: what every kind of brokers has in common, and what is the kind's `own`."""
    return kind(namespace=settings.namespace, topics_create=False, properties=settings.mq.client_properties(), **own)


def _files(job: JobSettings, spark: "SparkSession") -> "Files":
    from reconcile.directory.files import LocalFiles
    from reconcile.spark.hadoop_files import HadoopFiles

    if job.is_uri:
        return HadoopFiles(spark, job.output)
    files = LocalFiles(Path(job.output))
    connect.check_shared(spark, files)
    return files
