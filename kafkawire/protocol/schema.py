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

`codec_of(cls, version)` compiles a table once for each version into three functions, read, write and skip; runs of
fields of fixed width become one `struct.Struct`. Callers use `kafkawire.protocol.message`.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, NamedTuple

from delayline.records.record import encode_uvarint
from kafkawire.protocol.errors import Malformed
from kafkawire.protocol.primitives import NULL, Buffer, Reader, Writer

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


_FIXED = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "bool": "?", "uuid": "16s"}
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


# --- compiled


class FieldCodec(NamedTuple):
    """What is done with a value of one type. `bytes_min` is the least that it takes on the wire."""

    read: Callable[[Reader], Any]
    write: Callable[[Writer, Any], None]
    skip: Callable[[Reader], None]
    bytes_min: int


class _Step(NamedTuple):
    """A part of a structure: one field, or a run of fields of fixed width."""

    read: Callable[[Reader, dict[str, Any]], None]
    write: Callable[[Writer, Any], None]
    skip: Callable[[Reader], None]
    bytes_min: int


_compiled: dict[tuple[type[Struct], int, bool], FieldCodec] = {}
"""As many as there are tables and versions of them."""


def codec_of(cls: type[Struct], version: int, flexible: bool) -> FieldCodec:
    """`cls` as `version` has it. `flexible` versions have compact lengths and tagged fields (KIP-482)."""
    key = cls, version, flexible
    if key not in _compiled:
        _compiled[key] = _compile(cls, version, flexible)
    return _compiled[key]


def _compile(cls: type[Struct], version: int, flexible: bool) -> FieldCodec:
    present = [(name, spec) for name, spec in columns(cls) if version in spec.versions]
    steps = _steps([(name, spec) for name, spec in present if spec.tag is None], version, flexible)
    tagged = {spec.tag: (name, spec) for name, spec in present if spec.tag is not None}
    if flexible:
        steps.append(_tags(cls, tagged, version))

    def read(reader: Reader) -> Any:
        values: dict[str, Any] = {}
        for step in steps:
            step.read(reader, values)
        return cls(**values)

    def write(writer: Writer, value: Any) -> None:
        for step in steps:
            step.write(writer, value)

    def skip(reader: Reader) -> None:
        for step in steps:
            step.skip(reader)

    return FieldCodec(read, write, skip, sum(step.bytes_min for step in steps))


class Slice(NamedTuple):
    """One field of a message in which only some are looked at."""

    name: str
    codec: FieldCodec
    data: memoryview


def slices(cls: type[Struct], version: int, flexible: bool, data: Buffer) -> tuple[list[Slice], memoryview]:
    """The fields of one structure as they stand in `data`, nothing decoded, and what follows the last of them: the
    tagged fields in flexible versions. Raises Malformed."""
    reader = Reader(data)
    found = []
    for name, codec in _field_codecs(cls, version, flexible):
        start = reader.at
        codec.skip(reader)
        found.append(Slice(name, codec, reader.data[start : reader.at]))
    return found, reader.data[reader.at :]


def elements(
    cls: type[Struct], version: int, flexible: bool, data: Buffer, name: str
) -> Iterator[tuple[Any, memoryview]]:
    """Each element of an array of `cls`: its field `name`, decoded, and the element as it stands in `data`."""
    reader = Reader(data)
    whole = codec_of(cls, version, flexible)
    before, field_codec = _up_to(cls, version, flexible, name)
    for _ in range(_length("int32", flexible).read(reader)):
        start = reader.at
        for codec in before:
            codec.skip(reader)
        value = field_codec.read(reader)
        reader.at = start
        whole.skip(reader)
        yield value, reader.data[start : reader.at]


def write_elements(writer: Writer, flexible: bool, parts: Sequence[Buffer]) -> None:
    """An array of elements that are encoded already."""
    _length("int32", flexible).write(writer, len(parts))
    for part in parts:
        writer.splice(part)


def _field_codecs(cls: type[Struct], version: int, flexible: bool) -> list[tuple[str, FieldCodec]]:
    return [
        (name, _value_codec(spec, version, flexible))
        for name, spec in columns(cls)
        if version in spec.versions and spec.tag is None
    ]


def _up_to(cls: type[Struct], version: int, flexible: bool, name: str) -> tuple[list[FieldCodec], FieldCodec]:
    before: list[FieldCodec] = []
    for field_name, codec in _field_codecs(cls, version, flexible):
        if field_name == name:
            return before, codec
        before.append(codec)
    raise KeyError(name)


