"""The reconcile job on a Spark cluster, with what `make spark-package` makes."""

import re
from pathlib import Path

import pytest

from deploy.spark.pack import OF_THE_CLUSTER, slim
from tests.deploy.conftest import Package
from tests.deploy.spark_cluster import EXECUTORS, Cluster
from tests.fault.server import ROOT


def names(requirements: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", requirements, re.MULTILINE))


def test_executors_are_sent_the_requirements_of_the_job_less_what_the_cluster_has() -> None:
    whole = (ROOT / "requirements" / "reconcile.txt").read_text()
    assert names(whole) - names(slim(whole)) == set(OF_THE_CLUSTER)
    assert {"pyarrow", "pandas", "confluent-kafka", "msgspec"} <= names(slim(whole))
    assert slim(whole).count("--hash") < whole.count("--hash")
    assert re.findall(r"^(?! |#|[a-z0-9-]+==).+", slim(whole), re.MULTILINE) == []


@pytest.mark.slow
def test_executors_run_on_the_environment_and_the_code_that_they_are_sent(
    cluster: Cluster, package: Package, tmp_path: Path
) -> None:
    sent = ["--py-files", str(package.code), "--archives", f"{package.environment}#pyenv"]
    done = cluster.submit([*sent, str(ROOT / "tests" / "deploy" / "where.py")], tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert len(found) == EXECUTORS
    for prefix, ours, packages in found:
        assert prefix.endswith("/pyenv")
        assert "/delayline.zip/delayline/" in ours
        assert packages.startswith(prefix)
