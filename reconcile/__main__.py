"""`python -m reconcile` and what spark-submit is given: the job without the rest of the command line."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from delayline.clock import SystemClock
from delayline.config import load_settings
from delayline.errors import DelaylineError
from delayline.process import logs
from reconcile.entry import start
from reconcile.exits import IN_WORDS, Exit, exit_of
from reconcile.notices import Unsent
from reconcile.progress import Progress, Step, fields
from reconcile.settings import AGAINST, READERS, read_settings

log = logs.get("reconcile")


class _Parser(ArgumentParser):
    """What it cannot read has the exit code of wrong settings."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(Exit.USAGE, f"{self.prog}: {message}\n")


def _arguments(arguments: Sequence[str]) -> dict[str, str | int | None]:
    about = "Compare accepted messages with their outcomes."
    parser = _Parser("reconcile", description=about, epilog=f"Exit codes: {IN_WORDS}.")
    parser.add_argument("--config", help="the installation's TOML file; DELAYLINE_* variables go before it")
    parser.add_argument("--output", required=True, help="a folder, or a URI")
    parser.add_argument("--reader", choices=READERS, help="instead of that of mq.kind")
    parser.add_argument("--input", help="the archive's folder, for --reader parquet")
    parser.add_argument("--late-after", help="what is delivered later than that is late; 60s")
    parser.add_argument("--stalled-after", help="so long may a shard be silent; 1h")
    parser.add_argument("--keep-rows", help="rows of closed hours are dropped after that; default: never")
    parser.add_argument("--threshold", type=int, help="so many findings are tolerated; 0")
    parser.add_argument("--against", choices=AGAINST, help="the audit, or the target topics themselves; audit")
    parser.add_argument("--since", help="against targets: what was due so long ago or later; 1d")
    parser.add_argument("--push-metrics", metavar="URL", help="a Prometheus Pushgateway that gets metrics.prom")
    parser.add_argument("--webhook", metavar="URL", help="gets JSON where the exit code is not 0")
    parser.add_argument("--master", help="Spark's, for example local[2]; that of spark-submit, else local[*]")
    return vars(parser.parse_args(arguments))


class _LogLines:
    """How far the run is, for readers of the log."""

    every_s = 10.0

    def begins(self, step: Step) -> None:
        log.info("step", doing=step.doing)

    def goes_on(self, state: Progress) -> None:
        log.info("progress", **fields(state))

    def ends(self) -> None:
        pass


def main(arguments: Sequence[str]) -> int:
    """The exit code (`exits.Exit`)."""
    given = _arguments(arguments)
    config = given.pop("config")
    try:
        settings = load_settings(Path(str(config)) if config else None, {}, os.environ, Path.cwd())
        logs.configure(settings.log.format, settings.log.level)
        verdict = start(read_settings(given), settings, SystemClock(), _LogLines(), _warn_unsent)
    except (DelaylineError, OSError) as error:
        log.error("run_failed", why=str(error))
        return exit_of(error)
    summary = verdict.summary
    log.info("run_ended", run=summary.run, findings=summary.findings_total, exit_code=int(verdict.exit_code))
    return verdict.exit_code


def _warn_unsent(unsent: Unsent) -> None:
    log.warning(unsent.what.replace(" ", "_"), host=unsent.host, why=unsent.why)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
