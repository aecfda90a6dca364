"""The source of tokens that the properties name."""

import ipaddress
import re
import shlex
from collections.abc import Mapping
from urllib.parse import urlsplit

from delayline.clock import Clock
from delayline.errors import ConfigError
from kafkawire.security.oauth.local import COMMAND, FILE, UNSECURED, FromCommand, FromFile, Unsecured
from kafkawire.security.oauth.oidc import URL, Oidc
from kafkawire.security.oauth.tokens import Fetch, Tokens
from kafkawire.security.tls import authorities, yes

METHOD, EXTENSIONS = "sasl.oauthbearer.method", "sasl.oauthbearer.extensions"
UNSECURE = "enable.sasl.oauthbearer.unsecure.jwt"
SCOPE = "sasl.oauthbearer.scope"
CLIENT_ID = ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id")
SECRET = ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret")
"""Two names of one property each."""
CONSTANT = {
    "sasl.oauthbearer.grant.type": "client_credentials",
    "sasl.oauthbearer.metadata.authentication.type": "none",
}
"""Other values lead to tokens by ways that are not built: a command can go them."""
TRUST = ("https.ca.location", "https.ca.pem")

OURS = frozenset({FILE, COMMAND})
"""Delayline's own names: no librdkafka is shown them."""

PROPERTIES = OURS | {METHOD, EXTENSIONS, UNSECURE, UNSECURED, URL, SCOPE, *CLIENT_ID, *SECRET, *CONSTANT, *TRUST}
"""Everything that is read here."""

OIDC_ALONE = frozenset({URL, SCOPE, *CLIENT_ID, *SECRET, *CONSTANT, *TRUST})

LIFE_S, LIFE_MAX_S = 3600, 366 * 86_400

_KEY, _VALUE = re.compile(r"[A-Za-z]+"), re.compile(r"[\x21-\x7e \t\r\n]+")
"""Of extensions (RFC 7628, section 3.1)."""


def read_tokens(properties: Mapping[str, str], clock: Clock | None = None) -> Tokens:
    """Of the mechanism OAUTHBEARER. Raises ConfigError. Fetches nothing yet."""
    oidc, insecure = _is_oidc(properties), yes(properties, UNSECURE, default=False)
    ways = [name for name, wanted in ((METHOD, oidc), (UNSECURE, insecure)) if wanted]
    ways += [name for name in (FILE, COMMAND) if name in properties]
    if len(ways) != 1:
        found = f"not {' and '.join(ways)}" if ways else "none is set"
        raise ConfigError(
            f"mq.properties: with OAUTHBEARER, tokens come by one of {METHOD} = oidc, {FILE}, {COMMAND} and, "
            f"for tests, {UNSECURE}; {found}."
        )
    if not oidc and (unused := sorted(OIDC_ALONE & properties.keys())):
        raise ConfigError(f"mq.properties: {', '.join(unused)}: only with {METHOD} = oidc.")
    if not insecure and UNSECURED in properties:
        raise ConfigError(f"mq.properties: {UNSECURED}: only with {UNSECURE} = true.")
    (way,) = ways
    return Tokens(URL if oidc else UNSECURED if insecure else way, _fetch(way, properties), clock)


def _is_oidc(properties: Mapping[str, str]) -> bool:
    method = properties.get(METHOD, "default").lower()
    if method not in ("default", "oidc"):
        raise ConfigError(f"mq.properties: {METHOD} is default or oidc.")
    return method == "oidc"


def _fetch(way: str, properties: Mapping[str, str]) -> Fetch:
    extensions = _extensions(properties)
    if way == FILE:
        return FromFile(_needed(properties, FILE), extensions)
    if way == COMMAND:
        return FromCommand(_words(_needed(properties, COMMAND)), extensions)
    return _oidc(properties, extensions) if way == METHOD else _unsecured(properties, extensions)


