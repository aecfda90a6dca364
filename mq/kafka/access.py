"""Who we are to the brokers, and how connections of our own to them are encrypted: for what speaks the protocol
itself instead of asking librdkafka, from properties with librdkafka's names and values."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from delayline.errors import ConfigError

PLAINTEXT = "plaintext"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = {
    PLAINTEXT: (False, False),
    "ssl": (True, False),
    "sasl_plaintext": (False, True),
    "sasl_ssl": (True, True),
}
"""By name: whether it is encrypted, and whether it is authenticated by SASL."""

TLS = frozenset(
    {
        *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"),
        *("enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"),
    }
)
"""The properties of encryption that are understood here."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Of SASL; `mechanism` is one of MECHANISMS."""

    mechanism: str
    username: str
    password: str


@dataclass(frozen=True, slots=True)
class Access:
    """`tls` None is plaintext, `credentials` None no SASL."""

    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None


def read_access(properties: Mapping[str, str]) -> Access:
    """Raises ConfigError for what we would have to guess at."""
    name = properties.get("security.protocol", PLAINTEXT).lower()
    if name not in PROTOCOLS:
        raise ConfigError(f"mq.properties: security.protocol is one of {', '.join(PROTOCOLS)}.")
    encrypted, authenticated = PROTOCOLS[name]
    credentials = _credentials(properties) if authenticated else None
    if not encrypted:
        return Access(credentials=credentials)
    if unknown := sorted(key for key in properties if key.startswith("ssl.") and key not in TLS):
        raise ConfigError(f"mq.properties: only librdkafka understands {', '.join(unknown)}.")
    return Access(_with_certificate(trusting(properties), properties), credentials)


def _credentials(properties: Mapping[str, str]) -> Credentials:
    mechanism = properties.get("sasl.mechanisms", properties.get("sasl.mechanism", "")).upper()
    if mechanism not in MECHANISMS:
        raise ConfigError(f"mq.properties: without librdkafka sasl.mechanism is one of {', '.join(MECHANISMS)}.")
    username, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    if not username or not password:
        raise ConfigError("mq.properties: sasl.username and sasl.password are needed.")
    return Credentials(mechanism, username, password)


def trusting(properties: Mapping[str, str]) -> ssl.SSLContext:
    """What checks the brokers' certificates, and shows none. Raises ConfigError."""
    try:
        context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
    except OSError as error:
        raise ConfigError(f"mq.properties: ssl.ca.location: {error}.") from error
    if properties.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _with_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> ssl.SSLContext:
    if certificate := properties.get("ssl.certificate.location"):
        try:
            context.load_cert_chain(
                certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password")
            )
        except OSError as error:
            raise ConfigError(f"mq.properties: ssl.certificate.location: {error}.") from error
    return context
