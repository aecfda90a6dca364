"""A Spark cluster, and what it is sent."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.spark.pack import __file__ as script
from deploy.spark.pack import pack_code, pack_environment
from tests.conftest import required
from tests.deploy.spark_cluster import Cluster
from tests.fault.server import ROOT

CACHE = ROOT / ".cache" / "spark"


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make spark-package` makes: the code as it is now, the environment once for each set of requirements."""
    made_of = [
        Path(script).read_bytes(),
        (ROOT / "requirements" / "reconcile.txt").read_bytes(),
        sys.version.encode(),
    ]
    kept = CACHE / hashlib.sha256(b"\0".join(made_of)).hexdigest()[:16]
    kept.mkdir(parents=True, exist_ok=True)
    if not (kept / "whole").exists():
        pack_environment(kept, None)
        (kept / "whole").touch()
    folder = tmp_path_factory.mktemp("package")
    pack_code(folder)
    for name in ("pyenv", "pyenv.tar.gz"):
        (folder / name).symlink_to(kept / name)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Skips where there can be none, and fails instead where CI is set."""
    with required("Spark"):
        cluster = Cluster(tmp_path_factory.mktemp("cluster"))
        with cluster.started():
            yield cluster
