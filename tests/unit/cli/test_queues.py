"""Which queue the settings open, where a package is missing."""

import sys
from pathlib import Path

import pytest

from cli.queues import open_queue
from delayline.clock import SystemClock
from delayline.config import load_settings
from delayline.errors import ConfigError
from tests.test_tidy import ROOT


@pytest.mark.parametrize("kind", ["kafka", "rocketmq"])
def test_a_package_that_is_missing_is_named_with_what_installs_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"DELAYLINE_MQ__KIND": kind, "DELAYLINE_MQ__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    settings = load_settings(None, {}, variables, tmp_path)
    missing = f"mq.{kind}.queue"  # in the place of a package that it imports
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=f"needs the package {missing}; `make {kind}-client` installs it"):
        open_queue(settings, SystemClock())
    assert f"\n{kind}-client: " in (ROOT / "Makefile").read_text()
