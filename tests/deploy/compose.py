"""Our files for Compose, as Compose would read them: variables filled in, anchors merged, services extended."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.fault.server import ROOT

FILES = {"kafka": ROOT / "docker-compose.yml", "rocketmq": ROOT / "deploy" / "rocketmq" / "docker-compose.yml"}
"""By the queue of the installation."""
FILLED = {"DELAYLINE_INTERNAL__SECRET": "sixteen letters!"}
"""The variables without which there is no installation."""

_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::([-?])([^}]*))?\})")


class Missing(Exception):
    """A variable without which Compose refuses the file; the text is its error then."""


class _Override(dict[str, Any]):
    """`!override`: it replaces what a service extends, and is not merged with it."""


class _OverrideList(list[Any]):
    """`!override` of a list."""


class _Loader(yaml.SafeLoader):
    """With Compose's own tag."""


def _override(loader: yaml.SafeLoader, node: yaml.Node) -> _Override | _OverrideList:
    if isinstance(node, yaml.SequenceNode):
        return _OverrideList(loader.construct_sequence(node, deep=True))
    assert isinstance(node, yaml.MappingNode)
    return _Override(loader.construct_mapping(node, deep=True))


_Loader.add_constructor("!override", _override)


def read_compose(file: Path, environ: Mapping[str, str] = FILLED) -> dict[str, Any]:
    """The file, as Compose reads it with these variables. Raises Missing."""
    document = _load(file)
    services = {name: _extended(one, file.parent) for name, one in document["services"].items()}
    return {key: _filled(value, environ) for key, value in {**document, "services": services}.items()}


def _load(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(file.read_text(), _Loader)
    return document


def _extended(service: dict[str, Any], folder: Path) -> dict[str, Any]:
    """With what the service of another file has, and what that one extends."""
    if "extends" not in service:
        return service
    file, name = folder / service["extends"]["file"], service["extends"]["service"]
    base = _extended(_load(file)["services"][name], file.parent)
    merged: dict[str, Any] = _merged(base, {key: one for key, one in service.items() if key != "extends"})
    return merged


def _merged(base: Any, own: Any) -> Any:
    """Lists would be put together, by rules of their own for each setting."""
    assert isinstance(own, _OverrideList) or not isinstance(own, list), "which lists are put together?"
    if isinstance(own, _Override) or not isinstance(own, dict):
        return own
    return base | {key: _merged(base[key], value) if key in base else value for key, value in own.items()}


def _filled(node: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: _filled(value, environ) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(value, environ) for value in node]
    return _VARIABLE.sub(lambda found: _value(found, environ), node) if isinstance(node, str) else node


def _value(found: re.Match[str], environ: Mapping[str, str]) -> str:
    dollar, name, kind, rest = found.groups()
    if dollar:
        return "$"
    if value := environ.get(name):
        return value
    if kind == "?":
        raise Missing(f"{name}: {rest}")
    return rest or ""


def delayline_services(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Those that run our images."""
    return {name: one for name, one in document["services"].items() if one["image"].startswith("delayline")}


def is_serving(document: Mapping[str, Any], name: str) -> bool:
    """Whether it is started by `up`, and goes on. The others are run once, by name or before another one."""
    waited_for = [one.get("depends_on", {}).get(name, {}) for one in document["services"].values()]
    is_awaited = {"condition": "service_completed_successfully"} in waited_for
    return "profiles" not in document["services"][name] and not is_awaited


def broker_conf() -> dict[str, str]:
    """The properties of RocketMQ's broker."""
    lines = (FILES["rocketmq"].parent / "broker.conf").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {key.strip(): value.strip() for key, _, value in pairs}
