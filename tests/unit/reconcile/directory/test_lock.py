"""One run at a time."""

import os
import socket
import subprocess
import sys

import pytest
from msgspec.structs import replace

from reconcile.directory.files import MemoryFiles
from reconcile.directory.lock import LOCK, Holder, Lock, is_gone, this_process
from reconcile.errors import RunInProgress

OURS = this_process(1_767_225_600_000)


def test_a_second_at_once_is_refused_with_the_holder_and_what_to_remove() -> None:
    files = MemoryFiles()
    Lock(files, OURS).take()
    with pytest.raises(RunInProgress) as refused:
        Lock(files, replace(OURS, since_ms=1)).take()
    who = f"process {os.getpid()} on {socket.gethostname()} since 2026-01-01T00:00:00.000Z"
    assert str(refused.value) == (
        f"another run writes into this directory: {who}. If it has been killed, remove memory:/lock and start again; "
        "what it began is repeated."
    )


def test_a_released_lock_is_free() -> None:
    files = MemoryFiles()
    first = Lock(files, OURS)
    first.take()
    first.release()
    Lock(files, OURS).take()
    assert files.exists(LOCK)


def test_the_lock_of_a_process_that_has_ended_is_taken_over() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    files, lock = MemoryFiles(), Lock(MemoryFiles(), OURS)
    Lock(files, replace(OURS, pid=child.pid)).take()
    lock = Lock(files, OURS)
    lock.take()
    lock.check()


def test_a_process_with_the_number_of_one_that_has_ended_is_another_one() -> None:
    assert not is_gone(OURS)
    assert is_gone(replace(OURS, born=OURS.born - 1))


def test_of_another_machine_nobody_knows() -> None:
    assert not is_gone(Holder("elsewhere", 1, 0, 0))


def test_a_lock_that_cannot_be_read_is_somebodys() -> None:
    files = MemoryFiles()
    files.write(LOCK, b"?")
    with pytest.raises(RunInProgress, match="cannot be read"):
        Lock(files, OURS).take()


def test_a_run_that_has_lost_the_lock_gets_an_error_and_leaves_it_alone() -> None:
    files = MemoryFiles()
    lock = Lock(files, OURS)
    lock.take()
    files.write(LOCK, b"another's")
    with pytest.raises(RunInProgress):
        lock.check()
    lock.release()
    assert files.read(LOCK) == b"another's"
