"""The units in deploy/systemd, as far as that can be looked at where systemd is not at work."""

import configparser
import itertools
import re
import shlex
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from delayline.config.layers import SYSTEM_CONFIG
from tests.deploy.commands import parse
from tests.fault.server import ROOT

FOLDER = ROOT / "deploy" / "systemd"
SERVICE, TIMER = (FOLDER / f"delayline-reconcile.{kind}" for kind in ("service", "timer"))
QUARTER = timedelta(minutes=15)
EXPOSURE_MAX = 2.0
"""What `systemd-analyze security` calls "OK" begins at 4; below that it is safer."""


def unit(path: Path) -> configparser.ConfigParser:
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment]  # as its documentation has it
    read.read_string(path.read_text())
    return read


def analyze(*arguments: str) -> str:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    ran = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units where the command that they start is this clone's."""
    program = str(Path(sys.executable).with_name("delayline"))
    for path in (SERVICE, TIMER):
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/delayline/.venv/bin/delayline", program))
    return tmp_path


def test_systemd_finds_nothing_wrong(installed: Path) -> None:
    analyze("verify", "--man=no", str(installed / SERVICE.name), str(installed / TIMER.name))


def test_the_service_may_do_little_beside_its_work(installed: Path) -> None:
    output = analyze("security", "--offline=true", "--no-pager", str(installed / SERVICE.name))
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", output)
    assert float(exposure) < EXPOSURE_MAX, output


def test_the_timer_starts_the_service_every_quarter_of_an_hour() -> None:
    timer = unit(TIMER)["Timer"]
    output = analyze("calendar", "--iterations=8", timer["OnCalendar"])
    moments = [datetime.fromisoformat(found) for found in re.findall(r": \w+ ([\d-]+ [\d:]+) UTC", output)]
    assert len(moments) == 8
    assert {later - earlier for earlier, later in itertools.pairwise(moments)} == {QUARTER}
    assert (timer["Persistent"], timer.get("Unit")) == ("true", None)
    assert SERVICE.stem == TIMER.stem, "the unit that a timer starts where it names none"


def test_the_command_is_one_and_writes_where_the_unit_lets_it() -> None:
    service = unit(SERVICE)["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert (program.endswith("/.venv/bin/delayline"), parse(arguments)) == (True, "reconcile run")
    output = Path(arguments[arguments.index("--output") + 1])
    assert output.parent == Path("/var/lib") / service["StateDirectory"] == Path(service["WorkingDirectory"])
    assert "--config" not in arguments, f"{SYSTEM_CONFIG} is found without it"
    assert f"SPARK_LOCAL_DIRS=/var/cache/{service['CacheDirectory']}" in shlex.split(service["Environment"])


def test_findings_fail_the_unit_and_are_not_tried_again_at_once() -> None:
    service = unit(SERVICE)["Service"]
    assert service["Type"] == "oneshot"
    assert [name for name in ("SuccessExitStatus", "Restart", "RestartForceExitStatus") if name in service] == []


def test_the_page_installs_the_files_that_there_are() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("cp deploy/systemd/"))
    assert {ROOT / name for name in shlex.split(line)[1:-1]} == set(FOLDER.iterdir())
    assert (
        f"useradd --system --home-dir /var/lib/delayline --shell /usr/sbin/nologin {unit(SERVICE)['Service']['User']}"
        in page
    )
