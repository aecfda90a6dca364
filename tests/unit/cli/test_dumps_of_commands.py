"""Commands that hold a data key, or messages, forbid dumps of their memory before they do."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app

KEY = "A" * 43 + "="


class KeyIsRead(Exception):
    """In the place of what a command does with the data key."""


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize(
    ("command", "reads"),
    [
        (("scrub",), "delayline.encryption.data_key.find_data_key"),
        (("data", "encrypt"), "delayline.encryption.data_key.find_data_key"),
        (("reconcile", "run", "--output", "ledger"), "reconcile.entry.start"),
        (("reconcile", "repair", "plan.json"), "cli.repair_commands._read"),
    ],
)
def test_dumps_are_forbidden_before_the_key_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], reads: str, wanted: bool
) -> None:
    done: list[object] = []

    def forbid(*, unless: bool) -> None:
        done.append(unless)

    def read(*_: Any, **__: Any) -> None:
        done.append("key")
        raise KeyIsRead

    monkeypatch.setattr("delayline.process.dumps.forbid_dumps", forbid)
    monkeypatch.setattr("cli.data_dir.make_private", lambda: None)
    monkeypatch.setattr("delayline.process.logs.configure", lambda *_: None)
    monkeypatch.setattr(reads, read)
    monkeypatch.chdir(tmp_path)
    environ = {
        "DELAYLINE_DATA_DIR": str(tmp_path),
        "DELAYLINE_STORE__ENCRYPTION_KEY": KEY,
        "DELAYLINE_PROCESS__MEMORY_DUMPS": str(wanted).lower(),
    }
    ran = CliRunner().invoke(app, command, env=environ)
    assert isinstance(ran.exception, KeyIsRead)
    assert done == [wanted, "key"]
