"""`delayline`: one file per group of commands."""

import re
import sys
from typing import Annotated

import typer

from cli import (
    access_commands,
    config_commands,
    data_commands,
    dead_commands,
    doctor_commands,
    http_commands,
    kafka_commands,
    message_commands,
    proxy_commands,
    reconcile_commands,
    scrub_commands,
    serve_commands,
    shard_commands,
    topic_commands,
)
from cli.failure import DAMAGED, FAILED, USAGE, Failure
from cli.output import check_lost
from delayline import __version__
from delayline.errors import ConfigError, DelaylineError
from delayline.process.printable import printable
from mq.errors import QueueDamaged
from reconcile.exits import Exit

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
serve_commands.register(app)
scrub_commands.register(app)
proxy_commands.register(app)
config_commands.register(app)
data_commands.register(app)
access_commands.register(app)
doctor_commands.register(app)
kafka_commands.register(app)
http_commands.register(app)
message_commands.register(app)
topic_commands.register(app)
dead_commands.register(app)
shard_commands.register(app)
reconcile_commands.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"delayline {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A delay proxy in front of the message queue you already run.

    Exit codes: 0 ok, 1 failed, 2 wrong usage or settings, 3 not found (of `serve` and `scrub`: data that
    was acknowledged), 4 conflict. `reconcile` has its own.
    """


def main() -> None:
    """The console script: every failure of the outside is one sentence and an exit code."""
    try:
        _refuse_broken_text(sys.argv)
        app()
    except Failure as failure:
        _fail(str(failure), failure.exit_code)
    except QueueDamaged as error:
        _fail(str(error), DAMAGED)
    except ConfigError as error:
        _fail(str(error), USAGE)
    except DelaylineError as error:
        _fail(str(error), FAILED)
    except OSError as error:
        check_lost(error, sys.stdout)
        _fail(f"cannot write to standard output: {error.strerror}", FAILED)


def _refuse_broken_text(arguments: list[str]) -> None:
    """Bytes that are no UTF-8 come as surrogates, which neither JSON nor a URL can hold. A file can hold anything."""
    if broken := next(filter(re.compile("[\ud800-\udfff]").search, arguments), None):
        code = Exit.USAGE if arguments[1:2] == ["reconcile"] else USAGE
        raise Failure(f"{broken!r} is not UTF-8 text; send such bytes from a file", code)


def _fail(sentence: str, code: int) -> None:
    lines = map(printable, sentence.split("\n"))  # it may have words of a server, or of a request
    print("delayline:", "\n".join(lines), file=sys.stderr)
    raise SystemExit(code)
