"""`python -m reconcile` and what spark-submit is given: the job without the rest of the command line."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from delayline import logs
from delayline.clock import SystemClock
from delayline.config import load_settings
from delayline.errors import ConfigError, DelaylineError
from reconcile.entry import start
from reconcile.errors import CannotJudge
from reconcile.settings import AGAINST, READERS, read_settings

log = logs.get("reconcile")


def _arguments(arguments: Sequence[str]) -> dict[str, str | int | None]:
    parser = ArgumentParser("reconcile", description="Compare what was accepted with what became of it.")
    parser.add_argument("--config", help="the installation's TOML file; DELAYLINE_* variables go before it")
    parser.add_argument("--output", required=True, help="a folder, or a URI")
    parser.add_argument("--reader", choices=READERS, help="instead of that of mq.kind")
    parser.add_argument("--input", help="the archive's folder, for --reader parquet")
    parser.add_argument("--late-after", help="what is delivered later than that is late; 60s")
    parser.add_argument("--stalled-after", help="so long may a shard be silent; 1h")
    parser.add_argument("--threshold", type=int, help="so many findings are tolerated; 0")
    parser.add_argument("--against", choices=AGAINST, help="the audit, or what stands in the target topics; audit")
    parser.add_argument("--since", help="against targets: what was due so long ago or later; 1d")
    parser.add_argument("--master", help="Spark's, for example local[2]; that of spark-submit, else local[*]")
    return vars(parser.parse_args(arguments))


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0 clean, 1 failed, 2 findings or settings that cannot be, 3 could not judge."""
    given = _arguments(arguments)
    config = given.pop("config")
    try:
        settings = load_settings(Path(str(config)) if config else None, {}, os.environ, Path.cwd())
        logs.configure(settings.log.format, settings.log.level)
        verdict = start(read_settings(given), settings, SystemClock(), lambda step: log.info("step", doing=step))
    except ConfigError as error:
        return _failed(error, 2)
    except CannotJudge as error:
        return _failed(error, 3)
    except (DelaylineError, OSError) as error:
        return _failed(error, 1)
    summary = verdict.summary
    log.info("run_ended", run=summary.run, findings=summary.findings_total, exit_code=verdict.exit_code)
    return verdict.exit_code


def _failed(error: Exception, exit_code: int) -> int:
    log.error("run_failed", why=str(error))
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
