"""What a token of an identity provider must claim, and who it is about. Pure; times are the caller's.

The principal is `oidc:<value>`, a group `oidc-group:<value>`. No key's principal has a colon, so the provider cannot
give anyone the name of a key's principal, nor a group that of a user. docs/adr/0027-oidc.md has the reasons.
"""

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from api.access.oidc.strict import NotAccepted, Object
from delayline.access.names import OIDC, OIDC_GROUP

GROUPS_MAX = 200

_NAME = re.compile(r"[A-Za-z0-9._@/+|:=~-]{1,128}")
"""Nothing that a log line, a rule's wildcard or a terminal could take for something else."""
_GROUP = re.compile(r"[A-Za-z0-9._@/+|:=~-](?:[A-Za-z0-9._@/+|:=~ -]{0,126}[A-Za-z0-9._@/+|:=~-])?")
"""A group may have blanks inside: many directories do."""

_TYPES = frozenset({None, "jwt", "at+jwt", "application/at+jwt"})
"""RFC 9068, 2.1. What else a provider signs (log-out tokens, events of RFC 8417) is no credential."""


@dataclass(frozen=True, slots=True)
class OidcClient:
    """What a login needs."""

    id: str
    redirect_url: str
    scopes: Sequence[str]
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Which tokens are accepted. `client` is None where people do not log in by the provider."""

    issuer: str
    audience: str
    algorithms: Sequence[str]
    principal_claim: str = "sub"
    groups_claim: str = ""
    leeway_ms: int = 60_000
    jwks_url: str = ""
    client: OidcClient | None = None

    @property
    def of_sessions(self) -> str:
        """What ends the sessions of people where it changes."""
        client_id = "" if self.client is None else self.client.id
        return "\n".join((self.issuer, client_id, self.principal_claim, self.groups_claim))


class Identity(NamedTuple):
    """Who a token is about: the names that rules may have for it, the principal first; until when, epoch ms, leeway
    included."""

    names: tuple[str, ...]
    end_ms: int


def checked_header(header: Object, algorithms: Sequence[str]) -> tuple[str | None, str]:
    """(the id of the key that it names, its algorithm). Raises NotAccepted."""
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ")
    if algorithm not in algorithms:
        raise NotAccepted("its algorithm is none of access.oidc.algorithms")
    if not isinstance(key_id, str | None) or not isinstance(kind, str | None):
        raise NotAccepted("kid and typ are text")
    if (kind if kind is None else kind.lower()) not in _TYPES:
        raise NotAccepted("it is no access token by its typ")
    if "crit" in header:
        raise NotAccepted("its header has crit, which is not understood here")
    return key_id, str(algorithm)


def of_access_token(claims: Object, settings: OidcSettings, now_ms: int) -> Identity:
    """Raises NotAccepted."""
    end_ms = _checked(claims, settings, settings.audience, now_ms)
    return Identity(_names(claims, settings), end_ms)


def of_id_token(claims: Object, settings: OidcSettings, client: OidcClient, nonce: str, now_ms: int) -> Identity:
    """OpenID Connect Core, 3.1.3.7. Raises NotAccepted."""
    end_ms = _checked(claims, settings, client.id, now_ms)
    if "iat" not in claims:
        raise NotAccepted("an ID token has iat")
    if claims.get("azp", client.id) != client.id:
        raise NotAccepted("it was issued to another client")
    shown = claims.get("nonce")
    if not isinstance(shown, str) or not hmac.compare_digest(shown.encode(), nonce.encode()):
        raise NotAccepted("it belongs to another login")
    return Identity(_names(claims, settings), end_ms)


def _checked(claims: Object, settings: OidcSettings, audience: str, now_ms: int) -> int:
    """When it ends. Raises NotAccepted."""
    if claims.get("iss") != settings.issuer:
        raise NotAccepted("another issuer has issued it")
    aud = claims.get("aud")
    listed = aud if isinstance(aud, list) else [aud]
    if audience not in listed or not all(isinstance(one, str) for one in listed):
        raise NotAccepted("it is for another audience")
    end_ms = _moment_ms(claims, "exp") + settings.leeway_ms
    if now_ms >= end_ms:
        raise NotAccepted("it has expired")
    for name in ("nbf", "iat"):
        if name in claims and _moment_ms(claims, name) > now_ms + settings.leeway_ms:
            raise NotAccepted(f"its {name} is in the future")
    return end_ms


def _moment_ms(claims: Object, name: str) -> int:
    """Of a NumericDate (RFC 7519, 2). Raises NotAccepted."""
    value: Any = claims.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1 << 40:
        raise NotAccepted(f"its {name} is no time")
    return int(value * 1000)


def _names(claims: Object, settings: OidcSettings) -> tuple[str, ...]:
    """Raises NotAccepted."""
    value = claims.get(settings.principal_claim)
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise NotAccepted(
            f"its claim {settings.principal_claim} is no name of 1 to 128 of A-Z a-z 0-9 . _ @ / + | : = ~ -"
        )
    return (OIDC + value, *_groups(claims, settings.groups_claim))


def _groups(claims: Object, claim: str) -> list[str]:
    """Those with other characters are left out: no rule could name them. Raises NotAccepted."""
    found = claims.get(claim, []) if claim else []
    listed = [found] if isinstance(found, str) else found
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise NotAccepted(f"its claim {claim} is no list of names")
    if len(listed) > GROUPS_MAX:
        raise NotAccepted(f"its claim {claim} has more than {GROUPS_MAX} names")
    return [OIDC_GROUP + one for one in dict.fromkeys(listed) if _GROUP.fullmatch(one)]
