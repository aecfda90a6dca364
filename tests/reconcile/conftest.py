"""One Spark session for the whole test process."""

import os
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reconcile.readers.kafka import KafkaReader
    from tests.brokers.kafka import Kafka
    from tests.reconcile.on_kafka import Place


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Small and quick to start: one core, one task per shuffle, 512 MB. Skips without Java, and fails instead where
    CI is set."""
    if shutil.which("java") is None:
        if os.environ.get("CI"):
            pytest.fail("no Spark: there is no java on the path")
        pytest.skip("no Spark: there is no java on the path")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    options = {
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
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
    session = SparkSession.Builder().master("local[1]").config(map=options).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def place(kafka: "Kafka") -> "Place":
    from tests.reconcile.on_kafka import Place

    return Place(kafka)


@pytest.fixture
def reader(place: "Place") -> "Iterator[KafkaReader]":
    from reconcile.readers.kafka import KafkaReader
    from tests.reconcile.on_kafka import CLOCK

    opened = KafkaReader(place.settings(), CLOCK)
    yield opened
    opened.close()
