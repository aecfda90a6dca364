"""Java's class archive (JEP 350, AppCDS), with which Spark starts in two thirds of the CPU time: classes that a run
needs are mapped from a file instead of read from 300 jars and verified. `delayline reconcile prepare` makes it once
(warm_up.py).

It belongs to one Java and one pyspark. Java itself checks that: an archive that does not fit is ignored, and the run
takes as long as without it. What Java 17 does not check is the end: it dies (SIGBUS) of a file that was cut. So the
name has the size in it, and a file of another size is not used."""

import sys
from importlib.metadata import version
from pathlib import Path

QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Java warns of each class that it leaves out, and of an archive that it does not take."""


def folder() -> Path:
    """Beside the packages that archives are made from, and gone with them."""
    return Path(sys.prefix) / "share" / "delayline"


def class_archive() -> Path | None:
    """The whole one of this pyspark, if there is one."""
    return next((path for path in _archives() if path.name == _name(path.stat().st_size)), None)


def _archives() -> list[Path]:
    return sorted(folder().glob(_name("*")))


def _name(size: int | str) -> str:
    return f"spark-{version('pyspark')}-{size}.jsa"


def java_options() -> str:
    """For a JVM that starts here: with the archive, if there is one."""
    path = class_archive()
    # Java takes options apart at spaces, and Spark has no way to write one in a path.
    if path is None or " " in str(path):
        return ""
    return f" -Xshare:auto -XX:SharedArchiveFile={path} {QUIET}"


def put(made: Path) -> Path:
    """In its place, in one step; a run that has mapped an older one keeps what it has."""
    path = folder() / _name(made.stat().st_size)
    made.replace(path)
    for older in _archives():
        if older != path:
            older.unlink()
    return path
