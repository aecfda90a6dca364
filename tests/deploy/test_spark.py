"""The reconcile job on a Spark cluster, with what `make spark-package` makes and as docs/deploy.md says."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deploy.spark.pack import slim
from tests.acceptance.asking import DELAYLINE
from tests.deploy.spark_cluster import EXECUTORS, Cluster
from tests.fault.server import ROOT, environment
from tests.reconcile.archive import World

MINUTE_MS = 60_000
SENT = ["--py-files", "delayline.zip", "--archives", "pyenv.tar.gz#pyenv"]


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


@pytest.mark.slow
def test_executors_run_on_the_environment_and_the_code_that_they_are_sent(cluster: Cluster, package: Path) -> None:
    environ, arguments = on_the_page()
    assert [one for one in SENT if one not in arguments] == []
    done = cluster.submit(["--master", cluster.url, *SENT, str(ROOT / "tests/deploy/where.py")], package, environ)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert len(found) == EXECUTORS
    for prefix, ours, packages in found:
        assert prefix.endswith("/pyenv")
        assert "/delayline.zip/delayline/" in ours
        assert packages.startswith(prefix)


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


@pytest.mark.slow
def test_the_job_finds_on_a_cluster_what_it_finds_in_one_process(
    cluster: Cluster, package: Path, tmp_path: Path
) -> None:
    archive(tmp_path / "archive")
    (tmp_path / "delayline.toml").touch()
    read = ["--reader", "parquet", "--input", str(tmp_path / "archive")]
    environ, arguments = on_the_page()
    where = {"config": str(tmp_path / "delayline.toml"), "output": str(tmp_path / "cluster")}
    done = cluster.submit([*with_values(arguments, master=cluster.url, **where), *read], package, environ)
    assert done.returncode == 2, done.stderr[-3000:]
    command = [DELAYLINE, "reconcile", "run", "--output", str(tmp_path / "here"), "--master", "local[2]", *read]
    here = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=400)
    assert here.returncode == 2, here.stderr
    summaries = [json.loads((tmp_path / name / "summary.json").read_bytes()) for name in ("cluster", "here")]
    assert without_times(summaries[0]) == without_times(summaries[1])
    assert summaries[0]["topics"][0]["findings"] == {"missing": 1}
