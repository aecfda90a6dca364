"""A Spark cluster, and what it is sent."""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.spark.pack import __file__ as script
from deploy.spark.pack import pack_code, pack_environment
from tests.deploy.spark_cluster import Cluster, Unavailable
from tests.fault.server import ROOT

CACHE = ROOT / ".cache" / "spark"


class Package(NamedTuple):
    """What `make spark-package` makes."""

    code: Path
    environment: Path


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """The code as it is now; the environment is made once for each set of requirements."""
    made_of = [
        Path(script).read_bytes(),
        (ROOT / "requirements" / "reconcile.txt").read_bytes(),
        sys.version.encode(),
    ]
    environment = CACHE / hashlib.sha256(b"\0".join(made_of)).hexdigest()[:16] / "pyenv.tar.gz"
    environment.parent.mkdir(parents=True, exist_ok=True)
    if not environment.exists():
        pack_environment(environment, None)
    code = tmp_path_factory.mktemp("package") / "delayline.zip"
    pack_code(code)
    return Package(code, environment)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Skips where there can be none, and fails instead where CI is set."""
    try:
        cluster = Cluster(tmp_path_factory.mktemp("cluster"))
        with cluster.started():
            yield cluster
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"no Spark: {error}")
        pytest.skip(f"no Spark: {error}")
