"""How long, how much, as whom."""

import ssl
from dataclasses import dataclass

from rocketmq.wire.acl import AclCredentials
from rocketmq.wire.command import Encoding
from rocketmq.wire.frames import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """`name_servers` as `host:port`, asked one after the other until one answers."""

    name_servers: tuple[str, ...]
    credentials: AclCredentials | None = None
    tls: ssl.SSLContext | None = None
    encoding: Encoding = Encoding.JSON

    connect_timeout_s: float = 3.0
    request_timeout_s: float = 10.0
    """For an answer. A pull that waits for messages has the time of its wait on top."""
    route_s: float = 30.0
    """How old a route may be before a name server is asked again; the Java client asks as often."""
    backoff_min_s: float = 0.1
    backoff_max_s: float = 5.0
    """Between attempts to connect to an address that does not answer: doubled each time."""

    frame_bytes_max: int = FRAME_BYTES_MAX
    pending_max: int = 4096
    """Requests of one connection that wait for their answers."""
    outgoing_bytes_max: int = 64 * 1024 * 1024
    """Of one connection, that the peer has not taken yet."""
    body_bytes_max: int = 4 * 1024 * 1024
    """A broker's default for a message and for a batch (maxMessageSize)."""
