"""Programs on other people's client libraries, fetched from packages and built once into .cache/foreign.

Each takes the same arguments and prints the same lines:

    produce SERVERS TOPIC COUNT    values 0 to COUNT - 1, every third with `delay: 1s`; idempotent where it can
    consume SERVERS TOPIC COUNT    from the beginning, committed records, until so many values, or 20 s of nothing
    refused SERVERS TOPIC          value 0 with `delay: soon`, then value 1 with `delay: 1s`

    acked VALUE OFFSET  |  failed VALUE REASON  |  read PARTITION OFFSET VALUE
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.brokers.distribution import CACHE, Unavailable, copy_once

HERE = Path(__file__).parent
BUILT = CACHE.parent / "foreign"
BUILD_S = 900
JAVA_VERSIONS = ("0.11.0.3", "1.1.1", "2.0.1", "2.8.2", "3.0.2", "3.9.2", "4.0.0", "4.3.1")
STREAMS_VERSION = "4.3.1"


def run(command: Sequence[str], folder: Path, **environ: str) -> None:
    """Raises Unavailable where the tool is not here, or fails."""
    if shutil.which(command[0]) is None:
        raise Unavailable(f"there is no {command[0]} on the path")
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
        env={**os.environ, **environ},
    )
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-800:]}")


def built(sources: str, build: Callable[[Path], None]) -> Path:
    """A copy of a folder of sources beside this file, built where they are newer than what was built last."""
    source, folder = HERE / sources, BUILT / sources
    folder.mkdir(parents=True, exist_ok=True)
    newest = max(path.stat().st_mtime for path in source.rglob("*") if path.is_file())
    stamp = folder / ".built"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.stat().st_mtime < newest:
            shutil.copytree(source, folder, dirs_exist_ok=True)
            build(folder)
            stamp.touch()
    return folder


def _go(name: str) -> list[str]:
    folder = built("go", lambda at: run(["go", "build", "-o", f"{at}/bin/", "./..."], at))
    return [str(folder / "bin" / name)]


def _node(name: str) -> list[str]:
    folder = built("node", lambda at: run(["npm", "install", "--no-audit", "--no-fund"], at))
    return ["node", str(folder / f"{name}.mjs")]


def _rust() -> list[str]:
    folder = built("rust", lambda at: run(["cargo", "build", "--quiet"], at, CARGO_TARGET_DIR=f"{at}/target"))
    return [str(folder / "target" / "debug" / "foreign")]


def _python(name: str) -> list[str]:
    return [sys.executable, str(HERE / "python" / f"{name}_program.py")]


def java(version: str, program: str = "Foreign") -> list[str]:
    """The program on this version of Kafka's own client."""
    source = HERE / "java" / f"{program}.java"
    in_flight = "-Din.flight=1" if version.startswith("0.") else "-Din.flight=5"  # the first version allowed no more
    return java_program(source, BUILT / "java" / version, f"-Dclient.version={version}", run_with=[in_flight])


def java_program(source: Path, lib: Path, *properties: str, run_with: Sequence[str] = ()) -> list[str]:
    """The program on the jars of the `pom.xml` beside it, with these properties, which `lib` holds."""
    copy_once(source.with_name("pom.xml"), lib, *properties)
    classes = lib.with_name(f"{lib.name}-classes")
    made = classes / f"{source.stem}.class"
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        run(["javac", "-nowarn", "-d", str(classes), "-cp", f"{lib}/*", str(source)], HERE)
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", *run_with, "-cp", f"{classes}:{lib}/*", source.stem]


PROGRAMS: Mapping[str, Callable[[], list[str]]] = {
    "franz-go": lambda: _go("franz"),
    "sarama": lambda: _go("sarama"),
    "kafka-go": lambda: _go("segmentio"),
    "kafkajs": lambda: _node("kafkajs"),
    "@platformatic/kafka": lambda: _node("platformatic"),
    "rskafka": _rust,
    "aiokafka": lambda: _python("aiokafka"),
    "kafka-python": lambda: _python("kafka_python"),
    **{f"Java {version}": lambda version=version: java(version) for version in JAVA_VERSIONS},
}
