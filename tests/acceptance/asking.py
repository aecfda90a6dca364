"""What a user does with a server: sends, waits, reads, types commands."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, TypeVar

import httpx

from tests import prepared
from tests.fault.server import ROOT, Server, environment, read_topic, variables

T = TypeVar("T")

HTTP = httpx.Client(timeout=10, headers={"delayline-request": "1"})
"""GroupTopicLimit one takes 20 ms."""

WITHIN_S = 120.0

DELAYLINE = Path(sys.executable).with_name("delayline")
"""The command, as an installation has it."""


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def run(*arguments: str, **settings: str) -> Ran:
    """`delayline ARGUMENTS`, with settings as environment variables."""
    return _ran(arguments, settings)


def run_in(folder: Path, /, *arguments: str, **settings: str) -> Ran:
    """The same, in a folder."""
    return _ran(arguments, settings, folder)


def run_with_input(stdin: bytes, /, *arguments: str, **settings: str) -> Ran:
    """The same, which reads `stdin`."""
    return _ran(arguments, settings, stdin=stdin)


def _ran(arguments: Sequence[str], settings: Mapping[str, str], cwd: Path = ROOT, stdin: bytes = b"") -> Ran:
    environ = environment(**variables(settings))
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        running = prepared.start(
            [str(DELAYLINE), *arguments], cwd=cwd, env=environ, stdin=given, stdout=out, stderr=err
        )
        try:
            code = running.wait(WITHIN_S)
        finally:
            running.kill()
        return Ran(code, _all(out), _all(err))


def _all(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def send(url: str, topic: str, values: Sequence[str], **schedule: Any) -> list[dict[str, Any]]:
    """One batch; the messages as the server describes them, after it has acknowledged all of them."""
    messages = [{"value": value, "schedule": schedule} for value in values]
    answer = HTTP.post(f"{url}/v1/topics/{topic}/messages", json={"messages": messages})
    assert answer.status_code == 201, answer.text
    return [result["message"] for result in answer.json()["results"]]


def delivered(url: str, topic: str = "orders") -> list[str]:
    """The values in a topic, sorted: a repeated one stands there twice."""
    return sorted(record["value"] for record in read_topic(url, topic))


def wait_for(ask: Callable[[], T], wanted: Callable[[T], bool], within_s: float = 30.0) -> T:
    """The first answer that is wanted, or else the last one."""
    deadline = time.monotonic() + within_s
    while not wanted(answer := ask()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return answer


def wait_delivered(server: Server, values: Sequence[str], topic: str = "orders") -> list[str]:
    """The values in the topic once there are as many as `values`, and a moment later: repeats would follow."""
    wait_for(lambda: len(delivered(server.url, topic)), lambda count: count >= len(values))
    time.sleep(0.3)
    return delivered(server.url, topic)


def numbers(count: int) -> list[str]:
    """`count` different values, sorted as text."""
    return [f"{number:04}" for number in range(count)]


def answer_of(ran: Ran) -> Any:
    """What a command with `--json` printed."""
    assert ran.code == 0, ran.err
    return json.loads(ran.out)
