"""Where settings are written: the command line, the environment, a TOML file. Each becomes one flat layer.

A layer maps a setting's path (`("api", "port")`) to what was given and where. Layers are laid over each other by
setting, so that a flag replaces one value of a file's table and leaves its neighbours. An unknown name is an error in
any of them: a misspelt setting that is ignored would be found on the day it is needed.

pydantic-settings does not fit: its environment source passes over unknown variables and cannot report where a value
was written.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import BaseModel

from delayline.errors import ConfigError

ENV_PREFIX = "DELAYLINE_"
ENV_CONFIG = "DELAYLINE_CONFIG"
SYSTEM_CONFIG = Path("/etc/delayline/delayline.toml")

_NO_SETTINGS = frozenset(
    {
        ENV_CONFIG,
        *("DELAYLINE_URL", "DELAYLINE_KEY", "DELAYLINE_KEY_FILE", "DELAYLINE_CERTFILE", "DELAYLINE_KEYFILE"),
    }
)
"""Variables with our prefix that mean something else: where the file is, where the command line's server is, and the
key by which that knows us."""

_KUBERNETES = re.compile(r"DELAYLINE_(SERVICE_HOST=.*|SERVICE_PORT(_.*)?=.*|PORT_.*|PORT=\w+://.*)")
"""Kubernetes passes every container the addresses of its namespace's services, and ours may well be called delayline.
Its DELAYLINE_PORT is a URL; a number there means `api.port`."""

REMOVED: Mapping[str, str] = {
    "mq.guarantee": "every queue delivers exactly once now",
    "mq.path": "Delayline's own client of Kafka carries the records, and nothing else does",
}
"""Settings that there were once, and their outcomes."""

NAME_CHARS_MAX = 100
"""The longest name of a setting has a third of that."""

SettingPath = tuple[str, ...]


class Given(NamedTuple):
    """A name as it was written, and where: a phrase for error messages."""

    value: Any
    source: str

    def __repr__(self) -> str:
        """Without the value, which may be a secret."""
        return f"Given(from {self.source})"


Layer = dict[SettingPath, Given]


def setting_paths(model: type[BaseModel]) -> list[SettingPath]:
    """Every setting of the model, sections entered, in the order of their definition."""
    paths: list[SettingPath] = []
    for name in model.model_fields:
        section = _section(model, name)
        paths += [(name,)] if section is None else [(name, *rest) for rest in setting_paths(section)]
    return paths


def _section(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    annotation = model.model_fields[name].annotation
    is_section = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return cast(type[BaseModel], annotation) if is_section else None


def read_flags(model: type[BaseModel], flags: Mapping[str, Any]) -> Layer:
    """Flags by dotted key; one that is None was not given. Raises ConfigError."""
    paths = {".".join(path): path for path in setting_paths(model)}
    for key in flags:
        if key not in paths:
            raise unknown(key, paths, "the command line")
    return {paths[key]: Given(value, "the command line") for key, value in flags.items() if value is not None}


def read_environment(model: type[BaseModel], environ: Mapping[str, str]) -> Layer:
    """Variables such as `DELAYLINE_API__PORT`. Raises ConfigError."""
    paths = {ENV_PREFIX + "__".join(path).upper(): path for path in setting_paths(model)}
    layer: Layer = {}
    for variable, value in environ.items():
        if variable in paths:
            layer[paths[variable]] = Given(value, variable)
        elif variable.startswith(ENV_PREFIX) and not _is_known(variable, value):
            raise unknown(variable, paths, "the environment")
    return layer


def _is_known(variable: str, value: str) -> bool:
    return variable in _NO_SETTINGS or _KUBERNETES.match(f"{variable}={value}") is not None


def find_file(named: Path | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The TOML file to read. One that was named must exist: reading it raises where it does not."""
    if named is not None:
        return cwd / named
    if environ.get(ENV_CONFIG):
        return cwd / environ[ENV_CONFIG]
    return next((path for path in (cwd / "delayline.toml", SYSTEM_CONFIG) if path.exists()), None)


def read_file(model: type[BaseModel], path: Path) -> Layer:
    """Raises ConfigError."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}.") from error
    return {setting: Given(value, str(path)) for setting, value in _flat(model, table, (), str(path))}


def _flat(
    model: type[BaseModel], table: Mapping[str, Any], above: SettingPath, source: str
) -> Iterator[tuple[SettingPath, Any]]:
    for name, value in table.items():
        path = (*above, name)
        if name not in model.model_fields:
            raise unknown(".".join(path), _keys_under(model, above), source)
        section = _section(model, name)
        if section is None:
            yield path, value
        elif isinstance(value, dict):
            yield from _flat(section, value, path, source)
        else:
            raise ConfigError(f"{'.'.join(path)}: expected a table (from {source}).")


def _keys_under(model: type[BaseModel], above: SettingPath) -> list[str]:
    names = [(name,) for name in model.model_fields]
    return [".".join((*above, *path)) for path in [*names, *setting_paths(model)]]


def unknown(key: str, known: Mapping[str, Any] | list[str], source: str) -> ConfigError:
    """The error about a name that is no setting: its outcome, or the nearest one that is."""
    if why := REMOVED.get(key.removeprefix(ENV_PREFIX).replace("__", ".").lower()):
        return ConfigError(f"{key}: this setting was removed, {why}; take it out (from {source}).")
    nearest = get_close_matches(key, list(known), n=1) if len(key) <= NAME_CHARS_MAX else []
    hint = f"; did you mean {nearest[0]}" if nearest else ""
    return ConfigError(f"{_one_line(key)}: there is no such setting (from {source}){hint}{'?' if hint else '.'}")


def _one_line(key: str) -> str:
    """A name as it was written, which may be anything: whole where it is short and can be printed."""
    if len(key) <= NAME_CHARS_MAX and key.isprintable():
        return key
    return repr(key if len(key) <= NAME_CHARS_MAX else f"{key[:NAME_CHARS_MAX]}...")


def nested(layer: Layer) -> dict[str, Any]:
    """The values of a layer as tables within tables."""
    root: dict[str, Any] = {}
    for path, given in layer.items():
        table = root
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = given.value
    return root
