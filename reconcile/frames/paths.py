"""Paths as Spark reads them."""

import re

_GLOB = re.compile(r"[{}\[\]*?\\]")
"""What in a path that Spark is to read stands for other characters (`SparkHadoopUtil.isGlobPath`). To switch that off
(`__globPaths__`) does not help: of n such paths each one is read n times (Spark 4.2, DataSource.scala)."""


def literal(path: str) -> str:
    """For Spark, which reads a path as a pattern. It takes nothing in it as an escape, in a `file:` URI either."""
    return _GLOB.sub(r"\\\g<0>", path)
