"""No process that runs until it is stopped leaves its memory in a file, unless its settings allow it."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.asking import wait_for
from tests.fault.server import COMMAND, ROOT, environment, variables
from tests.ports import free_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")


def _allow() -> None:
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


@contextmanager
def served(folder: Path, **settings: str) -> "Iterator[subprocess.Popen[bytes]]":
    """A server that its parent allows to write dumps, at work in a folder of its own."""
    given = variables({"data_dir": str(folder / "data"), "api__port": str(free_port()), **settings})
    environ = environment(PYTHONPATH=str(ROOT), **given)
    command = [sys.executable, *COMMAND, "serve"]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=out, stderr=out, preexec_fn=_allow)
    try:
        wait_for(log.read_text, lambda text: "Delayline" in text)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


def limit_of(pid: int) -> list[str]:
    """Soft and hard, of core files."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line.split()[4:6] for line in lines if line.startswith("Max core file size"))


def dumped(process: "subprocess.Popen[bytes]") -> bool:
    """Whether it leaves a dump when such a signal ends it."""
    os.kill(process.pid, signal.SIGSEGV)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = -os.WTERMSIG(status)
    return os.WCOREDUMP(status)


def test_a_server_leaves_none_whatever_its_parent_allows(tmp_path: Path) -> None:
    with served(tmp_path) as process:
        assert limit_of(process.pid) == ["0", "0"]
        assert not dumped(process)
    assert not list(tmp_path.rglob("core*"))


def test_for_debugging_a_setting_leaves_it_to_the_parent(tmp_path: Path) -> None:
    with served(tmp_path, process__memory_dumps="true") as process:
        assert limit_of(process.pid)[0] == limit_of(os.getpid())[1]
        assert dumped(process) == _leaves_dumps_here(tmp_path)


def _leaves_dumps_here(folder: Path) -> bool:
    """Whether this machine writes a dump of a process that is allowed to."""
    return dumped(subprocess.Popen(["sleep", "600"], cwd=folder, preexec_fn=_allow))
