"""Messages as tables: one class per structure, one line per field, as in Kafka's own message definitions.

    @dataclass(slots=True)
    class MetadataBroker(Struct):
        node_id: int = int32()
        host: str = string()
        port: int = int32()
        rack: str | None = string("1+", null="1+")

"1+" are the versions that have the field, `null` those in which it may be null, `tag` makes it a tagged field
(KIP-482). A field that a version lacks keeps its default when read and is left out when written. Tagged fields that
a table does not know are kept in `unknown_tags` and written back in their place.

`codec.py` compiles a table for each version. Callers use `kafkawire.protocol.message`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from kafkawire.protocol.primitives import Buffer

ZERO_UUID = bytes(16)


class Versions(NamedTuple):
    """An inclusive range. Text: "3+", "8-10", "0"; nothing is no version at all."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        if not text:
            return cls(0, -1)
        first, _, last = text.partition("-")
        return cls(int(text[:-1]), 0x7FFF) if text[-1] == "+" else cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


@dataclass(slots=True)
class Struct:
    """Base of every table."""

    unknown_tags: tuple[tuple[int, Buffer], ...] = field(default=(), kw_only=True)


class Spec(NamedTuple):
    """How one field stands on the wire. `kind` is a primitive's name or another table."""

    kind: "str | type[Struct]"
    is_array: bool
    versions: Versions
    null: Versions
    tag: int | None


_SPEC = "wire"


def _field(spec: Spec, default: Any) -> Any:
    if spec.is_array and default is not None:
        return field(default_factory=list, metadata={_SPEC: spec})
    return field(default=default, metadata={_SPEC: spec})


def _primitive(kind: str, default: Any) -> Callable[..., Any]:
    def column(versions: str = "0+", *, null: str = "", tag: int | None = None, default: Any = default) -> Any:
        spec = Spec(kind, False, Versions.parse(versions), Versions.parse(null), tag)
        return _field(spec, default)

    return column


int8 = _primitive("int8", 0)
int16 = _primitive("int16", 0)
int32 = _primitive("int32", 0)
int64 = _primitive("int64", 0)
boolean = _primitive("bool", False)
uuid = _primitive("uuid", ZERO_UUID)
string = _primitive("string", "")
blob = _primitive("bytes", b"")
record_data = _primitive("records", None)


def array(of: "str | type[Struct]", versions: str = "0+", *, null: str = "", tag: int | None = None) -> Any:
    """An array of a primitive or of a table; empty by default."""
    return _field(Spec(of, True, Versions.parse(versions), Versions.parse(null), tag), ())


def struct_of(of: type[Struct], versions: str = "0+", *, null: str = "", tag: int | None = None) -> Any:
    """One structure, or null where it may be; None by default, which as a tagged field means absent."""
    return _field(Spec(of, False, Versions.parse(versions), Versions.parse(null), tag), None)


def columns(cls: type[Struct]) -> list[tuple[str, Spec]]:
    """Names and specifications in wire order."""
    return [(one.name, one.metadata[_SPEC]) for one in fields(cls) if _SPEC in one.metadata]