def _needed(properties: Mapping[str, str], *names: str) -> str:
    """The value of a property by any of its names."""
    values = {properties[name] for name in names if properties.get(name)}
    if len(values) != 1:
        what = "they contradict each other" if values else "it is needed"
        raise ConfigError(f"mq.properties: {' and '.join(names if values else names[:1])}: {what}.")
    return values.pop()


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise ConfigError(f"mq.properties: {COMMAND}: {error}.") from None
    if not words or any("\0" in word for word in words):
        raise ConfigError(f"mq.properties: {COMMAND}: it names no command.")
    return words


# --- a token endpoint


def _oidc(properties: Mapping[str, str], extensions: Mapping[str, str]) -> Fetch:
    for name, only in CONSTANT.items():
        if properties.get(name, only) != only:
            raise ConfigError(f"mq.properties: {name}: {only} is the only one that is spoken; see {COMMAND}.")
    client_id, secret = _needed(properties, *CLIENT_ID), _needed(properties, *SECRET)
    if ":" in client_id or not f"{client_id}{secret}{properties.get(SCOPE, '')}".isprintable():
        named = f"{CLIENT_ID[0]}, {SECRET[0]}, {SCOPE}"
        raise ConfigError(f"mq.properties: {named}: no control characters, and no colon in the id (RFC 7617).")
    trust = {name: properties[name] for name in TRUST if name in properties}
    authorities(trust, "https.ca")  # for its errors, now
    return Oidc(_endpoint(_needed(properties, URL)), client_id, secret, properties.get(SCOPE, ""), extensions, trust)


def _endpoint(url: str) -> str:
    """A secret is sent there: encrypted, or on this machine. Raises ConfigError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"mq.properties: {URL}: it is no URL of a server.")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"mq.properties: {URL}: name and password go into {CLIENT_ID[0]} and {SECRET[0]}.")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_here(host)):
        raise ConfigError(f"mq.properties: {URL}: https, or http on a loopback address: a secret is sent there.")
    return url


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- what is written into one property


def _extensions(properties: Mapping[str, str]) -> dict[str, str]:
    text = properties.get(EXTENSIONS, "")
    return _checked(EXTENSIONS, [part.strip() for part in text.split(",") if part.strip()])


def _checked(name: str, pairs: list[str]) -> dict[str, str]:
    """Raises ConfigError."""
    found = {}
    for pair in pairs:
        key, is_there, value = pair.partition("=")
        if not is_there or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value) or key == "auth":
            raise ConfigError(f"mq.properties: {name}: extensions are name=value, names of letters, and never auth.")
        found[key] = value
    return found


def _unsecured(properties: Mapping[str, str], extensions: Mapping[str, str]) -> Fetch:
    """`principal=`, and what librdkafka knows besides: `principalClaimName=`, `scope=` (with commas),
    `scopeClaimName=`, `lifeSeconds=`, `extension_NAME=`."""
    given = dict(part.partition("=")[::2] for part in properties.get(UNSECURED, "").split())
    own = [
        f"{key.removeprefix('extension_')}={given.pop(key)}" for key in list(given) if key.startswith("extension_")
    ]
    principal, life = given.pop("principal", ""), given.pop("lifeSeconds", str(LIFE_S))
    principal_name, scope_name = given.pop("principalClaimName", "sub"), given.pop("scopeClaimName", "scope")
    scopes = [one for one in given.pop("scope", "").split(",") if one]
    if given:
        raise ConfigError(f"mq.properties: {UNSECURED}: {', '.join(sorted(given))} is not known.")
    if not principal:
        raise ConfigError(f"mq.properties: {UNSECURED}: principal=NAME is needed.")
    if not life.isascii() or not life.isdigit() or not 0 < int(life[:12]) <= LIFE_MAX_S:
        raise ConfigError(f"mq.properties: {UNSECURED}: lifeSeconds is 1 to {LIFE_MAX_S}.")
    claims = {principal_name: principal, **({scope_name: scopes} if scopes else {})}
    return Unsecured(claims, int(life), {**extensions, **_checked(UNSECURED, own)})
