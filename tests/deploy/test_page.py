"""The commands and metrics of docs/deploy.md."""

import re
import shlex
import sqlite3
from contextlib import closing

import pytest

from tests.deploy.commands import parse
from tests.deploy.test_image import ROOT

TEXT = (ROOT / "docs" / "deploy.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
LINES = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`delayline ([a-z][a-z ]*)`", TEXT))))
def test_a_command_on_the_page_is_one(command: str) -> None:
    options = {"reconcile run": ["--output", "x"], "reconcile export": ["x", "--to", "y"]}
    assert parse([*command.split(), *options.get(command, [])]) == command


def test_images_are_built_as_in_the_dockerfile() -> None:
    built = [shlex.split(line) for line in LINES if line.startswith("docker build ")]
    found = re.findall(r"^#\s+(docker build .*?)(?:\s+#.*)?$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert built == [shlex.split(line) for line in found]


def test_the_keys_of_the_secret_are_those_that_the_settings_name() -> None:
    line, _with_certificates = (line for line in LINES if "create secret" in line)
    config = (ROOT / "deploy" / "kubernetes" / "delayline.toml").read_text()
    assert set(re.findall(r"--from-literal=([\w-]+)=", line)) == set(
        re.findall(r"/run/secrets/delayline/([\w-]+)", config)
    )


def test_a_make_target_on_the_page_is_one() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = [line.split()[1] for line in LINES if line.startswith("make ")]
    assert targets
    assert [target for target in targets if f"\n{target}:" not in makefile] == []


def test_every_metric_on_the_page_is_one_of_ours() -> None:
    code = "".join(
        path.read_text()
        for room in ("api", "cli", "delay_service", "delayline", "proxy")
        for path in (ROOT / room).rglob("*.py")
    )
    named = re.findall(r"^\| `(delayline_\w+?)(?:_total)?` \|", TEXT, re.MULTILINE)
    assert len(named) > 5
    assert [name for name in named if f'"{name}"' not in code and f'"{name}_total"' not in code] == []


def test_what_the_page_types_of_ours_is_a_command() -> None:
    lines = [shlex.split(line, comments=True) for line in LINES if line.startswith("delayline ")]
    assert {parse(arguments) for _, *arguments in lines} == {"kafka acls", "reconcile export"}


def test_the_query_on_the_page_finds_what_is_true_of_windows_that_were_judged_again() -> None:
    (query,) = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    with closing(sqlite3.connect(":memory:")) as here:
        here.execute("CREATE TABLE windows (topic TEXT, window_ms BIGINT, version INT, run INT)")
        here.execute("CREATE TABLE findings (topic TEXT, window_ms BIGINT, run INT, id TEXT)")
        here.execute("INSERT INTO windows VALUES ('a', 0, 1, 1), ('a', 0, 2, 3), ('a', 5, 1, 1), ('b', 0, 1, 3)")
        here.execute("INSERT INTO findings VALUES ('a', 0, 1, 'came late'), ('a', 0, 3, 'x'), ('a', 5, 1, 'y')")
        assert {row[3] for row in here.execute(query).fetchall()} == {"x", "y"}
