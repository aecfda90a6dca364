"""What docs/deploy.md tells an operator to type and to watch."""

import re
import shlex

import pytest

from tests.deploy.commands import parse
from tests.deploy.test_image import ROOT

TEXT = (ROOT / "docs" / "deploy.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
LINES = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`delayline ([a-z][a-z ]*)`", TEXT))))
def test_a_command_on_the_page_is_one(command: str) -> None:
    options = ["--output", "x"] if command.startswith("reconcile run") else []
    assert parse([*command.split(), *options]) == command


def test_images_are_built_as_the_dockerfile_says() -> None:
    built = [shlex.split(line) for line in LINES if line.startswith("docker build ")]
    said = re.findall(r"^#\s+(docker build .*?)(?:\s+#.*)?$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert built == [shlex.split(line) for line in said]


def test_the_keys_of_the_secret_are_those_that_the_settings_name() -> None:
    (line,) = (line for line in LINES if "create secret" in line)
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
        for room in ("api", "delay_service", "delayline", "proxy")
        for path in (ROOT / room).rglob("*.py")
    )
    named = re.findall(r"^\| `(delayline_\w+?)(?:_total)?` \|", TEXT, re.MULTILINE)
    assert len(named) > 5
    assert [name for name in named if f'"{name}"' not in code and f'"{name}_total"' not in code] == []
