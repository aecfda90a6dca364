"""Every secret of the settings, found in their models, with a text of its own that no output may hold."""

import json
import typing
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from types import UnionType
from typing import Any

from pydantic import BaseModel, SecretStr

from delayline.config import Settings
from delayline.config.layers import SettingPath, setting_paths

DICE = Random(20_261_126)

RECORDS: Mapping[str, Mapping[str, Any]] = {"RocketmqAccount": {"access_key": "orders", "topics": ["orders-*"]}}
"""What a record of the settings needs besides its secrets."""

NAMES: Mapping[str, tuple[str, ...]] = {"mq.properties": ("sasl.password", "ssl.key.password")}
"""Names in a table of secrets."""


def marker() -> str:
    """A key in base64, so that every check of a secret takes it, without what JSON or TOML would write otherwise."""
    return b64encode(bytes(DICE.choices(range(0x20, 0x7F), k=32))).decode().replace("/", "A").replace("+", "B")


def secret_settings() -> list[SettingPath]:
    return [path for path in setting_paths(Settings) if _holds_secret(_annotation(path))]


def _annotation(path: SettingPath) -> Any:
    model: Any = Settings
    for name in path:
        model = _given(model.model_fields[name].annotation)
    return model


def _given(annotation: Any) -> Any:
    """Without `None`."""
    if typing.get_origin(annotation) not in (typing.Union, UnionType):
        return annotation
    return next(one for one in typing.get_args(annotation) if one is not type(None))


def _holds_secret(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return any(_holds_secret(field.annotation) for field in annotation.model_fields.values())
    return annotation is SecretStr or any(map(_holds_secret, typing.get_args(annotation)))


def filled(path: SettingPath) -> tuple[Any, list[str]]:
    """A value of the setting as it is written, and the secrets in it."""
    annotation = _annotation(path)
    if annotation is SecretStr:
        return (text := marker()), [text]
    if typing.get_origin(annotation) is dict:
        table = {name: marker() for name in NAMES[".".join(path)]}
        return table, list(table.values())
    (model, *_) = typing.get_args(annotation)
    secrets = {name: marker() for name, field in model.model_fields.items() if _holds_secret(field.annotation)}
    return [{**RECORDS[model.__name__], **secrets}], list(secrets.values())


def neighbours(path: SettingPath) -> Iterator[SettingPath]:
    """The other settings of its section."""
    yield from (other for other in setting_paths(Settings) if other[:-1] == path[:-1] and other != path)


class Marked:
    """Settings as a file holds them, with a secret in each of `paths`."""

    def __init__(self, given: Mapping[str, Any], paths: list[SettingPath]) -> None:
        values = {path: filled(path) for path in paths}
        self.secrets = [secret for _, secrets in values.values() for secret in secrets]
        self.given = {**given, **{".".join(path): value for path, (value, _) in values.items()}}

    def written(self, folder: Path, **more: Any) -> Path:
        """As a TOML file: JSON is TOML for these values, but for tables."""
        (file := folder / "delayline.toml").write_text(
            "".join(f"{key} = {_toml(value)}\n" for key, value in {**self.given, **more}.items())
        )
        return file

    def shown_in(self, text: str) -> list[str]:
        """The secrets that a text holds: whole, or so much of one that it is known."""
        return [secret for secret in self.secrets if secret in text or secret[:16] in text]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
