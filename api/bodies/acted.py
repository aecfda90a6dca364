"""Who did what, as it is kept and as clients get it."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from api.bodies.fields import Moment


class ActOut(msgspec.Struct, frozen=True, kw_only=True):
    """A line about an act. A later version may write more fields."""

    at: Annotated[Moment, Meta(description="By the clock of the process that was asked.")]
    event: Annotated[
        str,
        Meta(
            description="`asked`: stored before it was tried; `answered`: with its `status`; `refused`: no rule "
            "allows it; `noticed`: done to a file, and noticed here."
        ),
    ]
    act: Annotated[str, Meta(description="The same in both lines about one act.")]
    principal: Annotated[str | None, Meta(description="null of what is noticed.")]
    operation: Annotated[str, Meta(description="The `operationId` of this document, or what was done to a file.")]
    topic: str | None = None
    path: str | UnsetType = UNSET
    query: str | UnsetType = UNSET
    address: str | UnsetType = UNSET
    request_id: str | UnsetType = UNSET
    body: Annotated[str | UnsetType, Meta(description="What it asked for, as it was understood.")] = UNSET
    body_bytes: Annotated[int | UnsetType, Meta(description="Of the body as it came.")] = UNSET
    body_sha256: Annotated[str | UnsetType, Meta(description="Of the body as it came.")] = UNSET
    status: Annotated[int | UnsetType, Meta(description="Of the answer.")] = UNSET
    left_out: Annotated[
        int | UnsetType, Meta(description="Requests of the principal that were refused before and are not listed.")
    ] = UNSET
    source: Annotated[str | UnsetType, Meta(description="The file in which it was noticed.")] = UNSET
    detail: str | UnsetType = UNSET


class ActsPage(msgspec.Struct, frozen=True):
    """Lines about acts, newest first; only `next_before: null` means that there are no more."""

    acts: Sequence[ActOut]
    next_before: str | None
    kept: Annotated[bool, Meta(description="Whether this process stores acts there (`access.act_topic`).")]
