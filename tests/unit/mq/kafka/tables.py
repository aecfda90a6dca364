"""Every table of `kafkawire.protocol.messages`, Kafka's own definition of it, and values for it."""

import pkgutil
from importlib import import_module
from typing import Any

from hypothesis import strategies as st
from kafka.protocol import schemas
from kafka.protocol.schemas import load_json

from kafkawire.protocol import messages
from kafkawire.protocol.apis import APIS, is_flexible
from kafkawire.protocol.message import Message
from kafkawire.protocol.schema import Spec, Struct, columns


def tables() -> list[type[Message]]:
    found = {}
    for module in pkgutil.iter_modules(messages.__path__, messages.__name__ + "."):
        for name, one in vars(import_module(module.name)).items():
            if isinstance(one, type) and issubclass(one, Message) and one is not Message:
                found[name] = one
    return [found[name] for name in sorted(found)]


def versions(cls: type[Message]) -> range:
    api = APIS[cls.api]
    return range(api.oldest, api.newest + 1)


def definition(cls: type[Message]) -> Any:
    """As Kafka's sources have it."""
    return load_json(cls.__name__, schemas.__name__ + ".resources")


_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def _values(kind: Any, version: int, flexible: bool, tags_max: int) -> st.SearchStrategy[Any]:
    if not isinstance(kind, str):
        return structs(kind, version, flexible, tags_max)
    if kind in _INTEGERS:
        limit = 1 << _INTEGERS[kind] - 1
        return st.integers(-limit, limit - 1)
    return {
        "bool": st.booleans(),
        "uuid": st.binary(min_size=16, max_size=16),
        "string": st.text(max_size=12),
        "bytes": st.binary(max_size=20),
        "records": st.binary(max_size=20),
    }[kind]


def _field(spec: Spec, version: int, flexible: bool, tags_max: int) -> st.SearchStrategy[Any]:
    values = _values(spec.kind, version, flexible, tags_max)
    if spec.is_array:
        values = st.lists(values, max_size=3)
    return st.none() | values if version in spec.null else values


def structs(cls: type[Struct], version: int, flexible: bool, tags_max: int) -> st.SearchStrategy[Any]:
    """Any value that `version` can carry, with up to `tags_max` tagged fields of which nobody has heard."""
    present = {
        name: _field(spec, version, flexible, tags_max) for name, spec in columns(cls) if version in spec.versions
    }
    if flexible:
        tags = st.tuples(st.integers(100, 1 << 20), st.binary(max_size=6))
        present["unknown_tags"] = st.lists(tags, max_size=tags_max, unique_by=lambda tag: tag[0]).map(
            lambda tags: tuple(sorted(tags))
        )
    return st.builds(cls, **present)


def values(cls: type[Message], tags_max: int = 2) -> st.SearchStrategy[tuple[Any, int]]:
    """A message and the version in which to write it."""

    def of(version: int) -> st.SearchStrategy[tuple[Any, int]]:
        return st.tuples(structs(cls, version, is_flexible(cls.api, version), tags_max), st.just(version))

    return st.sampled_from(versions(cls)).flatmap(of)
