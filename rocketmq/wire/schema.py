"""How a class declares its ext fields: a frozen dataclass, its attributes in order.

    @dataclass(frozen=True, slots=True)
    class Example(Fields):
        topic: str                                # required, `topic`
        queue_id: int = named("e")                # required, `e`
        consumer_group: str | None = None         # left out where None; `consumerGroup`

Numbers are 64 bits wide, written as decimal text; booleans are `true` and anything else, as Java's parseBoolean
has it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from functools import cache
from typing import Any, NamedTuple, Self, get_args, get_type_hints

from rocketmq.errors import Malformed

_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT64_MAX = (1 << 63) - 1


def named(wire_name: str, default: Any = MISSING) -> Any:
    """A field that goes by another name than its own in camel case."""
    return field(default=default, metadata={"wire": wire_name})


class _Field(NamedTuple):
    name: str
    wire: str
    write: Callable[[Any], str]
    read: Callable[[str], Any]
    default: Any


class Fields:
    """Base of all sets of ext fields."""

    __slots__ = ()

    def to_fields(self) -> dict[str, str]:
        table = _table(type(self))  # type: ignore[arg-type]  # a class is hashable
        return {one.wire: one.write(value) for one in table if (value := getattr(self, one.name)) is not None}

    @classmethod
    def from_fields(cls, found: Mapping[str, str]) -> Self:
        """Fields that are not known are passed over. Raises Malformed."""
        return cls(*(_value(cls.__name__, one, found) for one in _table(cls)))  # type: ignore[arg-type]


def wire_names(cls: type[Fields]) -> dict[str, str]:
    """Of each attribute, the name on the wire."""
    return {one.name: one.wire for one in _table(cls)}  # type: ignore[arg-type]  # a class is hashable


def _value(of: str, one: _Field, found: Mapping[str, str]) -> Any:
    text = found.get(one.wire)
    if text is None:
        if one.default is MISSING:
            raise Malformed(f"{of} without {one.wire}")
        return one.default
    try:
        return one.read(text)
    except ValueError:
        raise Malformed(f"{of}: {one.wire} is no number of 64 bits: {text[:40]!r}") from None


@cache
def _table(cls: type[Fields]) -> tuple[_Field, ...]:
    hints = get_type_hints(cls)
    return tuple(
        _Field(one.name, one.metadata.get("wire") or _camel(one.name), *_way_of(hints[one.name]), one.default)
        for one in fields(cls)  # type: ignore[arg-type]  # each subclass is a dataclass
    )


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _way_of(hint: Any) -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    kind = next((one for one in get_args(hint) if one is not type(None)), hint)
    return _WAYS[kind]


def _number(text: str) -> int:
    """`int` alone would take underscores, spaces and digits of other scripts. Raises ValueError."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    if number is None or not -_INT64_MAX - 1 <= number <= _INT64_MAX:
        raise ValueError(text)
    return number


_WAYS: dict[Any, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    str: (str, str),
    int: (lambda value: str(int(value)), _number),
    bool: (lambda value: "true" if value else "false", lambda text: text.lower() == "true"),
}
