"""`delayline reconcile export`: what the runs of the reconcile job have found, for warehouses."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.asking import counted
from cli.failure import Failure
from delayline.errors import ConfigError

if TYPE_CHECKING:
    from reconcile.export import Exported

INSTALL = "`make reconcile-export` installs what it needs"


def export(
    ledger: Annotated[Path, typer.Argument(help="The folder that `reconcile run` has had as its --output.")],
    to: Annotated[str, typer.Option(help="Where the tables findings and windows are: a folder, or a URI.")],
) -> None:
    """Append findings and windows of the runs that TO does not have yet to two Delta tables.

    The same again adds nothing. Exit codes: 0 done, or nothing to do; 1 failed.
    """
    try:
        from reconcile import export as exporting
    except ModuleNotFoundError as error:
        raise ConfigError(f"`reconcile export` needs the package {error.name}; {INSTALL}.") from error
    done: list[Exported] = []

    def record(one: "Exported") -> None:
        done.append(one)
        typer.echo(f"{one.table}: {counted(one.rows, 'row')} of {_runs(one)}")

    try:
        exporting.export(ledger, to, record)
    except OSError as error:
        raise Failure(f"cannot read {ledger}: {error}") from error
    if not done:
        typer.echo("nothing new")


def _runs(one: "Exported") -> str:
    return f"run {one.first}" if one.first == one.last else f"runs {one.first} to {one.last}"
