"""`delayline config check`: what a server would run with, and whether it would."""

import os
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from delayline.cli.options import ConfigPath
from delayline.config import describe, load_settings

commands = typer.Typer(no_args_is_help=True, help="Look at the configuration.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands, name="config")


@commands.callback()
def group() -> None:
    """Look at the configuration."""


@commands.command()
def check(config: ConfigPath = None) -> None:
    """Read the configuration as a server would; show every setting and where it comes from."""
    settings = load_settings(config, {}, os.environ, Path.cwd())
    table = Table("setting", "value", "from", box=None)
    for key, value, source in describe(settings):
        table.add_row(key, value, source)
    Console().print(table)
