"""Settings from where they are written, and back into words."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from delayline.config.checks import refuse_what_cannot_be
from delayline.config.layers import (
    Layer,
    find_file,
    nested,
    read_environment,
    read_file,
    read_flags,
    setting_paths,
    unknown,
)
from delayline.config.proxies import RocketmqAccount
from delayline.config.sections import DelayRule, TopicRule
from delayline.config.settings import Settings
from delayline.config.types import SECRET_ERROR
from delayline.errors import ConfigError


def load_settings(
    config_path: Path | None, overrides: Mapping[str, Any], environ: Mapping[str, str], cwd: Path
) -> Settings:
    """The settings of a process that was started in `cwd` with these variables; `overrides` are its flags by dotted
    key (None: not given). Raises ConfigError: one sentence for the operator."""
    path = find_file(config_path, environ, cwd)
    given = {
        **(read_file(Settings, path) if path else {}),
        **read_environment(Settings, environ),
        **read_flags(Settings, overrides),
    }
    try:
        settings = Settings.model_validate(nested(given), context=cwd)
    except ValidationError as error:
        raise _sentence(error.errors()[0], given) from None  # the chain would show secrets
    settings._sources = {path: one.source for path, one in given.items()}
    refuse_what_cannot_be(settings)
    return settings


def _sentence(error: ErrorDetails, given: Layer) -> ConfigError:
    """The first thing that is wrong, where it was written."""
    path = tuple(map(str, error["loc"]))
    source = next((given[path[:n]].source for n in range(len(path), 0, -1) if path[:n] in given), None)
    if error["type"] == "extra_forbidden":
        return unknown(".".join(path), _rule_keys(path), source or "a rule")
    message = error["msg"][0].lower() + error["msg"][1:]
    if error["type"] not in _HIDDEN and isinstance(error["input"], str | int | float):
        message += f", not {_shortened(error['input'])}"
    prefix = ".".join(path) + ": " if path else ""
    return ConfigError(f"{prefix}{message}{f' (from {source})' if source else ''}.")


_HIDDEN = (SECRET_ERROR, "model_type", "dict_type")
"""Types of errors whose input is not shown: what has the place of a table may be a secret out of it."""


def _rule_keys(path: tuple[str, ...]) -> list[str]:
    table: Mapping[str, type[BaseModel]] = {"topics": TopicRule, "delay": DelayRule, "proxy": RocketmqAccount}
    return [".".join((*path[:-1], name)) for name in table[path[0]].model_fields]


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """Every setting as (key, value as it would be written, where it comes from); secrets are hidden."""
    dumped = settings.model_dump(mode="json", exclude_none=True)
    rows = []
    for path in setting_paths(Settings):
        value: Any = dumped
        for name in path:
            value = None if value is None else value.get(name)  # None is left out of the dump
        key = ".".join(path)
        rows.append((key, _written(value), settings.source(key)))
    return rows


def _written(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)
