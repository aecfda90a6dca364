"""What stands on the command line of the reconcile job: refused where it cannot be, by the option's name."""

from typing import Any

import pytest

from delayline.errors import ConfigError
from reconcile.settings import read_settings


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"output": ""}, r"^--output: "),
        ({"reader": "oracle"}, r"^--reader: .* not 'oracle'"),
        ({"reader": "parquet"}, r"^--input: "),
        ({"input": "archive"}, r"^--input: "),
        ({"against": "hope"}, r"^--against: .* not 'hope'"),
        ({"threshold": -1}, r"^--threshold: "),
        ({"late_after": "soon"}, r"^--late-after: .* not 'soon'"),
        ({"since": "2d"}, r"^--since: it goes with --against targets"),
        ({"since": "2d", "against": "audit"}, r"^--since: "),
        ({"keep_rows": "23h"}, r"^--keep-rows: at least 1d"),
        ({"keep_rows": "90d", "against": "targets"}, r"^--keep-rows: it does not go with --against targets"),
    ],
)
def test_an_option_that_cannot_be_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        read_settings({"output": "ledger", **given})


def test_what_is_not_given_has_its_default() -> None:
    settings = read_settings({"output": "ledger", "since": None, "against": "targets", "late_after": "2s"})
    assert (settings.since_ms, settings.late_after_ms, settings.against) == (86_400_000, 2_000, "targets")
