"""`delayline config check`: what a server would run with, and whether it would."""

import os
from pathlib import Path

import typer

from delayline.cli.options import ConfigPath
from delayline.cli.tables import show_rows

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
    from delayline.config import describe, load_settings  # here, because the other commands need no settings

    settings = load_settings(config, {}, os.environ, Path.cwd())
    show_rows(("setting", "value", "from"), describe(settings))
