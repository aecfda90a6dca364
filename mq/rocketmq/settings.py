"""What can be set, and what follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from delayline.errors import ConfigError
from delayline.names import Names, is_topic_name
from mq.contract import HEADER_ROOM_BYTES
from mq.making import GROUP_TOPICS_MAX
from mq.rocketmq.body import BATCH_BYTES_MAX
from mq.rocketmq.naming import WireNames
from rocketmq.client.settings import ClientSettings
from rocketmq.wire.acl import AclCredentials

RECORD_BYTES_MAX = (1 << 20) + HEADER_ROOM_BYTES
"""As on other queues; what carries a record on, with audit rows beside it, has to fit into one request."""

ACCESS_KEY, SECRET_KEY = "access_key", "secret_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketmqSettings:
    """`name_servers` as `host:port`, separated by commas. `address` is where the worker's process answers questions
    about its shards. Raises ConfigError."""

    name_servers: str
    namespace: str = "delayline"
    topics_create: bool = True
    group_topics_max: int = GROUP_TOPICS_MAX  # made in an hour, for what comes from one topic
    properties: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    record_bytes_max: int = RECORD_BYTES_MAX
    discovery_interval_s: float = 2.0
    request_timeout_s: float = 10.0
    poll_interval_max_s: float = 45.0  # a worker that has not polled for so long gives its shards up
    landing_s: float = 1.0  # what a broker may still do with requests of a connection that has ended

    def __post_init__(self) -> None:
        if not self.servers:
            raise ConfigError("mq.bootstrap_servers is empty: RocketMQ needs at least one name server, as host:port")
        if not is_topic_name(self.namespace):
            raise ConfigError(f"the namespace {self.namespace!r} is not 1 to 249 of the characters a-z A-Z 0-9 . _ -")
        if unknown := sorted(self.properties.keys() - {ACCESS_KEY, SECRET_KEY}):
            raise ConfigError(f"mq.properties: {', '.join(unknown)} means nothing to the RocketMQ client")
        if len(self.properties) == 1:
            raise ConfigError(f"mq.properties: {ACCESS_KEY} and {SECRET_KEY} go together")

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(one for one in self.name_servers.replace(";", ",").replace(" ", "").split(",") if one)

    @property
    def names(self) -> Names:
        return Names(self.namespace)

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
        credentials = AclCredentials(keys[ACCESS_KEY], keys[SECRET_KEY]) if keys else None
        return ClientSettings(
            self.servers,
            credentials=credentials,
            request_timeout_s=self.request_timeout_s,
            route_s=min(self.discovery_interval_s, 30.0),
            body_bytes_max=BATCH_BYTES_MAX,
        )
