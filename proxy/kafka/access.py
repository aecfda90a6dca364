"""How brokers are reached: encryption for everybody's connections, a principal for the proxy's own.

Clients authenticate to the brokers by themselves, through the proxy. What the proxy asks in its own name (leaders,
producers' states, writes to buffer topics) it asks as the principal of `mq.properties`, whose names and values are
librdkafka's. A client certificate of the proxy's never speaks for a client.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from delayline.errors import ConfigError

PLAINTEXT = "plaintext"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_PROTOCOLS = {
    PLAINTEXT: (False, False),
    "ssl": (True, False),
    "sasl_plaintext": (False, True),
    "sasl_ssl": (True, True),
}
_TLS = frozenset(
    {
        *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"),
        *("enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"),
    }
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Of SASL; `mechanism` is one of MECHANISMS."""

    mechanism: str
    username: str
    password: str


@dataclass(frozen=True, slots=True)
class Access:
    """`relayed_tls` is for connections that carry a client's, `own_tls` for the proxy's own; None is plaintext."""

    relayed_tls: ssl.SSLContext | None = None
    own_tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None


def read_access(properties: Mapping[str, str]) -> Access:
    """From librdkafka's names. Raises ConfigError for what the proxy would have to guess at."""
    name = properties.get("security.protocol", PLAINTEXT).lower()
    if name not in _PROTOCOLS:
        raise ConfigError(f"mq.properties: security.protocol is one of {', '.join(_PROTOCOLS)}.")
    encrypted, authenticated = _PROTOCOLS[name]
    credentials = _credentials(properties) if authenticated else None
    if not encrypted:
        return Access(credentials=credentials)
    if unknown := sorted(key for key in properties if key.startswith("ssl.") and key not in _TLS):
        raise ConfigError(f"mq.properties: {', '.join(unknown)} cannot be used together with the Kafka proxy.")
    return Access(_context(properties), _with_certificate(_context(properties), properties), credentials)


def _credentials(properties: Mapping[str, str]) -> Credentials:
    mechanism = properties.get("sasl.mechanisms", properties.get("sasl.mechanism", "")).upper()
    if mechanism not in MECHANISMS:
        raise ConfigError(f"mq.properties: the Kafka proxy knows sasl.mechanism {', '.join(MECHANISMS)}.")
    username, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    if not username or not password:
        raise ConfigError("mq.properties: sasl.username and sasl.password are needed.")
    return Credentials(mechanism, username, password)


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
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


def read_listener(certificate: str, key: str) -> ssl.SSLContext | None:
    """What clients are shown; None where neither file is named. Raises ConfigError."""
    if not certificate and not key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key or None)
    except OSError as error:
        raise ConfigError(f"proxy.kafka.certfile: {error}.") from error
    return context
