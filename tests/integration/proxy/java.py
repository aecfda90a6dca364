"""Programs on Kafka's own Java client: its command line tools, from the jars of the test broker, and ours."""

import fcntl
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.brokers.distribution import CACHE, fetch
from tests.brokers.kafka import QUICK_START
from tests.brokers.kafka import java as jvm

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TIMEOUT_S = 60.0
CLASSES = CACHE.parent / "java"


def program(name: str, classes: Path | None = None, *options: str) -> list[str]:
    """The command that runs a class of the jars, or one of `classes`."""
    return [*jvm(fetch(), [*QUICK_START, *options], str(classes or "")), name]


def compiled(source: Path) -> Path:
    """The folder of a source file's classes, made where they are older than it. Needs a JDK."""
    folder = CLASSES / source.stem
    made = folder / f"{source.stem}.class"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # two test processes may need it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            command = ["javac", "-d", str(folder), "-cp", f"{fetch()}/*", str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    return folder


def java(tool: str, arguments: Sequence[str], text: str = "", classes: Path | None = None) -> str:
    """What the tool prints, with `text` as its input."""
    command = [*program(tool, classes), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
