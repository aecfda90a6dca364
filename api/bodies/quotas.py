"""What clients get about quotas."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

Limits = Annotated[Mapping[str, str], Meta(description="As the file of rules has them, with the bursts that hold.")]


class QuotaOut(msgspec.Struct, frozen=True):
    """A quota of the file of rules."""

    principals: Sequence[str]
    limits: Limits


class UsedOut(msgspec.Struct, frozen=True):
    """How far a bucket is used."""

    limit: str
    used: Annotated[int, Meta(description="Tokens that are missing now. More than `burst`: a debt.")]
    burst: int


class PrincipalOut(msgspec.Struct, frozen=True):
    """What a principal has used, in this process."""

    principal: str
    entrance: Annotated[str, Meta(description="`http` or `kafka`: the buckets of the two are apart.")]
    limits: Limits
    used: Sequence[UsedOut]
    throttled: Annotated[int, Meta(description="Requests refused, and pauses of Kafka connections, since the start.")]


class QuotasOut(msgspec.Struct, frozen=True):
    """Quotas, and what was used of them."""

    over_http: Annotated[bool, Meta(description="Whether they count over HTTP: where `api.auth` needs keys.")]
    quotas: Sequence[QuotaOut]
    principals: Annotated[
        Sequence[PrincipalOut], Meta(description="Those that this process has seen; throttled most often first.")
    ]
    complete: Annotated[bool, Meta(description="false: there are more principals than are shown.")]
