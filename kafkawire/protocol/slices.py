"""Parts of a message that are copied as they stand, because only some of its fields are looked at.

The proxy changes a few fields of answers that may name every partition of a cluster: what it does not look at is
neither decoded nor encoded again.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kafkawire.protocol.codec import FieldCodec, codec_of, field_codecs, length_codec
from kafkawire.protocol.primitives import Buffer, Reader, Writer
from kafkawire.protocol.schema import Struct


class Slice(NamedTuple):
    """One field of a message in which only some are looked at."""

    name: str
    codec: FieldCodec
    data: memoryview


def slices(cls: type[Struct], version: int, flexible: bool, data: Buffer) -> tuple[list[Slice], memoryview]:
    """The fields of one structure as they are in `data`, nothing decoded, and what follows the last of them: the
    tagged fields in flexible versions. Raises Malformed."""
    reader = Reader(data)
    found = []
    for name, codec in field_codecs(cls, version, flexible):
        start = reader.at
        codec.skip(reader)
        found.append(Slice(name, codec, reader.data[start : reader.at]))
    return found, reader.data[reader.at :]


def elements(
    cls: type[Struct], version: int, flexible: bool, data: Buffer, name: str
) -> Iterator[tuple[Any, memoryview]]:
    """Each element of an array of `cls`: its field `name`, decoded, and the element as it is in `data`."""
    reader = Reader(data)
    whole = codec_of(cls, version, flexible)
    before, field_codec = _up_to(cls, version, flexible, name)
    for _ in range(length_codec("int32", flexible).read(reader)):
        start = reader.at
        for codec in before:
            codec.skip(reader)
        value = field_codec.read(reader)
        # Back to its beginning: the fields behind the one that was read have to be skipped, too.
        reader.at = start
        whole.skip(reader)
        yield value, reader.data[start : reader.at]


def write_elements(writer: Writer, flexible: bool, parts: Sequence[Buffer]) -> None:
    """An array of elements that are encoded already."""
    length_codec("int32", flexible).write(writer, len(parts))
    for part in parts:
        # As bytes: an element that was not changed is not encoded again.
        writer.splice(part)


def _up_to(cls: type[Struct], version: int, flexible: bool, name: str) -> tuple[list[FieldCodec], FieldCodec]:
    before: list[FieldCodec] = []
    for field_name, codec in field_codecs(cls, version, flexible):
        if field_name == name:
            return before, codec
        before.append(codec)
    raise KeyError(name)
