"""Spark Connect: `SPARK_REMOTE` names a Spark that is a server of its own, `sc://host:port`, and what runs here is a
client of it, without a JVM. `local[n]` there starts a server beside this process.

What the job asks Spark for, a server answers as well. What it asks the JVM for, it does not: Hadoop's file systems
(hadoop_files.py), and whether the jars of Spark's own Kafka connector are there (readers/connector.py). Both are
refused before anything starts.
"""

import os
import socket
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from delayline.errors import ConfigError
from reconcile.errors import NoAnswer
from reconcile.settings import JobSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.directory.files import Files

REMOTE = "SPARK_REMOTE"
PORT = 15002
ANSWER_WITHIN_S = 10.0
"""Spark's client goes on trying for a quarter of an hour, without a word."""

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
JVM = f"it is the business of Spark's own process, which is not here ({REMOTE})"

PROBE = "connect-probe"


def remote() -> str | None:
    """Where the server is, if there is one."""
    return os.environ.get(REMOTE) or None


def needs_java() -> bool:
    """Of this machine."""
    return not (remote() or "").startswith("sc:")


def is_connected(spark: "SparkSession") -> bool:
    """Whether the session is a client's: it refuses to have a JVM."""
    return not hasattr(spark, "_jvm")


def check(job: JobSettings, reader: str) -> None:
    """`reader`: the one that the job takes. Raises ConfigError: its settings need a JVM."""
    if (url := remote()) is None:
        return
    if job.master is not None:
        raise ConfigError(f"--master: {REMOTE} names a Spark already ({url}): drop one of the two.")
    if job.is_uri:
        raise ConfigError(f"--output: {JVM}: give a folder that both have mounted, or take a Spark of your own.")
    if reader == "kafka-connector":
        raise ConfigError(f"--reader: {JVM}: take the reader kafka, or a Spark of your own.")


def connect(url: str, name: str, options: Mapping[str, str]) -> "SparkSession":
    """A session on the server. Its own settings stay as they are; those of `options` that are the session's must be
    heard. Raises ConfigError, NoAnswer, and what Spark raises."""
    from pyspark.sql import SparkSession

    _check_answers(url)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about settings that are the server's
            session = SparkSession.Builder().appName(name).config(map=dict(options)).getOrCreate()
    except ImportError as error:
        raise ConfigError(f"{REMOTE}: Spark Connect needs more packages: {error}") from error
    for key, wanted in options.items():
        if key.startswith("spark.sql.") and (found := session.conf.get(key, None)) != wanted:
            raise ConfigError(f"{REMOTE}: the server does not let {key} be {wanted}, and has {found}.")
    return session


def _check_answers(url: str) -> None:
    """Raises NoAnswer. Where gRPC goes through a proxy, that cannot be known before."""
    place = urlsplit(url)
    if place.scheme != "sc" or any(os.environ.get(name) for name in PROXIES):
        return
    host, port = place.hostname or "", place.port or PORT
    try:
        socket.create_connection((host, port), ANSWER_WITHIN_S).close()
    except OSError as error:
        raise NoAnswer(f"{REMOTE}: no answer from {host}:{port} ({error.strerror or error})") from error


def check_shared(spark: "SparkSession", files: "Files") -> None:
    """A server that does not see the folder would read and write another one. Raises ConfigError, OSError."""
    if not is_connected(spark):
        return
    from pyspark.errors import PySparkException

    files.write(PROBE, PROBE.encode())
    try:
        found: Any = spark.read.text(f"{files.root}/{PROBE}").collect()
    except PySparkException:
        found = []
    finally:
        files.remove(PROBE)
    if [row[0] for row in found] != [PROBE]:
        raise ConfigError(
            f"--output: the server of {REMOTE} does not see {files.root}: give a folder that both have mounted."
        )
