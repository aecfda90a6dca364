"""How a run of the reconcile job ends, as documented in docs/reconcile.md."""

import re

from tests.fault.server import ROOT

CLEAN, AGAIN = 0, 1
"""All is well; it failed, and the next run repeats it."""


def exit_codes() -> set[int]:
    """All that there are."""
    table = re.findall(r"^\| (\d+) \|", (ROOT / "docs" / "reconcile.md").read_text(), re.MULTILINE)
    return {int(code) for code in table}
