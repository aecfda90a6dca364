"""The commands of README.md, run."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.asking import DELAYLINE
from tests.fault.server import ROOT, Server, environment

README = (ROOT / "README.md").read_text()
DEFAULT_URL = "http://127.0.0.1:8080"
CURL = re.compile(r"^ *(curl .*\\\n.*)$", re.MULTILINE)


def curl_in(text: str) -> str:
    """The only curl command of the text, on one line."""
    (command,) = CURL.findall(text)
    return re.sub(r"\\\n\s*", "", command)


def typed_at(command: str, server: Server) -> str:
    return command.replace(DEFAULT_URL, server.url).replace(".venv/bin/delayline", str(DELAYLINE))


def test_tail_shows_the_message_of_the_readme_when_it_is_due(server: Server) -> None:
    (tail,) = re.findall(r"^ +(\.venv/bin/delayline tail .*)$", README, re.MULTILINE)
    command = [*(typed_at(word, server) for word in tail.split()), "--url", server.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tailing:
        try:
            answer = subprocess.run(
                typed_at(curl_in(README), server), shell=True, capture_output=True, text=True, timeout=10, check=True
            )
            assert tailing.stdout is not None
            line = tailing.stdout.readline()
        finally:
            tailing.kill()
    found = re.search(r'"message_id":"(orders\.\d\.0\.\d+)".*"due_at":"[^T]+T([^"]+)\.\d+Z"', answer.stdout)
    assert found is not None, answer.stdout
    moment, message_id, value = line.split()
    assert (message_id, value) == (found[1], '{"order":7}')
    assert moment >= found[2]


def test_the_server_prints_at_its_start_what_the_readme_describes(server: Server) -> None:
    welcome = server.log.read_text()
    assert f"listens on {server.url} (embedded queue, data in {server.data_dir})" in welcome
    assert curl_in(welcome) == typed_at(curl_in(README), server)
    assert f"tail orders --url {server.url}\n" in welcome


@pytest.mark.thorough
def test_the_server_prints_its_port_where_any_may_be_taken(tmp_path: Path) -> None:
    command = [str(DELAYLINE), "serve", "--port", "0", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as serving:
        assert serving.stdout is not None
        serving.stdout.readline()
        line = serving.stdout.readline().decode()
        serving.kill()
    assert re.search(r"listens on http://127\.0\.0\.1:[1-9]\d{3,} ", line)