def _steps(present: list[tuple[str, Spec]], version: int, flexible: bool) -> list[_Step]:
    steps: list[_Step] = []
    run: list[tuple[str, str]] = []
    for name, spec in present:
        if not spec.is_array and isinstance(spec.kind, str) and spec.kind in _FIXED:
            run.append((name, _FIXED[spec.kind]))
            continue
        if run:
            steps.append(_run(run))
            run = []
        steps.append(_single(name, _value_codec(spec, version, flexible)))
    return [*steps, _run(run)] if run else steps


def _run(run: list[tuple[str, str]]) -> _Step:
    names = [name for name, _ in run]
    layout = struct.Struct(">" + "".join(code for _, code in run))
    values_of = attrgetter(*names)

    def read(reader: Reader, values: dict[str, Any]) -> None:
        values.update(zip(names, reader.unpack(layout), strict=True))

    def write_one(writer: Writer, value: Any) -> None:
        writer.small += layout.pack(values_of(value))

    def write_all(writer: Writer, value: Any) -> None:
        writer.small += layout.pack(*values_of(value))

    def skip(reader: Reader) -> None:
        reader.advance(layout.size)

    return _Step(read, write_one if len(names) == 1 else write_all, skip, layout.size)


def _single(name: str, codec: FieldCodec) -> _Step:
    def read(reader: Reader, values: dict[str, Any]) -> None:
        values[name] = codec.read(reader)

    def write(writer: Writer, value: Any) -> None:
        codec.write(writer, getattr(value, name))

    return _Step(read, write, codec.skip, codec.bytes_min)


def _value_codec(spec: Spec, version: int, flexible: bool) -> FieldCodec:
    nullable = version in spec.null
    if spec.is_array:
        length = _length("int32", flexible)
        if spec.kind == "int32":
            return _int32_array(length, nullable)
        element = _element_codec(spec.kind, False, version, flexible)
        return _array(length, element, nullable)
    return _element_codec(spec.kind, nullable, version, flexible)


def _element_codec(kind: str | type[Struct], nullable: bool, version: int, flexible: bool) -> FieldCodec:
    if not isinstance(kind, str):
        codec = codec_of(kind, version, flexible)
        return _nullable_struct(codec) if nullable else codec
    if kind in _FIXED:
        return _fixed(struct.Struct(">" + _FIXED[kind]))
    if kind == "string":
        return _text(_length("int16", flexible), nullable)
    return _bytes(_length("int32", flexible), nullable)


class _Length(NamedTuple):
    """How a length stands on the wire; -1 is null."""

    read: Callable[[Reader], int]
    write: Callable[[Writer, int], None]
    bytes_min: int


def _length(kind: str, flexible: bool) -> _Length:
    if flexible:
        return _Length(Reader.compact_length, Writer.compact_length, 1)
    if kind == "int16":
        return _Length(Reader.int16_length, Writer.int16_length, 2)
    return _Length(Reader.int32_length, Writer.int32_length, 4)


def _fixed(layout: struct.Struct) -> FieldCodec:
    def read(reader: Reader) -> Any:
        return reader.unpack(layout)[0]

    def write(writer: Writer, value: Any) -> None:
        writer.small += layout.pack(value)

    return FieldCodec(read, write, lambda reader: reader.advance(layout.size), layout.size)


def _text(length: _Length, nullable: bool) -> FieldCodec:
    return _counted(length, nullable, Reader.text, str.encode)


def _bytes(length: _Length, nullable: bool) -> FieldCodec:
    return _counted(length, nullable, Reader.take, lambda value: value)


def _counted(
    length: _Length, nullable: bool, take: Callable[[Reader, int], Any], as_bytes: Callable[[Any], Buffer]
) -> FieldCodec:
    """Something behind its length in bytes."""

    def read(reader: Reader) -> Any:
        size = length.read(reader)
        if size == NULL:
            return _null(nullable)
        return take(reader, size)

    def write(writer: Writer, value: Any) -> None:
        if value is None:
            length.write(writer, _null_length(nullable))
            return
        data = as_bytes(value)
        length.write(writer, len(data))
        writer.splice(data)

    def skip(reader: Reader) -> None:
        size = length.read(reader)
        reader.advance(_null_size(nullable) if size == NULL else size)

    return FieldCodec(read, write, skip, length.bytes_min)


def _null(nullable: bool) -> None:
    if not nullable:
        raise Malformed("a field is null that may not be")


