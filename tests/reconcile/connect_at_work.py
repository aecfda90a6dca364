"""`make spark-connect`: the job as a client of Spark Connect, whose packages are no requirement of ours. It must come
to the same as with a Spark of its own, over an archive and over the embedded queue, whose reader is Python that the
server runs; and the client must need no Java.

    python -m tests.reconcile.connect_at_work PACKAGES    (the folder that they are in)
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.fault.server import ROOT
from tests.ports import free_port
from tests.reconcile.archive import World
from tests.reconcile.installation import MINUTE_MS, NOW_MS, Installation, delivered

SERVER = """
import sys
from pyspark.sql import SparkSession
settings = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", "spark.ui.enabled": "false",
            "spark.connect.grpc.binding.port": sys.argv[1], "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1", "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2"}
spark = SparkSession.Builder().master("local[1]").config(map=settings).getOrCreate()
print("ready", flush=True)
sys.stdin.read()
"""
NO_JAVA = {"JAVA_HOME": "", "PATH": "/nowhere"}


class Job:
    """`python -m reconcile` where there are these packages."""

    def __init__(self, packages: Path, folder: Path) -> None:
        self._folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DELAYLINE_", "SPARK_"))}
        self.environment = {**kept, "PYTHONPATH": f"{ROOT}{os.pathsep}{packages}", "PYSPARK_PYTHON": sys.executable}

    def run(self, *arguments: str, exit_code: int, expected: str = "", **variables: str) -> None:
        """Raises SystemExit: it ends otherwise, or does not print that."""
        ran = subprocess.run(
            [sys.executable, "-m", "reconcile", *arguments],
            cwd=self._folder,
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        if ran.returncode != exit_code or expected not in ran.stdout:
            sys.exit(f"expected {exit_code} and {expected!r}, got {ran.returncode}\n{ran.stdout[-6000:]}")
        where = variables.get("SPARK_REMOTE", "a Spark of its own")
        print(f"{where}: {' '.join(arguments)}: {exit_code}", flush=True)


@contextmanager
def server(job: Job) -> Iterator[str]:
    """Its URL."""
    port = free_port()
    started = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port)],
        env=job.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        if started.stdout.readline() != "ready\n":
            sys.exit("the server of Spark Connect does not start")
        yield f"sc://127.0.0.1:{port}"
    finally:
        started.stdin.close()
        started.wait(60)


def summary(ledger: Path) -> dict[str, Any]:
    """Without what differs from run to run."""
    found: dict[str, Any] = json.loads((ledger / "summary.json").read_bytes())
    return {key: value for key, value in found.items() if not re.search(r"took|seconds|_ms$", key)}


def same(first: Path, second: Path) -> None:
    if summary(first) != summary(second):
        sys.exit(f"{first.name} and {second.name} differ")


def main(packages: Path, folder: Path) -> None:
    job = Job(packages, folder)
    world = World(folder / "archive", "orders", shards=2)
    sent = [world.send("orders", n % 2, (n % 20) * MINUTE_MS) for n in range(200)]
    world.forget(sent[77])
    world.pass_on(60 * MINUTE_MS)
    world.write()
    due_ms = NOW_MS + MINUTE_MS
    queue = Installation(None, folder / "data", [(b"delay", b"1m")])
    queue.write_audit([delivered(0, f"orders.0.0.{due_ms}", due_ms)], done_ms=due_ms + 5, next_offset=1, at_minute=10)
    archive = ["--reader", "parquet", "--input", "archive"]
    targets = ["--against", "targets", "--since", "36500d"]

    own = [*archive, "--output", "own", "--master", "local[1]"]
    job.run(*own, exit_code=2)
    job.run(*own, *targets, exit_code=2)
    with server(job) as url:
        served = {"SPARK_REMOTE": url, **NO_JAVA}
        job.run(*archive, "--output", "served", exit_code=2, **served)
        same(folder / "own", folder / "served")
        job.run(*archive, "--output", "served", *targets, exit_code=2, **served)
        same(folder / "own/targets", folder / "served/targets")
        job.run(*archive, "--output", "served", exit_code=0, **served)
        job.run(
            "--output",
            "queue",
            exit_code=0,
            expected="findings=0 run=1",
            **served,
            DELAYLINE_DATA_DIR=str(queue.folder),
        )
    job.run(*archive, "--output", "beside", exit_code=2, SPARK_REMOTE="local[1]")
    same(folder / "own", folder / "beside")


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        main(Path(sys.argv[1]).resolve(), Path(made))
