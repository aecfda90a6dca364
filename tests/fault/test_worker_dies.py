"""A worker that ends by itself takes the process with it, and the process reports that it failed."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fault.server import ROOT
from tests.ports import free_port

PROGRAM = """
import sys
from rocksdict import Rdict
from delay_service.worker.loop import Worker
from cli.main import main

def fail(worker):
    raise RuntimeError("the worker broke")

def write_on_and_on(worker):
    number = 0
    index = Rdict(sys.argv[sys.argv.index("--data-dir") + 1] + "/own")
    while True:
        index[number] = number
        index.flush()
        number += 1

setattr(Worker, sys.argv.pop(1), globals()[sys.argv.pop(1)])
main()
"""


@contextmanager
def server(method: str, deed: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """One whose worker does something else in this method."""
    arguments = [method, deed, "serve", "--data-dir", str(folder), "--port", str(free_port())]
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_worker_that_dies_before_the_server_listens_ends_the_process_with_1(tmp_path: Path) -> None:
    with server("run", "fail", tmp_path) as process:
        output, _ = process.communicate(timeout=20)
    assert (process.returncode, "the worker broke" in output) == (1, True)


def test_a_worker_that_dies_of_a_clean_stop_ends_the_process_with_1(tmp_path: Path) -> None:
    with server("_finish", "fail", tmp_path) as process:
        output = stopped(process)
    assert (process.returncode, "the worker broke" in output) == (1, True)


def test_a_worker_that_does_not_end_in_time_is_cut_off_and_the_process_ends_with_0(tmp_path: Path) -> None:
    """Whatever it does: RocksDB's own end would take the process with it, with SIGABRT."""
    with server("_finish", "write_on_and_on", tmp_path) as process:
        output = stopped(process)
    assert (process.returncode, "did not end in time" in output) == (0, True)


def stopped(process: subprocess.Popen[str]) -> str:
    """Its output once it listens and is signalled to end."""
    assert process.stdout is not None
    while "listens on" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=20)
    return output
