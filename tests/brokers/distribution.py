"""Where the brokers' jars come from: `pom.xml`, copied once per version into .cache/brokers/<version>/lib."""

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

NEWEST = "4.3.1"
OLDER = "3.9.2"
"""The last one before transaction.version 2 (KIP-890)."""

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "brokers"
_POM = Path(__file__).with_name("pom.xml")


class Unavailable(Exception):
    """No broker can be had here; the text says why, in one sentence."""


def fetch(version: str = NEWEST) -> Path:
    """The folder with the jars of this version, fetched where it is missing. Raises Unavailable."""
    _program("java")
    lib = CACHE / version / "lib"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{version}.lock").open("w") as lock:  # two test processes may need it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not lib.is_dir():
            _copy_jars(version, lib)
    return lib


def _copy_jars(version: str, lib: Path) -> None:
    """All or nothing: an interrupted copy leaves no folder that looks whole."""
    maven = _program("mvn")
    lib.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=lib.parent) as scratch:
        jars = Path(scratch) / "lib"
        command = [maven, "--batch-mode", "--quiet", "--file", str(_POM), f"-Dkafka.version={version}"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unavailable(f"Maven could not fetch Kafka {version}: {done.stdout.strip()[:300]}")
        jars.rename(lib)


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"there is no {name} on the path")
    return path
