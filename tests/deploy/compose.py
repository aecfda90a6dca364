"""docker-compose.yml as Compose would read it: variables filled in, anchors merged."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tests.fault.server import ROOT

FILE = ROOT / "docker-compose.yml"

_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::([-?])([^}]*))?\})")


class Missing(Exception):
    """A variable without which Compose refuses the file; the text is its error then."""


def read_compose(environ: Mapping[str, str]) -> dict[str, Any]:
    """The file, as Compose reads it with these variables. Raises Missing."""
    document = yaml.safe_load(FILE.read_text())
    return {key: _filled(value, environ) for key, value in document.items()}


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


def is_serving(service: Mapping[str, Any]) -> bool:
    """Whether it is started by `up`; the others are run once, by name."""
    return "profiles" not in service
