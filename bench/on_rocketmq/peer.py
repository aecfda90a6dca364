"""RocketMQ's own Java client as a process beside the bench, which gets its commands line by line."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from bench.report import Lap, cpu_s_of
from delayline.clock import SystemClock

SOURCE = Path(__file__).with_name("Peer.java")
_CLOCK = SystemClock()


class JavaPeer:
    """Made by `java_peer`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._answered("ready")

    def lap(self, act: str, count: int, lap: Lap) -> list[int]:
        """`send` so many batches, or another of `Peer.java`'s acts with so many messages; the lap grows by what it
        took. The figures that it has answered with."""
        wall_before, cpu_before = _CLOCK.monotonic_s(), cpu_s_of(self._process.pid)
        orders = _pipe(self._process.stdin)
        orders.write(f"{act} {count}\n")
        orders.flush()
        figures = self._answered("done")
        lap.wall_s += _CLOCK.monotonic_s() - wall_before
        lap.cpu_s += cpu_s_of(self._process.pid) - cpu_before
        return figures

    def _answered(self, word: str) -> list[int]:
        """Its logging speaks on the same stream."""
        for line in iter(_pipe(self._process.stdout).readline, ""):
            if line.split()[:1] == [word]:
                return list(map(int, line.split()[1:]))
        raise RuntimeError(f"the Java client has ended before it printed {word!r}")


@contextmanager
def java_peer(lib: Path, *arguments: str) -> Iterator[JavaPeer]:
    """Compiled, started, and ended by its pid."""
    with TemporaryDirectory() as folder:
        subprocess.run(["javac", "-d", folder, "-cp", f"{lib}/*", str(SOURCE)], check=True)
        options = ["-Xmx512m", "-XX:+UseSerialGC", f"-Duser.home={folder}"]
        command = ["java", *options, "-cp", f"{folder}:{lib}/*", "Peer", *arguments]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            yield JavaPeer(process)
        finally:
            process.kill()
            process.communicate()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None, "opened above"
    return pipe
