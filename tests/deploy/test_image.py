"""The Dockerfile, as far as that can be looked at without an engine: there is none where the tests run."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from delayline import __version__
from tests.fault.server import ROOT
from tests.test_tidy import PACKAGES, tracked

TARGETS = {"service": "delayline", "reconcile": "delayline-reconcile"}
PINNED = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*:\d+\.\d+\.\d+(-[a-z0-9.-]+)?")
"""No host, no `latest`."""


def stages() -> dict[str, list[str]]:
    """Instructions by stage, the FROM line first; lines that go on are one."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", "")
    found: dict[str, list[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        if begins := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            found[begins[2]] = []
        next(reversed(found.values())).append(re.sub(r"\s+", " ", line))
    return found


def context() -> list[str]:
    """The files that .dockerignore lets into the context."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    kept = tuple(line[1:] for line in lines if line.startswith("!"))
    return [name for name in tracked() if name.split("/")[0] in kept]


def test_every_stage_stands_on_an_earlier_one_or_on_a_pinned_image() -> None:
    earlier: set[str] = set()
    for stage, (begins, *_) in stages().items():
        base = begins.split()[1]
        assert base in earlier or PINNED.fullmatch(base), begins
        earlier.add(stage)


def test_the_python_of_the_images_is_the_one_that_the_requirements_are_pinned_for() -> None:
    (base,) = {one[0].split()[1] for one in stages().values() if ":" in one[0]}
    pinned_for = re.search(r"--python-version (\S+)", (ROOT / "Makefile").read_text())
    assert pinned_for is not None
    assert base.startswith(f"python:{pinned_for[1]}.")


@pytest.mark.parametrize("target", TARGETS)
def test_an_image_runs_delayline_and_not_as_root(target: str) -> None:
    instructions = stages()[target]
    assert 'ENTRYPOINT ["delayline"]' in instructions
    assert [line for line in instructions if line.startswith("USER")] == ["USER 10001:10001"]
    after = instructions[instructions.index("USER 10001:10001") :]
    assert not [line for line in after if line.startswith(("RUN", "COPY"))]


@pytest.mark.parametrize(("stage", "extra"), [("build-service", "kafka"), ("build-reconcile", "reconcile")])
def test_an_image_has_the_pinned_requirements_of_its_commands(stage: str, extra: str) -> None:
    installed = f"RUN pip install --require-hashes -r requirements/{extra}.txt"
    assert installed in stages()[stage]
    assert f"requirements/{extra}.txt" in context()


@pytest.mark.parametrize("extra", ["kafka", "reconcile"])
def test_an_image_has_what_the_client_of_rocketmq_imports(extra: str) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["rocketmq"]
    pinned = re.findall(r"^([\w-]+)==", (ROOT / "requirements" / f"{extra}.txt").read_text(), re.MULTILINE)
    assert set(wanted) <= set(pinned)


def test_the_files_named_carry_the_version_of_the_program() -> None:
    for target, image in TARGETS.items():
        assert re.search(
            rf"--target {target} +-t {image}:{re.escape(__version__)} ", (ROOT / "Dockerfile").read_text()
        )


def test_what_the_images_are_given_is_the_whole_program(tmp_path: Path) -> None:
    for name in context():
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "src" / name)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*pip, "--target", tmp_path / "site", tmp_path / "src"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours = {name for name in tracked() if name.split("/")[0] in PACKAGES}
    assert sorted(name for name in ours if not (tmp_path / "site" / name).is_file()) == []
