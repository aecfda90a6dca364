"""Where rules and keys come from, for what decides by them."""

from pathlib import Path
from typing import Protocol

from delayline.access.keys import AccessKeys
from delayline.access.rules import AccessRules
from delayline.errors import ConfigError
from delayline.process.links import read_file

FILE_BYTES_MAX = 64 << 20


class AccessSource(Protocol):
    """The rules and the keys of an installation as they are now. Asked per request: must be quick."""

    @property
    def rules(self) -> AccessRules: ...

    @property
    def keys(self) -> AccessKeys: ...


def read_bytes(path: Path) -> bytes:
    """What a file of rules or keys holds. Raises ConfigError, also for a pipe or a device: those may never end."""
    try:
        return read_file(path, FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}.") from error
