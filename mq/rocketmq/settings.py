"""What can be set, and what follows from it."""

import ssl
from dataclasses import dataclass, field

from delayline.errors import ConfigError
from kafkawire.security.tls import TLS, read_tls
from mq.broker_settings import BrokerSettings
from mq.contract import HEADER_ROOM_BYTES
from mq.rocketmq.body import BATCH_BYTES_MAX
from mq.rocketmq.naming import WireNames
from rocketmq.client.settings import ClientSettings
from rocketmq.wire.acl import AclCredentials

RECORD_BYTES_MAX = (1 << 20) + HEADER_ROOM_BYTES
"""As on other queues; what carries a record on, with audit rows beside it, has to fit into one request."""

ACCESS_KEY, SECRET_KEY = "access_key", "secret_key"
PROTOCOL = "security.protocol"
PLAIN, ENCRYPTED = "plaintext", "ssl"


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketmqSettings(BrokerSettings):
    """`name_servers` as `host:port`, separated by commas. Raises ConfigError."""

    name_servers: str
    record_bytes_max: int = RECORD_BYTES_MAX
    landing_s: float = 1.0  # what a broker may still do with requests of a connection that has ended

    tls: ssl.SSLContext | None = field(init=False, repr=False, compare=False)  # of every connection

    def __post_init__(self) -> None:
        if not self.servers:
            raise ConfigError("mq.bootstrap_servers is empty: RocketMQ needs at least one name server, as host:port")
        BrokerSettings.__post_init__(self)  # `super()` knows nothing of the class that `slots` makes
        if unknown := sorted(self.properties.keys() - {ACCESS_KEY, SECRET_KEY, PROTOCOL} - TLS):
            raise ConfigError(f"mq.properties: {', '.join(unknown)} means nothing to the RocketMQ client")
        if (ACCESS_KEY in self.properties) != (SECRET_KEY in self.properties):
            raise ConfigError(f"mq.properties: {ACCESS_KEY} and {SECRET_KEY} go together")
        if self._protocol not in (PLAIN, ENCRYPTED):
            raise ConfigError(f"mq.properties: {PROTOCOL} is {PLAIN} or {ENCRYPTED} on RocketMQ")
        if self._protocol == PLAIN and (unused := sorted(self.properties.keys() & TLS)):
            raise ConfigError(f"mq.properties: {', '.join(unused)} has no effect without {PROTOCOL} = {ENCRYPTED}")
        object.__setattr__(self, "tls", read_tls(self.properties) if self._protocol == ENCRYPTED else None)

    @property
    def _protocol(self) -> str:
        return self.properties.get(PROTOCOL, PLAIN).lower()

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(one for one in self.name_servers.replace(";", ",").replace(" ", "").split(",") if one)

    @property
    def wire_names(self) -> WireNames:
        return WireNames(self.names)

    @property
    def group(self) -> str:
        """Of the workers; by it they know of each other."""
        return f"{self.namespace.replace('.', '%')}-worker"

    def claim_group(self, name: str) -> str:
        """Of who has claimed `name`, or waits for it."""
        return f"{self.namespace.replace('.', '%')}-claim-{name}"

    def client(self) -> ClientSettings:
        """How clients of RocketMQ are configured."""
        keys = self.properties
        credentials = AclCredentials(keys[ACCESS_KEY], keys[SECRET_KEY]) if ACCESS_KEY in keys else None
        return ClientSettings(
            self.servers,
            credentials=credentials,
            tls=self.tls,
            request_timeout_s=self.request_timeout_s,
            route_s=min(self.discovery_interval_s, 30.0),
            body_bytes_max=BATCH_BYTES_MAX,
        )

    rows_every_s: float = 0.1
    """Between two requests with a shard's audit rows. A busy shard commits a hundred times a second, with a few rows
    each time."""
