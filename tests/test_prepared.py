"""Processes that are forked from a prepared one are as those that are started anew."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import prepared
from tests.acceptance.asking import wait_for
from tests.fault.server import COMMAND, ROOT, Server, environment, variables
from tests.ports import free_port

WITHIN_S = 30.0

pytestmark = pytest.mark.slow

Run = Callable[..., tuple[prepared.Running, Path]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts a program; the process, and what it writes."""
    made: list[prepared.Running] = []

    def start(program: str, *arguments: str, **more: str) -> tuple[prepared.Running, Path]:
        path, output = (tmp_path / f"{len(made)}.{kind}" for kind in ("py", "txt"))
        path.write_text(program)
        with output.open("wb") as out:
            command = [str(path), *arguments]
            made.append(prepared.start(command, cwd=tmp_path, env=environment(**more), stdout=out, stderr=out))
        return made[-1], output

    yield start
    for one in made:
        one.kill()


def test_a_program_has_its_arguments_its_variables_its_folder_and_its_exit_code(run: Run, tmp_path: Path) -> None:
    program = "import os, sys; print(sys.argv[1:], os.environ['COLOUR'], os.getcwd(), os.getpid()); sys.exit(7)"
    process, output = run(program, "a", "b c", COLOUR="red")
    assert process.wait(WITHIN_S) == 7
    assert output.read_text().split(maxsplit=4) == ["['a',", "'b", "c']", "red", f"{tmp_path} {process.pid}\n"]


def test_a_program_that_throws_ends_with_1_and_a_traceback(run: Run) -> None:
    process, output = run("raise KeyError('surprise')")
    assert process.wait(WITHIN_S) == 1
    assert output.read_text().endswith("KeyError: 'surprise'\n")


def test_a_signal_ends_a_process_with_its_number(run: Run) -> None:
    process, _ = run("import time; time.sleep(600)")
    assert process.poll() is None
    process.kill()
    assert process.wait(WITHIN_S) == -signal.SIGKILL
    process.send_signal(signal.SIGKILL)  # it has ended: nothing is hit


def test_a_process_that_goes_on_is_waited_for_no_longer_than_that(run: Run) -> None:
    process, _ = run("import time; time.sleep(600)")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)


@pytest.mark.skipif(not prepared.PREPARED, reason="every process is started anew")
def test_a_process_is_killed_when_its_starter_is(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from tests import prepared
        prepared.PREPARED = True
        with open(sys.argv[1], "wb") as out:
            running = prepared.start(["-m", "http.server", "0", "--bind", "127.0.0.1"], stdout=out, stderr=out)
        print(running.pid, flush=True)
        sys.stdin.read()
        """
    )
    command = [sys.executable, "-c", program, str(tmp_path / "printed")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        starter.kill()
    assert not wait_for(Path(f"/proc/{pid}").exists, lambda exists: not exists)


def test_nothing_of_the_starter_or_of_other_processes_is_left_open(run: Run) -> None:
    first, _ = run("import time; time.sleep(600)")
    process, output = run("import os; print(sorted(os.listdir('/proc/self/fd'))[:4])")
    assert process.wait(WITHIN_S) == 0
    assert output.read_text() == "['0', '1', '2', '3']\n"  # 3: the folder that it lists
    assert first.poll() is None


@pytest.mark.parametrize("command", ["serve", "worker", "api"])
def test_a_command_needs_nothing_that_another_has_imported(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started anew. Elsewhere `make test` would not see it."""
    monkeypatch.setattr(prepared, "PREPARED", False)
    kafka = {} if command == "serve" else {"mq__kind": "kafka", "mq__bootstrap_servers": "127.0.0.1:1"}
    server = Server(tmp_path / "data", command, **kafka)
    server.start()
    try:
        assert server.wait_alive() >= 0
    finally:
        server.kill()


@pytest.mark.parametrize("kind", ["kafka", "rocketmq"])
def test_a_proxy_needs_nothing_that_another_command_has_imported(kind: str, tmp_path: Path) -> None:
    """Started anew: it gets as far as its broker, of which there is none."""
    ports = {f"proxy__{kind}__port": str(free_port()), f"proxy__{kind}__metrics_port": "0"}
    settings = {"mq__kind": kind, "mq__bootstrap_servers": "127.0.0.1:1", **ports}
    command = [sys.executable, *COMMAND, "proxy", kind]
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment(**variables(settings)), stdout=out, stderr=out
        )
    try:
        output = wait_for(log.read_text, lambda text: "127.0.0.1:1" in text)
    finally:
        process.kill()
        process.wait()
    assert ("127.0.0.1:1" in output, "Traceback" in output) == (True, False), output
