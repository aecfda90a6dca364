"""The section of the settings about an identity provider, and what it cannot hold.

Only asymmetric algorithms can be named: with HMAC the key that checks a token could make one, and a public key would
be a secret of that kind (RFC 8725, 2.1).
"""

import re
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from delayline.config.section import Section, default
from delayline.config.types import CommaSeparated, Duration, File, Secret, durations
from delayline.errors import ConfigError
from delayline.http.urls import is_safe_url

if TYPE_CHECKING:
    from delayline.config.settings import Settings

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"
]
"""RFC 7518, 3.1, RFC 8037, 3.1, and RFC 9864."""

CALLBACK = "/v1/session/callback"
"""Where the identity provider sends a browser back to, behind what a reverse proxy puts in front."""

_PREFIX = "access.oidc"
_OF_LOGIN = ("client_secret", "redirect_url", "scopes")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
"""RFC 6749, 3.3."""

Text = Annotated[str, Field(max_length=2000)]


class Oidc(Section):
    """An identity provider whose tokens are credentials here, and which logs people in where `client_id` is set."""

    issuer: Text = ""
    audience: Text = ""
    algorithms: Annotated[tuple[Algorithm, ...], CommaSeparated] = ("RS256", "PS256", "ES256", "EdDSA")
    principal_claim: Annotated[str, Field(min_length=1, max_length=200)] = "sub"
    groups_claim: Annotated[str, Field(max_length=200)] = ""
    leeway: Annotated[Duration, durations("0s", "5m")] = default("60s")
    jwks_url: Text = ""
    cafile: File = None
    client_id: Text = ""
    client_secret: Secret = SecretStr("")
    scopes: Annotated[tuple[str, ...], CommaSeparated] = ("openid",)
    redirect_url: Text = ""


def check_oidc(settings: "Settings") -> None:
    """Raises ConfigError with the first thing that is wrong."""
    oidc = settings.access.oidc
    if not oidc.issuer:
        _refuse_set(settings, list(Oidc.model_fields), "issuer")
        return
    for name in ("issuer", "jwks_url"):
        _check_url(settings, name)
    if not oidc.audience:
        raise ConfigError(
            f"{_PREFIX}.audience: set the name that tokens for this API carry in `aud`; without it every token of "
            f"the issuer would be accepted, for whatever it was made (from {settings.source(f'{_PREFIX}.issuer')})."
        )
    if not oidc.algorithms:
        raise _wrong(settings, "algorithms", "name one at least")
    _check_login(settings)


def _check_login(settings: "Settings") -> None:
    oidc = settings.access.oidc
    if not oidc.client_id:
        _refuse_set(settings, _OF_LOGIN, "client_id")
        return
    if not oidc.redirect_url:
        source = settings.source(f"{_PREFIX}.client_id")
        raise ConfigError(
            f"{_PREFIX}.redirect_url: a login needs the URL under which browsers reach {CALLBACK}, as the identity "
            f"provider knows it (from {source})."
        )
    _check_url(settings, "redirect_url")
    if not urlsplit(oidc.redirect_url).path.endswith(CALLBACK):
        raise _wrong(settings, "redirect_url", f"its path ends with {CALLBACK}")
    if "openid" not in oidc.scopes or not all(map(_SCOPE.fullmatch, oidc.scopes)):
        raise _wrong(settings, "scopes", "names without blanks or quotes, `openid` among them")


def _refuse_set(settings: "Settings", names: "list[str] | tuple[str, ...]", needed: str) -> None:
    """An accepted setting that does nothing would be a lie."""
    unset = Oidc()
    for name in names:
        if getattr(settings.access.oidc, name) != getattr(unset, name):
            raise _wrong(settings, name, f"it has a meaning with {_PREFIX}.{needed} only")


def _check_url(settings: "Settings", name: str) -> None:
    """Keys and secrets that cross the network in the clear could be replaced, or read."""
    url = getattr(settings.access.oidc, name)
    if url and not is_safe_url(url):
        raise _wrong(settings, name, "expected a URL with https, or with http to this machine, without ?, # and @")


def _wrong(settings: "Settings", name: str, why: str) -> ConfigError:
    return ConfigError(f"{_PREFIX}.{name}: {why} (from {settings.source(f'{_PREFIX}.{name}')}).")
