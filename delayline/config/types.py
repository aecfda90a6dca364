"""What a setting's text may be: durations, sizes, lists, tables, secrets, levels. Types for pydantic models.

Every type takes the text of an environment variable as well as what TOML has for it, so that where a setting comes
from makes no difference.
"""

import json
import re
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeGuard

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, SecretStr, ValidationInfo
from pydantic_core import PydanticCustomError

from delayline.errors import MalformedDirective
from delayline.names import is_topic_name
from delayline.process.commands import CommandFailed, output_of
from delayline.process.links import read_file
from delayline.schedule.rules import LEVELS_MAX
from delayline.sizes import format_size, parse_size_bytes
from delayline.times import format_duration, parse_duration_ms

SECRET_ERROR = "secret"
"""Type of the validation errors whose input must not be shown. Code that shows inputs also leaves out tables and
lists: a secret may stand inside."""

COMMAND_S = 10.0
"""For a command that prints a secret, and everything that it has started."""

SECRET_BYTES_MAX = 64 << 10
"""In a file, or printed by a command."""

ENCRYPTION_KEY_BYTES = 32


def _refused(message: str, kind: str = "setting") -> PydanticCustomError:
    return PydanticCustomError(kind, "{message}", {"message": message})


def _parse_duration(value: object) -> int:
    if not isinstance(value, str):
        raise _refused('expected a duration with its unit, such as "30s"')
    try:
        return parse_duration_ms(value)
    except MalformedDirective as error:
        raise _refused(str(error)) from error


def _parse_size(value: object) -> int:
    try:
        return parse_size_bytes(value if isinstance(value, str) else "")
    except MalformedDirective as error:
        raise _refused(str(error)) from error


def _parse_levels(value: object) -> tuple[int, ...]:
    """RocketMQ's `messageDelayLevel`: durations with one space between."""
    if not isinstance(value, str):
        raise _refused('expected delay levels with spaces between, such as "1s 5s 10s"')
    levels_ms = tuple(map(_parse_duration, value.split(" ")))
    if len(levels_ms) > LEVELS_MAX or min(levels_ms) == 0:
        raise _refused(f"expected 1 to {LEVELS_MAX} delay levels above zero")
    return levels_ms


