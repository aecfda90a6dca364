"""A worker that ends by itself takes the process with it, and the process says that it failed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fault.server import ROOT, free_port

PROGRAM = """
import sys
from delay_service.worker import Worker
from delayline.cli.main import main

def fail(worker):
    raise RuntimeError("the worker broke")

setattr(Worker, sys.argv.pop(1), fail)
main()
"""


@contextmanager
def server_that_fails_in(method: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    arguments = [method, "serve", "--data-dir", str(folder), "--port", str(free_port())]
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_worker_that_dies_before_the_server_listens_ends_the_process_with_1(tmp_path: Path) -> None:
    with server_that_fails_in("run", tmp_path) as process:
        said, _ = process.communicate(timeout=20)
    assert (process.returncode, "the worker broke" in said) == (1, True)


def test_a_worker_that_dies_of_a_clean_stop_ends_the_process_with_1(tmp_path: Path) -> None:
    with server_that_fails_in("_finish", tmp_path) as process:
        assert process.stdout is not None
        while "listens on" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=20)
    assert (process.returncode, "the worker broke" in said) == (1, True)
