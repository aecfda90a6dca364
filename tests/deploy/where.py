"""A Spark program around another one, `PROGRAM ARGUMENTS`: it runs that one, and then each executor prints where its
Python, our code and its packages come from, in one line on the driver. The exit code is the program's."""

import runpy
import sys
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession


def look(_: Iterable[int]) -> Iterator[tuple[str, str, str]]:
    import sys

    import confluent_kafka
    import pyarrow

    import delayline.buffer.record

    del confluent_kafka
    yield sys.prefix, str(delayline.buffer.record.__file__), str(pyarrow.__file__)


del sys.argv[0]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    spark = SparkSession.Builder().getOrCreate()
    for found in sorted(set(spark.sparkContext.parallelize(range(8), 8).mapPartitions(look).collect())):
        print("FOUND", *found)
    spark.stop()