def _parse_list(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [item.strip() for item in value.split(",")] if value.strip() else []


def _parse_json(value: object) -> object:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise _refused(f"expected JSON: {error}", SECRET_ERROR) from error
    if not isinstance(found, dict | list):
        raise _refused("expected a table or an array of tables", SECRET_ERROR)
    return found


def _read_secret(value: object, info: ValidationInfo) -> object:
    """The secret itself, or a table that names the file it is in, or the command that prints it; both are relative to
    the working directory. The table may be written as JSON text, for the environment."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        value = _table_in(value)
    folder = Path(info.context or ".")
    match value:
        case str():
            return value
        case {"file": str(name), **others} if name and not others:
            return _secret_in(folder, name)
        case {"command": [str(program), *_] as words, **others} if program and not others and _are_text(words):
            return _secret_of(folder, words)
    expected = 'expected text, or a table with the one key "file" or "command": a path, or words with a program first'
    raise _refused(expected, SECRET_ERROR)


def _are_text(words: list[object]) -> TypeGuard[list[str]]:
    return all(isinstance(word, str) for word in words)


def _table_in(text: str) -> object:
    """The table, if the text is one of these in JSON; any other text is the secret."""
    if text.startswith("{"):
        with suppress(ValueError):
            found = json.loads(text)
            if isinstance(found, dict) and set(found) in ({"file"}, {"command"}):
                return found
    return text


def _secret_in(folder: Path, name: str) -> str:
    try:
        return _unless_empty(read_file(folder / name, SECRET_BYTES_MAX), f"the file {name} is empty")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise _refused(f"cannot read the file {name}: {why}", SECRET_ERROR) from None


def _secret_of(folder: Path, words: list[str]) -> str:
    """The program alone is named in errors: its arguments may hold more than they should."""
    gives_none = f"the command {words[0]} gives no secret"
    try:
        printed = output_of(words, seconds=COMMAND_S, bytes_max=SECRET_BYTES_MAX, folder=folder)
        return _unless_empty(printed, f"{gives_none}: it prints nothing")
    except CommandFailed as error:
        why = f"{error}: {error.complaint}" if error.complaint else str(error)
        raise _refused(f"{gives_none}: {why}", SECRET_ERROR) from None
    except UnicodeDecodeError:
        raise _refused(f"{gives_none}: what it prints is not text", SECRET_ERROR) from None


def _unless_empty(given: bytes, why: str) -> str:
    """The text without the line break at its end. An empty one would turn off, without a word, what the secret is
    for. Raises UnicodeDecodeError."""
    text = given.decode().removesuffix("\n").removesuffix("\r")
    if not text.strip():
        raise _refused(why, SECRET_ERROR)
    return text


Duration = Annotated[int, BeforeValidator(_parse_duration), PlainSerializer(format_duration, return_type=str)]
"""Milliseconds, written as in directives."""

Size = Annotated[int, BeforeValidator(_parse_size), PlainSerializer(format_size, return_type=str)]
"""Bytes, written with B, KiB MiB GiB TiB (1024) or kB MB GB TB (1000)."""

Levels = Annotated[
    tuple[int, ...],
    BeforeValidator(_parse_levels),
    PlainSerializer(lambda levels_ms: " ".join(map(format_duration, levels_ms)), return_type=str),
]
"""Delay levels in milliseconds; level 1 is the first."""

CommaSeparated = BeforeValidator(_parse_list)
"""Annotates a list that may be written as one text."""

JsonText = BeforeValidator(_parse_json)
"""Annotates a table or an array of tables that may be written as JSON text."""

Secret = Annotated[SecretStr, BeforeValidator(_read_secret)]
"""Text that is never shown, or `{ file = "path" }` (in TOML also `x.file = "path"`), or `{ command = ["word"] }`."""


def _check_encryption_key(key: SecretStr) -> SecretStr:
    """One that is written down is never empty: without a word, nothing would be encrypted."""
    try:
        length = len(b64decode(key.get_secret_value(), validate=True))
    except ValueError:
        length = -1
    if length != ENCRYPTION_KEY_BYTES:
        expected = f"expected {ENCRYPTION_KEY_BYTES} bytes in base64 (`openssl rand -base64 32`)"
        raise _refused(f"{expected}; leave it out where nothing is to be encrypted", SECRET_ERROR)
    return key


EncryptionKey = Annotated[Secret, AfterValidator(_check_encryption_key)]
"""A key of AES-256 as base64 text; not set is none."""


def durations(at_least: str, at_most: str) -> AfterValidator:
    """Both bounds belong to the range."""
    return _between(at_least, at_most, _parse_duration)


def sizes(at_least: str, at_most: str) -> AfterValidator:
    """Both bounds belong to the range."""
    return _between(at_least, at_most, _parse_size)


def _between(at_least: str, at_most: str, parse: Callable[[object], int]) -> AfterValidator:
    def check(value: Any) -> Any:
        if not parse(at_least) <= value <= parse(at_most):
            raise _refused(f"expected {at_least} to {at_most}")
        return value

    return AfterValidator(check)


# --- names

NAMESPACE_CHARS_MAX = 64
"""Leaves 177 of a topic name's 249 characters to the topic whose buffer carries the namespace in front."""


def _check_namespace(namespace: str) -> str:
    if not is_topic_name(namespace) or len(namespace) > NAMESPACE_CHARS_MAX or namespace.startswith("__"):
        raise _refused(f"expected 1 to {NAMESPACE_CHARS_MAX} of a-z A-Z 0-9 . _ -, not starting with __")
    return namespace


def _check_folder(folder: object) -> object:
    """An empty text would be the working directory, which is never meant."""
    if folder == "":
        raise _refused("expected a folder")
    return folder


def _unset(value: object) -> object:
    """An empty text is no value."""
    return None if value == "" else value


def _check_pattern(pattern: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9._*?-]{1,249}", pattern):
        raise _refused("expected a topic name, in which * and ? may stand for others")
    return pattern


def _check_host_pattern(pattern: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9._*?-]{1,253}", pattern):
        raise _refused("expected a host name without port, in which * and ? may stand for others")
    return pattern


Namespace = Annotated[str, AfterValidator(_check_namespace)]
Folder = Annotated[Path, BeforeValidator(_check_folder)]
File = Annotated[Path | None, BeforeValidator(_unset)]
Switch = Annotated[bool | None, BeforeValidator(_unset)]
"""None where something else decides."""
Patterns = Annotated[tuple[Annotated[str, AfterValidator(_check_pattern)], ...], CommaSeparated]
HostPatterns = Annotated[tuple[Annotated[str, AfterValidator(_check_host_pattern)], ...], CommaSeparated]
