"""Java programs of ours on RocketMQ's jars."""

import shutil
import subprocess
from pathlib import Path

from tests.brokers.distribution import Unavailable
from tests.brokers.rocketmq import jars

_COMPILER = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-J-Xmx192m", "-proc:none", "-XDsuppressNotes"]
_SMALL = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def compiled(source: Path, folder: Path, *options: str) -> list[str]:
    """The command that runs this program, whose classes are in `folder`. Raises Unavailable."""
    lib = jars()
    if shutil.which("javac") is None:
        raise Unavailable("there is no javac on the path")
    subprocess.run(["javac", *_COMPILER, "-d", str(folder), "-cp", f"{lib}/*", str(source)], check=True)
    return ["java", *_SMALL, *options, "-cp", f"{lib}/*:{folder}", source.stem]
