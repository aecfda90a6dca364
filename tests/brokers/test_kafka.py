"""The brokers themselves: a test that kills one must be able to rely on what is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.brokers.distribution import OLDER, Unavailable
from tests.brokers.guard import __file__ as guard
from tests.brokers.kafka import Kafka
from tests.conftest import started
from tests.ports import is_listening


@pytest.mark.thorough
def test_a_killed_node_comes_back_on_its_port() -> None:
    with started(Kafka) as kafka:
        node = kafka.nodes[0]
        node.kill()
        gone = not is_listening(node.port)
        node.start()
        kafka.wait_ready()
        assert gone
        assert is_listening(node.port)


@pytest.mark.thorough
def test_of_three_nodes_two_go_on_without_the_third() -> None:
    with started(lambda: Kafka(3)) as kafka:
        kafka.nodes[0].kill()
        kafka.wait_ready()


@pytest.mark.thorough
def test_the_older_version_starts_too() -> None:
    with started(lambda: Kafka(version=OLDER)) as kafka:
        assert is_listening(kafka.nodes[0].port)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, guard, str(tmp_path / "log"), sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        with closing(process.stdout):
            yield process, int(process.stdout.readline())


def test_what_is_guarded_ends_with_its_starter(guarded: tuple[subprocess.Popen[str], int]) -> None:
    process, pid = guarded
    assert process.stdin
    process.stdin.close()
    process.wait(10)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_guard_ends_with_what_it_guards(guarded: tuple[subprocess.Popen[str], int]) -> None:
    process, pid = guarded
    os.kill(pid, signal.SIGKILL)
    assert process.wait(10) != 0


def test_without_java_there_is_no_broker_and_the_reason_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable, match="no java"):
        Kafka()
