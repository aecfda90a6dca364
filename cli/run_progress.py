"""How far a reconcile run is, for people: on a terminal one line that is rewritten, else a line now and then."""

import sys
from typing import TYPE_CHECKING

from cli.output import note
from reconcile.progress import Progress, Show, Step, in_words

if TYPE_CHECKING:
    from rich.live import Live

LINE_EVERY_S = 10.0


def show() -> Show:
    """On standard error, whatever it is."""
    return RewrittenLine() if sys.stderr.isatty() else Lines()


class Lines:
    """For a log: a line for each step, and one in ten seconds."""

    every_s = LINE_EVERY_S

    def begins(self, step: Step) -> None:
        note(f"{step.doing} ...")

    def goes_on(self, state: Progress) -> None:
        note(in_words(state))

    def ends(self) -> None:
        pass


class RewrittenLine:
    """It is gone when the run has ended."""

    every_s = 1.0

    def __init__(self) -> None:
        self._live: Live | None = None

    def begins(self, step: Step) -> None:
        self._write(f"{step.doing} ...")

    def goes_on(self, state: Progress) -> None:
        self._write(in_words(state))

    def ends(self) -> None:
        if self._live is not None:
            self._live.stop()

    def _write(self, line: str) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
