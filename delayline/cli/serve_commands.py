"""`delayline serve`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from delayline import __version__
from delayline.cli.http_client import DEFAULT_URL
from delayline.cli.options import ConfigPath
from delayline.clock import SystemClock

if TYPE_CHECKING:
    from delayline.config import Settings


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(serve)


def serve(
    config: ConfigPath = None,
    host: Annotated[str | None, typer.Option(help="Instead of api.host.")] = None,
    port: Annotated[int | None, typer.Option(help="Instead of api.port.")] = None,
    data_dir: Annotated[str | None, typer.Option(help="Instead of data_dir.")] = None,
) -> None:
    """Run everything in one process on the embedded queue."""
    from delayline.config import load_settings

    flags = {"api.host": host, "api.port": port, "data_dir": data_dir}
    settings = load_settings(config, flags, os.environ, Path.cwd())
    _run(settings)


def _run(settings: "Settings") -> None:
    import api.server  # here, because every other command would wait 0.4 s for rooms that it does not enter
    from delayline import logs
    from delayline.cli.assembly import assembled

    logs.configure(settings.log.format, settings.log.level)
    with assembled(settings, SystemClock()) as assembly:
        api.server.serve(
            assembly.app,
            settings.api.host,
            settings.api.port,
            on_started=lambda bound_port: typer.echo(_welcome(settings, bound_port)),
        )
    if assembly.failure is not None:
        raise assembly.failure
    logs.get(__name__).info("stopped")


def _welcome(settings: "Settings", port: int) -> str:
    host = settings.api.host
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    where = "" if url == DEFAULT_URL else f" --url {url}"
    return f"""
Delayline {__version__} listens on {url} (embedded queue, data in {settings.data_dir.resolve()})

Watch a topic, in another terminal:
  {_program()} tail orders{where}
Send a message that arrives in five seconds:
  curl -s {url}/v1/topics/orders/messages -H 'content-type: application/json' \\
    -d '{{"value": {{"order": 7}}, "schedule": {{"delay": "5s"}}}}'
"""


def _program() -> str:
    """This command, as it was typed."""
    return sys.argv[0] if Path(sys.argv[0]).name == "delayline" else f"{sys.executable} -m delayline"
