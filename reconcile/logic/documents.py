"""JSON documents of ours: `v` of each is its version."""

from typing import Protocol, TypeVar

import msgspec

from reconcile.errors import BadInput


class _Head(msgspec.Struct):
    """What a document of any version has."""

    v: int


class _Versioned(Protocol):
    @property
    def v(self) -> int: ...


Document = TypeVar("Document", bound=_Versioned)


def decode(data: bytes, kind: type[Document], name: str, version: int) -> Document:
    """Raises BadInput, which calls it `name`: no document of this kind, or one of another version."""
    try:
        if (document := msgspec.json.decode(data, type=_Head)).v != version:
            raise BadInput(f"{name} has version {document.v}, this program knows {version}")
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:  # DecodeError is a ValueError, and so is text that is no UTF-8
        raise BadInput(f"{name} cannot be read: {error}") from error


def encode_for_people(document: msgspec.Struct) -> bytes:
    """Indented, with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
