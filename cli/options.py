"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ConfigPath = Annotated[
    Path | None,
    typer.Option(
        "--config", help="A TOML file; else $DELAYLINE_CONFIG, ./delayline.toml, /etc/delayline/delayline.toml."
    ),
]
Url = Annotated[str, typer.Option(envvar="DELAYLINE_URL", help="Where the server listens.")]
Json = Annotated[bool, typer.Option("--json", help="Print the server's answer as JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")]
NoUndo = Annotated[bool, typer.Option("--no-undo", help="Keep no copies: it cannot be undone.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
