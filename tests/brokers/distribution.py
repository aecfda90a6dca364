"""Where the brokers' jars come from: `pom.xml`, copied once per version into .cache/brokers/<version>/lib."""

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

NEWEST = "4.3.1"
OLDER = "3.9.2"
"""The last one before transaction.version 2 (KIP-890)."""

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "brokers"
_POM = Path(__file__).with_name("pom.xml")


class Unavailable(Exception):
    """No broker can be had here; the text is the reason, in one sentence."""


def fetch(version: str = NEWEST) -> Path:
    """The folder with the jars of this version, fetched where it is missing. Raises Unavailable."""
    _program("java")
    lib = CACHE / version / "lib"
    copy_once(_POM, lib, f"-Dkafka.version={version}")
    return lib


def copy_once(pom: Path, lib: Path, *options: str) -> None:
    """The jars that a pom names into the folder `lib`, where that is not there yet. Raises Unavailable."""
    lib.parent.mkdir(parents=True, exist_ok=True)
    with lib.with_suffix(".lock").open("w") as lock:  # two test processes may need it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not lib.is_dir():
            _copy_jars(pom, lib, options)


def _copy_jars(pom: Path, lib: Path, options: Sequence[str]) -> None:
    """All or nothing: an interrupted copy leaves no folder that looks whole."""
    maven = _program("mvn")
    with tempfile.TemporaryDirectory(dir=lib.parent) as scratch:
        jars = Path(scratch) / "lib"
        command = [maven, "--batch-mode", "--quiet", "--file", str(pom), *options]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unavailable(f"Maven could not fetch what {pom} names: {done.stdout.strip()[:300]}")
        jars.rename(lib)


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise Unavailable(f"there is no {name} on the path")
    return path
