"""`delayline reconcile`: whether everything that was accepted was delivered, and what was not."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.core import TyperGroup

from cli.export_commands import export
from cli.failure import USAGE, Failure
from cli.options import ConfigPath
from cli.output import beside_the_exit_code, note
from cli.prepare_commands import prepare
from cli.repair_commands import repair
from cli.tables import show_rows
from delayline.errors import ConfigError, DelaylineError
from delayline.times import format_moment
from reconcile.exits import Exit, exit_of

if TYPE_CHECKING:
    from reconcile.notices import Unsent
    from reconcile.report.summary import Summary, TopicSummary

COLUMNS = ("topic", "state", "judged until", "accepted", "delivered", "pending", "findings")


class _Group(TyperGroup):
    """Settings and options that cannot be have an exit code of their own here, because 2 means that something was
    found."""

    def make_context(self, *given: Any, **more: Any) -> Any:
        with _refusing():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        with _refusing():
            return super().invoke(ctx)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except typer.TyperException as error:
        if error.exit_code == USAGE:
            error.exit_code = Exit.USAGE
        raise
    except ConfigError as error:
        raise Failure(str(error), Exit.USAGE) from error


commands = typer.Typer(cls=_Group, no_args_is_help=True, help="Compare accepted messages with their outcomes.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    commands.callback()(_about)
    commands.command()(run)
    commands.command()(repair)
    commands.command()(export)
    commands.command()(prepare)
    app.add_typer(commands, name="reconcile")


def _about() -> None:
    """Compare accepted messages with their outcomes."""


def run(
    output: Annotated[str, typer.Option(help="Where the ledger and its reports go: a folder, or a URI.")],
    config: ConfigPath = None,
    reader: Annotated[
        str | None,
        typer.Option(help="kafka, kafka-connector, rocketmq, embedded or parquet, instead of that of mq.kind."),
    ] = None,
    input: Annotated[str | None, typer.Option(help="The archive's folder, for --reader parquet.")] = None,
    late_after: Annotated[str, typer.Option(help="A delivery later than this is late.")] = "60s",
    stalled_after: Annotated[
        str, typer.Option(help="A topic with a shard that was silent for this long is not judged.")
    ] = "1h",
    keep_rows: Annotated[
        str | None,
        typer.Option(help="Drop rows of closed hours after this time, for example 90d.", show_default=False),
    ] = None,
    threshold: Annotated[int, typer.Option(help="Number of findings that are tolerated.")] = 0,
    against: Annotated[
        str, typer.Option(help="audit; or targets: compare what earlier runs read with the topics themselves.")
    ] = "audit",
    since: Annotated[
        str | None, typer.Option(help="Against targets: how far back due times go; 1d.", show_default=False)
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master; default: this machine's cores.")] = None,
    push_metrics: Annotated[
        str | None, typer.Option(metavar="URL", help="A Prometheus Pushgateway that gets metrics.prom.")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL", help="An address that gets JSON if the exit code is not 0.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Read what is new, judge what has closed, and write reports below OUTPUT.

    Exit codes: 0 clean, 1 failed, 2 found, 3 cannot judge, 64 usage.
    """
    from cli.run_progress import show
    from delayline.clock import SystemClock
    from delayline.config import load_settings
    from delayline.process import logs
    from delayline.process.dumps import forbid_dumps
    from reconcile.entry import start
    from reconcile.settings import read_settings

    job = read_settings(
        {
            "output": output,
            "reader": reader,
            "input": input,
            "late_after": late_after,
            "stalled_after": stalled_after,
            "keep_rows": keep_rows,
            "threshold": threshold,
            "against": against,
            "since": since,
            "master": master,
            "push_metrics": push_metrics,
            "webhook": webhook,
        }
    )
    settings = load_settings(config, {}, os.environ, Path.cwd())
    logs.configure(settings.log.format, settings.log.level)
    forbid_dumps(unless=settings.process.memory_dumps)
    try:
        verdict = start(job, settings, SystemClock(), show(), _warn_unsent)
    except ConfigError:
        raise
    except OSError as error:
        raise Failure(f"cannot write below {output}: {error}", exit_of(error)) from error
    except DelaylineError as error:
        raise Failure(str(error), exit_of(error)) from error
    with beside_the_exit_code():
        _show(verdict.summary, output, as_json)
    raise typer.Exit(verdict.exit_code)


def _warn_unsent(unsent: "Unsent") -> None:
    note(f"{unsent.what}: {unsent.host}: {unsent.why}")


def _show(summary: "Summary", output: str, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(summary))
        return
    show_rows(COLUMNS, [_row(topic) for topic in summary.topics])
    for one in summary.not_judged:
        typer.echo(f"not judged: {' '.join(filter(None, (one.topic, one.what)))}: {one.why}")
    if summary.reports_from < summary.run:
        typer.echo("exit code: it includes the findings of earlier runs that failed before they could report them")
    if summary.against != "audit":
        found = f"{summary.findings_total} findings against the {summary.against}"
        typer.echo(f"run {summary.run}: {found}; {output}/{summary.against}/report.html")
        return
    found = f"{summary.findings_total} findings in {summary.windows_judged} windows"
    typer.echo(f"run {summary.run}: {found}; {output}/report.html")


def _row(topic: "TopicSummary") -> tuple[object, ...]:
    until = format_moment(topic.closed_until_ms) if topic.closed_until_ms else None
    found = [f"{name}={count}" for name, count in sorted(topic.findings.items())]
    ledger = topic.ledger
    return topic.topic, topic.state.value, until, ledger.accepted, ledger.delivered, ledger.pending, found