def _null_size(nullable: bool) -> int:
    _null(nullable)
    return 0


def _null_length(nullable: bool) -> int:
    assert nullable, "only a nullable field of ours is None"
    return NULL


def _array(length: _Length, element: FieldCodec, nullable: bool) -> FieldCodec:
    def count(reader: Reader) -> int:
        size = length.read(reader)
        if size != NULL:
            reader.count_items(size, element.bytes_min)
        else:
            _null(nullable)
        return size

    def read(reader: Reader) -> Any:
        size = count(reader)
        return None if size == NULL else [element.read(reader) for _ in range(size)]

    def write(writer: Writer, value: Any) -> None:
        if value is None:
            length.write(writer, _null_length(nullable))
            return
        length.write(writer, len(value))
        for one in value:
            element.write(writer, one)

    def skip(reader: Reader) -> None:
        for _ in range(count(reader)):
            element.skip(reader)

    return FieldCodec(read, write, skip, length.bytes_min)


def _int32_array(length: _Length, nullable: bool) -> FieldCodec:
    """Node ids and partitions: read in one go."""

    def read(reader: Reader) -> Any:
        size = length.read(reader)
        if size == NULL:
            return _null(nullable)
        reader.count_items(size, 4)
        return list(struct.unpack(f">{size}i", reader.take(4 * size)))

    def write(writer: Writer, value: Any) -> None:
        if value is None:
            length.write(writer, _null_length(nullable))
            return
        length.write(writer, len(value))
        writer.small += struct.pack(f">{len(value)}i", *value)

    def skip(reader: Reader) -> None:
        size = length.read(reader)
        reader.advance(_null_size(nullable) if size == NULL else 4 * size)

    return FieldCodec(read, write, skip, length.bytes_min)


def _nullable_struct(codec: FieldCodec) -> FieldCodec:
    """A structure behind one byte: -1 is null, 1 present."""

    def read(reader: Reader) -> Any:
        return None if reader.int8_length() == NULL else codec.read(reader)

    def write(writer: Writer, value: Any) -> None:
        writer.int8_length(NULL if value is None else 1)
        if value is not None:
            codec.write(writer, value)

    def skip(reader: Reader) -> None:
        if reader.int8_length() != NULL:
            codec.skip(reader)

    return FieldCodec(read, write, skip, 1)


# --- tagged fields


def _tags(cls: type[Struct], tagged: dict[int, tuple[str, Spec]], version: int) -> _Step:
    """The end of a structure in flexible versions: `count, (tag, size, bytes)...`, ascending by tag."""
    known = {tag: (name, _value_codec(spec, version, True)) for tag, (name, spec) in tagged.items()}
    absent = cls()

    def read(reader: Reader, values: dict[str, Any]) -> None:
        count = reader.uvarint()
        if not count:
            return
        reader.count_items(count, 2)
        unknown: list[tuple[int, Buffer]] = []
        for _ in range(count):
            tag, data = reader.uvarint(), reader.take(reader.uvarint())
            if tag in known:
                name, codec = known[tag]
                values[name] = _read_tagged(codec, data, reader)
            else:
                unknown.append((tag, data))
        values["unknown_tags"] = tuple(unknown)

    def write(writer: Writer, value: Any) -> None:
        parts: list[tuple[int, Buffer]] = list(value.unknown_tags)
        for tag, (name, codec) in known.items():
            one = getattr(value, name)
            if one != getattr(absent, name):
                parts.append((tag, _written(codec, one)))
        _write_tags(writer, parts)

    def skip(reader: Reader) -> None:
        for _ in range(reader.uvarint()):
            reader.uvarint()
            reader.advance(reader.uvarint())

    return _Step(read, write, skip, 1)


def _read_tagged(codec: FieldCodec, data: memoryview, outer: Reader) -> Any:
    reader = Reader(data, outer.items_left)
    value = codec.read(reader)
    if reader.at != reader.end:
        raise Malformed("bytes behind the end of a tagged field")
    outer.items_left = reader.items_left
    return value


def _written(codec: FieldCodec, value: Any) -> bytes:
    writer = Writer()
    codec.write(writer, value)
    return b"".join(writer.finish())


def _write_tags(writer: Writer, parts: Iterable[tuple[int, Buffer]]) -> None:
    ordered = sorted(parts, key=lambda part: part[0])
    writer.uvarint(len(ordered))
    for tag, data in ordered:
        writer.small += encode_uvarint(tag) + encode_uvarint(len(data))
        writer.splice(data)
