"""Types of fields that several bodies share."""

from typing import Annotated

from msgspec import Meta, Raw, UnsetType

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
PartitionName = Annotated[str, Meta(max_length=120)]
PartitionNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Json = Annotated[
    Raw | UnsetType,
    Meta(
        description="A string stands for its UTF-8 bytes; object, array, number and bool for their compact JSON, "
        "numbers as they are written; null for no bytes at all."
    ),
]
Base64 = Annotated[bytes | None, Meta(description="Instead of the field without `_base64`: any bytes (RFC 4648, 4).")]
Moment = Annotated[str, Meta(description="RFC 3339, UTC, milliseconds", examples=["2026-01-01T00:00:30.000Z"])]
