"""What a Spark cluster is sent with the reconcile job: `make spark-package`, or `python deploy/spark/pack.py FOLDER`.

    FOLDER/delayline.zip    the code (--py-files): delayline, mq, reconcile
    FOLDER/pyenv.tar.gz     the environment of the executors (--archives ...#pyenv): the pinned requirements of the
                            job less pyspark, which the cluster has

The archive holds no Python itself but a link to the one it was made with: the nodes need the same version at the same
path. `--python` says at which path they have it.
"""

import argparse
import re
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

ROOT = Path(__file__).resolve().parents[2]
CODE = ("delayline", "mq", "reconcile")
OF_THE_CLUSTER = ("pyspark", "py4j")
"""Executors take these from their Spark: another version beside it would be found first."""


def slim(requirements: str) -> str:
    """Pinned requirements without those that the cluster has. An entry begins in the first column and goes on in
    indented lines."""
    entries = re.split(r"^(?=\S)", requirements, flags=re.MULTILINE)
    return "".join(entry for entry in entries if not entry.startswith(tuple(f"{name}==" for name in OF_THE_CLUSTER)))


def pack_code(target: Path) -> None:
    """All files of the packages, also those that are no Python: the report has a template."""
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for path in sorted(path for room in CODE for path in (ROOT / room).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT))


def pack_environment(target: Path, python: str | None) -> None:
    """Makes a new environment: one that is used has more in it, and ours is not in a place of its own."""
    with TemporaryDirectory(dir=target.parent) as scratch:
        folder = Path(scratch) / "pyenv"
        venv.create(folder, symlinks=True)
        pinned = Path(scratch) / "requirements.txt"
        pinned.write_text(slim((ROOT / "requirements" / "reconcile.txt").read_text()))
        into = ["--python", str(folder), "--disable-pip-version-check"]
        install = ["install", "--quiet", "--require-hashes", "-r", str(pinned)]
        subprocess.run([sys.executable, "-m", "pip", *into, *install], check=True)
        packed = Path(scratch) / target.name
        prefix = ["--python-prefix", str(Path(python).parent.parent)] if python else []
        without = ["--exclude", "*/tests/*"]  # a third of the files, which every executor unpacks
        command = ["-m", "venv_pack", "--quiet", *without, "--prefix", str(folder), "--output", str(packed), *prefix]
        subprocess.run([sys.executable, *command], check=True)
        packed.chmod(0o644)
        packed.replace(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", help="where the nodes have this version of Python, as /usr/bin/python3.11")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    pack_code(given.folder / "delayline.zip")
    pack_environment(given.folder / "pyenv.tar.gz", given.python)
    for name in ("delayline.zip", "pyenv.tar.gz"):
        print(f"{given.folder / name}: {(given.folder / name).stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
