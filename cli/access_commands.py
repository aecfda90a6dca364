"""`delayline access explain | keys`: who may do what, and the keys by which clients are known."""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from cli.acts_commands import acts
from cli.failure import FAILED, NOT_FOUND, USAGE, Failure
from cli.options import ConfigPath
from cli.tables import show_rows
from delayline.access.acts import Act
from delayline.access.keys import NOTE_CHARS_MAX, AccessKey, AccessKeys, is_principal, new_token
from delayline.access.names import OIDC_GROUP
from delayline.access.rules import read_any, read_rules
from delayline.access.source import read_bytes
from delayline.clock import SystemClock
from delayline.errors import ConfigError, MalformedDirective
from delayline.process.durably import write_durably
from delayline.times import format_moment, parse_duration_ms

KEYS_MODE = 0o600
COLUMNS = ("id", "principal", "made", "expires", "note")

group = typer.Typer(
    no_args_is_help=True, help="Who may do what, who did it, and the keys by which clients are known."
)
keys = typer.Typer(no_args_is_help=True, help="Make, list and end keys, in the file of `access.keys`.")

KeysFile = Annotated[
    Path | None, typer.Option("--file", help="The file of keys; else `access.keys` of the settings.")
]
RulesFile = Annotated[
    Path | None, typer.Option("--file", help="The file of rules; else `access.rules` of the settings.")
]

Groups = Annotated[
    list[str] | None, typer.Option("--group", help="A group of the principal at the identity provider; repeatable.")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group.command()(explain)
    group.command()(quota)
    group.command()(acts)
    keys.command()(create)
    keys.command("list")(list_keys)
    keys.command()(end)
    group.add_typer(keys, name="keys")
    app.add_typer(group, name="access")


def explain(
    principal: Annotated[str, typer.Argument(help="Who.")],
    act: Annotated[Act, typer.Argument(help="What.")],
    topic: Annotated[str | None, typer.Argument(help="To which topic; without one, to all of them.")] = None,
    groups: Groups = None,
    file: RulesFile = None,
    config: ConfigPath = None,
) -> None:
    """Show which rule allows a principal to do something. Exit code 1 where none does."""
    path = file or _setting("rules", config)
    names = (principal, *(OIDC_GROUP + one for one in groups or ()))
    rule = read_rules(read_bytes(path), str(path)).deciding(names, act, topic)
    about = "every topic" if topic is None else topic
    if rule is None:
        raise Failure(f"refused: no rule of {path} allows {principal} to {act} {about}", FAILED)
    typer.echo(f"allowed by the rule at {rule.place}")


def quota(
    principal: Annotated[str, typer.Argument(help="Who; of a Kafka client as Kafka names it: User:alice.")],
    file: RulesFile = None,
    config: ConfigPath = None,
) -> None:
    """Show which quota holds for a principal."""
    path = file or _setting("rules", config)
    found = read_any(read_bytes(path), str(path)).quota_of(principal)
    if found is None:
        typer.echo(f"no limit: no quota of {path} is for {principal}")
        return
    typer.echo(f"the quota at {found.place}" + ("" if found.limits else ", which limits nothing"))
    for name, value in found.limits.items():
        typer.echo(f"  {name} = {value}")


def create(
    principal: Annotated[str, typer.Argument(help="Whose key it is, as rules and logs name him.")],
    expires_in: Annotated[str | None, typer.Option("--expires-in", help="A duration such as 90d.")] = None,
    note: Annotated[str, typer.Option(help="What it is for.")] = "",
    file: KeysFile = None,
    config: ConfigPath = None,
) -> None:
    """Make a key and print it. It is shown this once: the file keeps a hash."""
    from delayline.access.hashing import Hasher  # here: no other command needs the library

    if not is_principal(principal):
        raise Failure("a principal has 1 to 128 of A-Z a-z 0-9 . _ @ / + -, and starts with a letter or digit", USAGE)
    if len(note) > NOTE_CHARS_MAX:
        raise Failure(f"a note has at most {NOTE_CHARS_MAX} characters", USAGE)
    now_ms, token = SystemClock().now_ms(), new_token()
    expires_ms = None if expires_in is None else now_ms + _lifetime_ms(expires_in)
    key = AccessKey(token.key_id, principal, Hasher().hash(token.secret), now_ms, expires_ms, note)
    _change(file or _setting("keys", config), lambda known: known.having(key))
    typer.echo(str(token))


def list_keys(file: KeysFile = None, config: ConfigPath = None) -> None:
    """List the keys, never their secrets."""
    path = file or _setting("keys", config)
    now_ms = SystemClock().now_ms()
    show_rows(COLUMNS, [_row(key, now_ms) for key in AccessKeys.parse(read_bytes(path), str(path)).all()])


def _row(key: AccessKey, now_ms: int) -> list[str]:
    expires = "never" if key.expires_ms is None else format_moment(key.expires_ms)
    ended = "" if key.works_at(now_ms) else " (ended)"
    return [key.id, key.principal, format_moment(key.made_ms), expires + ended, key.note]


def end(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `list` shows it.")],
    after: Annotated[str, typer.Option("--in", help="How long it goes on, for its client to take a new one.")] = "0s",
    file: KeysFile = None,
    config: ConfigPath = None,
) -> None:
    """End a key. Servers notice within seconds, also in streams that are open."""
    until_ms = SystemClock().now_ms() + _duration_ms(after)

    def ended(known: AccessKeys) -> AccessKeys:
        if (key := known.get(key_id)) is None:
            raise Failure(f"there is no key {key_id!r}", NOT_FOUND)
        return known.having(replace(key, expires_ms=min(until_ms, key.expires_ms or until_ms)))

    _change(file or _setting("keys", config), ended)


def _setting(name: str, config: Path | None) -> Path:
    """The file that the settings name. Raises ConfigError."""
    from delayline.config import load_settings  # here: with --file none are needed

    path: Path | None = load_settings(config, {}, os.environ, Path.cwd()).value(f"access.{name}")
    if path is None:
        raise ConfigError(f"access.{name} is not set: name the file with --file.")
    return path


def _change(path: Path, change: Callable[[AccessKeys], AccessKeys]) -> None:
    """Write the file anew, whole or not at all; it may not be there yet. Raises ConfigError, and what `change`
    raises."""
    try:
        with _locked(path):
            before = path.stat() if path.exists() else None
            known = AccessKeys([]) if before is None else AccessKeys.parse(read_bytes(path), str(path))
            mode = KEYS_MODE if before is None else stat.S_IMODE(before.st_mode)
            write_durably(path.resolve(), change(known).encoded(), mode)
            if before is not None:
                os.chown(path, before.st_uid, before.st_gid)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}.") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Of two commands at once, the second waits: it must see what the first has written. Raises OSError."""
    folder = os.open(path.resolve().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _lifetime_ms(text: str) -> int:
    """Raises Failure."""
    if (lifetime_ms := _duration_ms(text)) == 0:
        raise Failure("a key that expires in no time is none", USAGE)
    return lifetime_ms


def _duration_ms(text: str) -> int:
    """Raises Failure."""
    try:
        return parse_duration_ms(text)
    except MalformedDirective as error:
        raise Failure(str(error), USAGE) from error
