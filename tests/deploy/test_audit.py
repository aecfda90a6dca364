"""`make audit`, with a pip-audit that answers what the tests want."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import audit
from tests.test_tidy import ROOT

FOUND = {"name": "left", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
CLEAN = {"name": "right", "version": "2.0", "vulns": []}
UNKNOWN = {"name": "own", "skip_reason": "not found"}


def ran(tmp_path: Path, report: str, *options: str) -> subprocess.CompletedProcess[str]:
    fake = tmp_path / "pip-audit"
    fake.write_text(f"#!{sys.executable}\nprint({report!r})\n")
    fake.chmod(0o755)
    command = [sys.executable, str(ROOT / "deploy" / "audit.py"), str(tmp_path), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def report(*packages: object) -> str:
    return json.dumps({"dependencies": packages})


def test_a_known_vulnerability_fails_and_is_named(tmp_path: Path) -> None:
    failed = ran(tmp_path, report(FOUND, CLEAN, UNKNOWN))
    assert failed.returncode == 1
    assert "left 1.0: PYSEC-1, fixed in 1.1" in failed.stdout


def test_what_there_is_no_data_about_is_named_and_fails_only_where_all_must_be_known(tmp_path: Path) -> None:
    passed = ran(tmp_path, report(CLEAN, UNKNOWN))
    assert passed.returncode == 0
    assert "no data about" in passed.stdout
    assert "own" in passed.stdout
    assert ran(tmp_path, report(CLEAN, UNKNOWN), "--strict").returncode == 1
    assert ran(tmp_path, report(CLEAN), "--strict").returncode == 0


def test_no_report_is_a_fault(tmp_path: Path) -> None:
    failed = ran(tmp_path, "the index is away")
    assert failed.returncode == 1
    assert "no report" in failed.stderr


def test_every_version_of_every_lock_is_looked_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("left==1.0 \\\n    --hash=sha256:00\nright==2.0 ; python_version < '4'\n")
    (tmp_path / "b.txt").write_text("left==1.1\nright==2.0\n")
    assert audit.pins(tmp_path) == [["left==1.0", "right==2.0"], ["left==1.1"]]
    with pytest.raises(SystemExit):
        audit.pins(tmp_path / "none")
