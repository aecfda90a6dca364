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
