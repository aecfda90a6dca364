"""How brokers are reached: encryption for everybody's connections, a principal for the proxy's own.

Clients authenticate to the brokers by themselves, through the proxy. What the proxy asks in its own name (leaders,
producers' states, writes to buffer topics) it asks as the principal of `mq.properties`. A client certificate of the
proxy's never speaks for a client.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkawire.security import access
from kafkawire.security.tls import trusting


@dataclass(frozen=True, slots=True)
class Access:
    """`relayed_tls` is for connections that carry a client's, None is plaintext; `own` for the proxy's own."""

    relayed_tls: ssl.SSLContext | None = None
    own: access.Access = field(default_factory=access.Access)


def read_access(properties: Mapping[str, str]) -> Access:
    """From librdkafka's names. Raises ConfigError for what the proxy would have to guess at."""
    own = access.read_access(properties)
    return Access(None if own.tls is None else trusting(properties), own)
