"""Tables of `schema.py`, compiled: for each version of a table three functions that read, write and skip a value.

Runs of fields of fixed width become one `struct.Struct`: an answer with ten thousand partitions is mostly such runs.
"""

import struct
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from delayline.records.record import encode_uvarint
from kafkawire.protocol.errors import Malformed
from kafkawire.protocol.primitives import NULL, Buffer, Reader, Writer
from kafkawire.protocol.schema import Spec, Struct, columns

_FIXED = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "bool": "?", "uuid": "16s"}


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
        # Tagged fields stand last in a structure, whatever their place in the table (KIP-482).
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


def field_codecs(cls: type[Struct], version: int, flexible: bool) -> list[tuple[str, FieldCodec]]:
    return [
        (name, value_codec(spec, version, flexible))
        for name, spec in columns(cls)
        if version in spec.versions and spec.tag is None
    ]


def _steps(present: list[tuple[str, Spec]], version: int, flexible: bool) -> list[_Step]:
    steps: list[_Step] = []
    run: list[tuple[str, str]] = []
    for name, spec in present:
        # A run ends at the first field of variable width: behind it the offsets of further fields are unknown.
        if not spec.is_array and isinstance(spec.kind, str) and spec.kind in _FIXED:
            run.append((name, _FIXED[spec.kind]))
            continue
        if run:
            steps.append(_run(run))
            run = []
        steps.append(_single(name, value_codec(spec, version, flexible)))
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


def value_codec(spec: Spec, version: int, flexible: bool) -> FieldCodec:
    nullable = version in spec.null
    if spec.is_array:
        length = length_codec("int32", flexible)
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
        return _text(length_codec("int16", flexible), nullable)
    return _bytes(length_codec("int32", flexible), nullable)


class _Length(NamedTuple):
    """How a length stands on the wire; -1 is null."""

    read: Callable[[Reader], int]
    write: Callable[[Writer, int], None]
    bytes_min: int


def length_codec(kind: str, flexible: bool) -> _Length:
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
            # Before the list is made: four bytes of length must not cost gigabytes of memory.
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
    known = {tag: (name, value_codec(spec, version, True)) for tag, (name, spec) in tagged.items()}
    absent = cls()

    def read(reader: Reader, values: dict[str, Any]) -> None:
        count = reader.uvarint()
        if not count:
            return
        # A tag and a size take a byte each at least.
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
            # The absence of a tagged field is its default (KIP-482): written out, every message would grow by it.
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
    # The size does not match: the field may be of a later version with more in it, which we would drop.
    if reader.at != reader.end:
        raise Malformed("bytes behind the end of a tagged field")
    outer.items_left = reader.items_left
    return value


def _written(codec: FieldCodec, value: Any) -> bytes:
    writer = Writer()
    codec.write(writer, value)
    return b"".join(writer.finish())


def _write_tags(writer: Writer, parts: Iterable[tuple[int, Buffer]]) -> None:
    # Ascending tags are part of the format (KIP-482).
    ordered = sorted(parts, key=lambda part: part[0])
    writer.uvarint(len(ordered))
    for tag, data in ordered:
        writer.small += encode_uvarint(tag) + encode_uvarint(len(data))
        writer.splice(data)
