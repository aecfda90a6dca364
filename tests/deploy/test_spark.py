"""The reconcile job on a Spark cluster, with what `make spark-package` makes and as documented in docs/deploy.md."""

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from delayline.clock import SystemClock
from deploy.spark.pack import slim
from tests.deploy.spark_cluster import EXECUTORS, Cluster
from tests.fault.server import ROOT
from tests.reconcile.archive import World, run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE_MS = 60_000
SENT = ["--py-files", "delayline.zip", "--archives", "pyenv.tar.gz#pyenv"]
PROGRAM = "reconcile_job.py"


def names(requirements: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", requirements, re.MULTILINE))


def test_executors_are_sent_the_requirements_of_the_job_less_what_the_cluster_has() -> None:
    whole = (ROOT / "requirements" / "reconcile.txt").read_text()
    assert names(whole) - names(slim(whole)) == {"pyspark", "py4j"}
    assert {"pyarrow", "pandas", "confluent-kafka", "msgspec"} <= names(slim(whole))
    assert slim(whole).count("--hash") < whole.count("--hash")
    assert re.findall(r"^(?! |#|[a-z0-9-]+==).+", slim(whole), re.MULTILINE) == []


def on_the_page() -> tuple[dict[str, str], list[str]]:
    """The variables and the arguments of the one `spark-submit` that docs/deploy.md has."""
    (line,) = re.findall(
        r"^(\w+=\S+ spark-submit (?:.*\\\n)*.*)$", (ROOT / "docs/deploy.md").read_text(), re.MULTILINE
    )
    variable, program, *arguments = shlex.split(line.replace("\\\n", ""))
    assert program == "spark-submit"
    return dict([variable.split("=", 1)]), arguments


def with_values(arguments: list[str], **values: str) -> list[str]:
    """The same with other values for these flags; each must be there."""
    found = list(arguments)
    for name, value in values.items():
        found[found.index(f"--{name}") + 1] = value
    return found


def archive(folder: Path) -> World:
    """Two hundred messages in two shards, of which one has no outcome."""
    world = World(folder, "orders", shards=2)
    sent = [world.send("orders", n % 2, (n % 20) * MINUTE_MS) for n in range(200)]
    world.forget(sent[77])
    world.pass_on(60 * MINUTE_MS)
    world.write()
    return world


def without_times(summary: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in summary.items() if not re.search(r"took|seconds|_ms$", key)}


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_bytes())
    return found


@pytest.mark.thorough
def test_the_job_runs_on_what_a_cluster_is_sent_and_finds_there_what_it_finds_in_one_process(
    spark: "SparkSession", cluster: Cluster, package: Path, tmp_path: Path
) -> None:
    world = archive(tmp_path / "archive")
    (tmp_path / "delayline.toml").touch()
    environ, arguments = on_the_page()
    assert [one for one in SENT if one not in arguments] == []
    where = {"config": str(tmp_path / "delayline.toml"), "output": str(tmp_path / "cluster")}
    submitted = with_values(arguments, master=cluster.url, **where)
    submitted.insert(submitted.index(PROGRAM), str(ROOT / "tests/deploy/where.py"))
    read = ["--reader", "parquet", "--input", str(tmp_path / "archive")]

    done = cluster.submit([*submitted, *read], package, environ)

    assert done.returncode == 2, done.stderr[-3000:]
    executors = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert len(executors) == EXECUTORS
    for prefix, ours, packages in executors:
        assert prefix.endswith("/pyenv")
        assert "/delayline.zip/delayline/" in ours
        assert packages.startswith(prefix)
    found = summary(tmp_path / "cluster")
    assert found["topics"][0]["findings"] == {"missing": 1}
    assert run_here(spark, world.folder, tmp_path / "here", SystemClock()).exit_code == 2
    assert without_times(found) == without_times(summary(tmp_path / "here"))
