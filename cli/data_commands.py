"""`delayline data encrypt`: what a server has written without a key."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli.asking import counted
from cli.options import ConfigPath
from cli.serve_commands import DataDir, read_settings
from delayline.errors import ConfigError

if TYPE_CHECKING:
    from delayline.config import Settings
    from delayline.encryption.data_key import DataKey

commands = typer.Typer(no_args_is_help=True, help="Change the data of an installation while no server runs.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands, name="data")


@commands.callback()
def group() -> None:
    """Change the data of an installation while no server runs."""


@commands.command()
def encrypt(config: ConfigPath = None, data_dir: DataDir = None) -> None:
    """Encrypt the data in data_dir with store.encryption_key. The server must be stopped.

    The embedded queue is written anew; the time index is deleted, and rebuilt at the next start. After it was broken
    off, the same command goes on. Exit codes: 0 done, or nothing to do, 1 failed, 2 usage, 3 the queue is damaged.
    """
    from cli.data_dir import make_private
    from delayline.process import logs
    from delayline.process.dumps import forbid_dumps
    from store.rocks import discard_plain

    settings = read_settings(config, {"data_dir": data_dir})
    logs.configure(settings.log.format, settings.log.level)
    make_private()
    forbid_dumps(unless=settings.process.memory_dumps)
    if not settings.store.encryption_keys[0]:
        raise ConfigError("store.encryption_key: set the key to encrypt with (`openssl rand -base64 32`).")
    known = _known(settings)
    records = _encrypt_queue(settings, known) if settings.mq.kind == "embedded" else None
    if records is not None:
        typer.echo(f"{counted(records, 'record')} encrypted")
    deleted = discard_plain(settings.data_dir / "index", _known(settings) or _made(settings))
    if deleted:
        typer.echo("time index deleted: it is rebuilt from the queue at the next start")
    if records is None and not deleted:
        typer.echo("nothing to do: what is there is encrypted")
    _warn_of_plain_copies(settings.data_dir)


def _known(settings: "Settings") -> "DataKey | None":
    """The data key, of data that need not be encrypted yet."""
    from delayline.encryption.data_key import find_data_key

    return find_data_key(settings.data_dir, *settings.store.encryption_keys)


def _made(settings: "Settings") -> "DataKey":
    from delayline.encryption.data_key import make_data_key

    return make_data_key(settings.data_dir, settings.store.encryption_keys[0])


def _encrypt_queue(settings: "Settings", known: "DataKey | None") -> int | None:
    from cli.data_dir import SECOND_MARK, IndexWitness
    from mq.embedded.encrypting import encrypt_queue
    from mq.embedded.log import disk_free_bytes

    return encrypt_queue(
        settings.data_dir / "queue",
        settings.namespace,
        known,
        lambda: _made(settings),
        settings.data_dir / SECOND_MARK,
        IndexWitness(settings.data_dir / "index", accept_loss=False),
        disk_free_bytes,
    )


def _warn_of_plain_copies(data_dir: Path) -> None:
    kept = [*data_dir.glob("index.lost-*"), *data_dir.glob("queue/lost-*"), *data_dir.glob("queue/*.lost-*")]
    if kept:
        typer.echo(f"not encrypted: {', '.join(map(str, kept))}. Delete what is no longer needed", err=True)
