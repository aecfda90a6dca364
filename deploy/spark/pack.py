"""What a Spark cluster is sent with the reconcile job: `make spark-package`, or `python deploy/spark/pack.py FOLDER`.

    FOLDER/reconcile_job.py   what is submitted
    FOLDER/delayline.zip      the code (--py-files): delayline, kafkawire, mq, reconcile, rocketmq
    FOLDER/pyenv.tar.gz       the environment of the executors (--archives pyenv.tar.gz#pyenv): the pinned
                              requirements of the job less pyspark, which the cluster has
    FOLDER/pyenv/             the same for the driver: Spark starts Python on both sides by one path,
                              ./pyenv/bin/python

The environment holds no Python itself but a link to the one that it was made with: the nodes need the same version at
the same path. `--python` names the path where they have it.
"""

import argparse
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

ROOT = Path(__file__).resolve().parents[2]
CODE = ("delayline", "kafkawire", "mq", "reconcile", "rocketmq")
OF_THE_CLUSTER = ("pyspark", "py4j")
"""Executors take these from their Spark: another version beside it would be found first."""


def slim(requirements: str) -> str:
    """Pinned requirements without those that the cluster has. An entry begins in the first column and goes on in
    indented lines."""
    entries = re.split(r"^(?=\S)", requirements, flags=re.MULTILINE)
    return "".join(entry for entry in entries if not entry.startswith(tuple(f"{name}==" for name in OF_THE_CLUSTER)))


def pack_code(folder: Path) -> None:
    """All files of the packages, also those that are no Python: the report has a template."""
    shutil.copy(ROOT / "reconcile" / "__main__.py", folder / "reconcile_job.py")
    with ZipFile(folder / "delayline.zip", "w", ZIP_DEFLATED) as archive:
        for path in sorted(path for room in CODE for path in (ROOT / room).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT))


def pack_environment(folder: Path, python: str | None) -> None:
    """Always a new one: what is in an environment that is used, nobody knows."""
    environment, pinned = folder / "pyenv", folder / "requirements.txt"
    shutil.rmtree(environment, ignore_errors=True)
    venv.create(environment, symlinks=True)
    pinned.write_text(slim((ROOT / "requirements" / "reconcile.txt").read_text()))
    into = ["--python", str(environment), "--disable-pip-version-check"]
    install = ["install", "--quiet", "--require-hashes", "-r", str(pinned)]
    subprocess.run([sys.executable, "-m", "pip", *into, *install], check=True)
    prefix = ["--python-prefix", str(Path(python).parent.parent)] if python else []
    without = ["--exclude", "*/tests/*"]  # a third of the files, which every executor unpacks
    where = ["--prefix", str(environment), "--output", f"{environment}.tar.gz", "--force"]
    subprocess.run([sys.executable, "-m", "venv_pack", "--quiet", *where, *without, *prefix], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", help="where the nodes have this version of Python, as /usr/bin/python3.11")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    pack_code(given.folder)
    pack_environment(given.folder, given.python)
    for name in ("delayline.zip", "pyenv.tar.gz"):
        print(f"{given.folder / name}: {(given.folder / name).stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
