"""Who we are to the brokers, and how connections of our own to them are encrypted: for what speaks the protocol
itself instead of asking librdkafka, from properties with librdkafka's names and values."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from delayline.errors import ConfigError
from kafkawire.security.kerberos import Kerberos, read_kerberos
from kafkawire.security.oauth.reading import read_tokens
from kafkawire.security.oauth.tokens import Tokens
from kafkawire.security.tls import TLS, read_tls

PLAINTEXT = "plaintext"
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER, GSSAPI = "OAUTHBEARER", "GSSAPI"
MECHANISMS = (*PASSWORDS, OAUTHBEARER, GSSAPI)
PROTOCOLS = {
    PLAINTEXT: (False, False),
    "ssl": (True, False),
    "sasl_plaintext": (False, True),
    "sasl_ssl": (True, True),
}
"""By name: whether it is encrypted, and whether it is authenticated by SASL."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Of SASL; `mechanism` is one of MECHANISMS. OAUTHBEARER has `tokens`, GSSAPI has `kerberos`, the others have
    name and password."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    tokens: Tokens | None = None
    kerberos: Kerberos | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """`tls` None is plaintext, `credentials` None no SASL."""

    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None


def read_access(properties: Mapping[str, str], tokens: Tokens | None = None) -> Access:
    """`tokens` are those of the process, made from the same properties where there are none yet. Raises ConfigError
    for what we would have to guess at."""
    name = properties.get("security.protocol", PLAINTEXT).lower()
    if name not in PROTOCOLS:
        raise ConfigError(f"mq.properties: security.protocol is one of {', '.join(PROTOCOLS)}.")
    encrypted, authenticated = PROTOCOLS[name]
    credentials = _credentials(properties, tokens) if authenticated else None
    if not encrypted:
        return Access(credentials=credentials)
    if unknown := sorted(key for key in properties if key.startswith("ssl.") and key not in TLS):
        raise ConfigError(f"mq.properties: {', '.join(unknown)}: not known to Delayline's own client.")
    return Access(read_tls(properties), credentials)


def mechanism_of(properties: Mapping[str, str]) -> str:
    """The SASL mechanism, empty where none is used. Without a word it is GSSAPI, as for librdkafka."""
    _, authenticated = PROTOCOLS.get(properties.get("security.protocol", PLAINTEXT).lower(), (False, False))
    named = properties.get("sasl.mechanisms", properties.get("sasl.mechanism", GSSAPI)).upper()
    return named if authenticated else ""


def _credentials(properties: Mapping[str, str], tokens: Tokens | None) -> Credentials:
    mechanism = mechanism_of(properties)
    if mechanism not in MECHANISMS:
        raise ConfigError(f"mq.properties: sasl.mechanism is one of {', '.join(MECHANISMS)}.")
    if mechanism == OAUTHBEARER:
        return Credentials(mechanism, tokens=tokens or read_tokens(properties))
    if mechanism == GSSAPI:
        return Credentials(mechanism, kerberos=read_kerberos(properties))
    username, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    if not username or not password:
        raise ConfigError("mq.properties: sasl.username and sasl.password are needed.")
    return Credentials(mechanism, username, password)
