"""The sections of the settings and their bounds, one frozen model for each table of the file."""

import re
from fnmatch import translate
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from delayline.config.types import (
    CommaSeparated,
    Duration,
    File,
    HostPatterns,
    JsonText,
    Levels,
    Patterns,
    Secret,
    Size,
    durations,
    sizes,
)
from delayline.process.logs import Format, Level
from delayline.schedule.rules import RETRY_ATTEMPTS_END, RETRY_ATTEMPTS_MAX

ACCOUNTS_MAX = 10_000
DELAY_RULES_MAX = 100
"""They are looked through for every batch and message: about 0.2 us each."""


def _default(text: str) -> Any:
    """A default in the form in which users write it."""
    return Field(text, validate_default=True)


def _pattern_of(topics: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, topics)) if topics else r"(?!)")


Port = Annotated[int, Field(ge=0, le=65535)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Mq(Section):
    """The message queue. Everything but `kind` is for brokers; on RocketMQ the servers are its name servers."""

    kind: Literal["embedded", "kafka", "rocketmq"] = "embedded"
    bootstrap_servers: str = ""
    topics_create: bool = True
    set_aside_bytes_max: Annotated[Size, sizes("0B", "512MiB")] = _default("256KiB")
    properties: Annotated[dict[str, Secret], JsonText] = Field(default_factory=dict)

    def client_properties(self) -> dict[str, str]:
        """`properties` with their secrets in the clear, for a client of the queue."""
        return {name: secret.get_secret_value() for name, secret in self.properties.items()}


class Dispatch(Section):
    """How due messages leave. Up to `batch_records_max` and `batch_bytes_max` go into one commit."""

    batch_records_max: int = Field(default=5000, ge=1, le=100_000)
    batch_bytes_max: Annotated[Size, sizes("64KiB", "256MiB")] = _default("4MiB")
    stall_max: Duration = _default("0s")
    timestamp: Literal["delivery", "due", "accepted"] = "delivery"
    clock_skew_max: Annotated[Duration, durations("100ms", "1h")] = _default("5s")


class Store(Section):
    """The time index. `near_due` ahead of now and within `near_bytes_max`, messages wait in memory only."""

    memory_bytes_max: Annotated[Size, sizes("16MiB", "1TiB")] = _default("256MiB")
    near_due: Annotated[Duration, durations("0s", "60s")] = _default("5s")
    near_bytes_max: Annotated[Size, sizes("0B", "64GiB")] = _default("64MiB")
    disk_free_min: Annotated[Size, sizes("0B", "1TiB")] = _default("256MiB")


class History(Section):
    """How messages ended, kept for questions about them."""

    retention: Annotated[Duration, durations("0s", "365d")] = _default("24h")
    messages_max: int = Field(default=1_000_000, ge=0, le=100_000_000)


class Audit(Section):
    """What shards report about themselves in the audit, and how long buffers are kept for its reader."""

    low_water_interval: Annotated[Duration, durations("100ms", "1h")] = _default("30s")
    hold_max: Annotated[Duration, durations("0s", "365d")] = _default("24h")


class Api(Section):
    """The HTTP API."""

    host: str = "127.0.0.1"
    port: Port = 8080
    certfile: str = ""
    keyfile: str = ""
    auth: Annotated[str, Field(min_length=1)] = "none"
    body_bytes_max: Annotated[Size, sizes("1KiB", "1GiB")] = _default("8MiB")
    batch_messages_max: int = Field(default=1000, ge=1, le=100_000)
    hosts: HostPatterns = ()
    connections_max: int = Field(default=1024, ge=1, le=100_000)
    requests_max: int = Field(default=1024, ge=1, le=100_000)
    in_flight_bytes_max: Annotated[Size, sizes("1KiB", "64GiB")] = _default("128MiB")
    streams_max: int = Field(default=32, ge=1, le=1000)
    address_share_percent: int = Field(default=50, ge=1, le=100)
    head_bytes_max: Annotated[Size, sizes("4KiB", "1MiB")] = _default("64KiB")
    head_fields_max: int = Field(default=100, ge=16, le=10_000)
    head_timeout: Annotated[Duration, durations("100ms", "1h")] = _default("10s")
    body_timeout: Annotated[Duration, durations("100ms", "1h")] = _default("30s")
    idle_timeout: Annotated[Duration, durations("100ms", "1h")] = _default("75s")
    send_timeout: Annotated[Duration, durations("100ms", "1h")] = _default("30s")

    @model_validator(mode="after")
    def _check_bodies(self) -> Self:
        """One body at least must fit into what one address may have."""
        if self.body_bytes_max * 100 > self.in_flight_bytes_max * self.address_share_percent:
            message = "api.body_bytes_max is more than one address may have in flight (api.in_flight_bytes_max, "
            raise PydanticCustomError("setting", message + "api.address_share_percent)")
        return self


class Access(Section):
    """The files that show who may do what, where `api.auth` is `keys`, and who did what; the sessions of people."""

    rules: File = None
    keys: File = None
    act_log: File = None
    session_secret: Secret = SecretStr("")
    session_lifetime: Annotated[Duration, durations("5m", "30d")] = _default("12h")


class WorkerSection(Section):
    """Where a process that is only a worker answers metrics and health checks."""

    host: str = "127.0.0.1"
    port: Port = 8081


class Internal(Section):
    """Where a process with a worker answers the other processes of the installation about its shards."""

    host: str = "127.0.0.1"
    port: Port = 0
    advertised_host: Annotated[str, Field(max_length=255)] = ""
    connections_max: int = Field(default=4096, ge=1, le=100_000)
    secret: Secret = SecretStr("")

    @property
    def reached_at(self) -> str:
        """The host by which others know it."""
        return self.advertised_host or self.host


class Reconcile(Section):
    """Where the reconcile job reports how a run has ended; addresses may hold secrets."""

    push_metrics: Secret = SecretStr("")
    push_token: Secret = SecretStr("")
    webhook: Secret = SecretStr("")
    webhook_token: Secret = SecretStr("")


class Log(Section):
    """Log lines."""

    format: Format = "text"
    level: Level = "info"


class DelayRule(Section):
    """What holds for the topics that match; the first rule that matches wins, even one that sets nothing."""

    topics: Annotated[Patterns, Field(min_length=1)]
    default_delay: Annotated[Duration, durations("1ms", "36500d")] | None = None
    rate_max: int | None = Field(default=None, ge=1, le=1_000_000)
    pending_max: int | None = Field(default=None, ge=1)
    repeats_max: int | None = Field(default=None, ge=0)
    late_max: Annotated[Duration, durations("1s", "36500d")] | None = None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the names of its topics."""
        return _pattern_of(self.topics)


NO_RULE = DelayRule(topics=("*",))
"""What holds where no rule does."""


class TopicRule(Section):
    """How long, and how much, the topics that match keep; the first rule that matches wins."""

    topics: Annotated[Patterns, Field(min_length=1)]
    retention: Annotated[Duration, durations("1m", "36500d")] | None = None
    retention_bytes: Annotated[Size, sizes("1MiB", "1TiB")] | None = None

    def matches(self, topic: str, own: str) -> bool:
        """Names that begin with `own` are Delayline's: only a pattern that begins with it as well matches them."""
        patterns = [pattern for pattern in self.topics if pattern.startswith(own) or not topic.startswith(own)]
        return _pattern_of(tuple(patterns)).match(topic) is not None


FOR_EVER = TopicRule(topics=("*",))
"""What holds where no rule does."""


class Topics(Section):
    """Topics of the embedded queue: how many there may be, and what they keep."""

    max: int = Field(default=2048, ge=1, le=100_000)
    partitions: int = Field(default=4, ge=1, le=256)
    retention_interval: Annotated[Duration, durations("1s", "1d")] = _default("1m")
    rule: Annotated[tuple[TopicRule, ...], JsonText, Field(max_length=DELAY_RULES_MAX)] = ()


class Delay(Section):
    """Which topics take delays, and what directives mean."""

    topics: Patterns = ("*",)
    unknown: Literal["warn", "refuse"] = "warn"
    horizon_max: Annotated[Duration, durations("1s", "36500d")] = _default("3650d")
    repeats_max: int = Field(default=10_000, ge=0)
    aliases: Annotated[tuple[Literal["rocketmq", "rabbitmq", "etf1"], ...], CommaSeparated] = ()
    levels: Levels = _default("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    discovery_interval: Annotated[Duration, durations("100ms", "1h")] = _default("2s")
    rule: Annotated[tuple[DelayRule, ...], JsonText, Field(max_length=DELAY_RULES_MAX)] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the names of delay-enabled topics."""
        return _pattern_of(self.topics)


class RetrySection(Section):
    """Messages that consumer groups send back because they have failed with them."""

    attempts_max: int = Field(default=RETRY_ATTEMPTS_MAX, ge=0, le=RETRY_ATTEMPTS_END)
    topics_made_max: int = Field(default=20, ge=0, le=1000)


class ProxySection(Section):
    """What a proxy has whatever it speaks. Limits of bytes and times are of all its clients, before any right is
    checked."""

    path: ClassVar[str]
    host: str = "127.0.0.1"
    port: Port = 0
    advertised_host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    frame_bytes_max: Size
    drain_max: Annotated[Duration, durations("0s", "10m")] = _default("15s")
    held_bytes_max: Annotated[Size, sizes("16MiB", "1TiB")] = _default("512MiB")
    frame_timeout: Annotated[Duration, durations("1s", "1h")] = _default("60s")
    idle_timeout: Annotated[Duration, durations("1s", "1d")]
    connections_max: int = Field(default=10_000, ge=1, le=1_000_000)
    connections_per_address_max: int = Field(default=2_000, ge=1, le=1_000_000)
    certfile: str = ""
    keyfile: str = ""
    metrics_port: Port

    @model_validator(mode="after")
    def _check_frames(self) -> Self:
        """One frame at least must fit into what is held."""
        if self.held_bytes_max < self.frame_bytes_max:
            message = "{path}.held_bytes_max: less than frame_bytes_max"
            raise PydanticCustomError("setting", message, {"path": self.path})
        return self


class KafkaProxy(ProxySection):
    """The proxy for Kafka clients: `port` to begin with, and one port behind it for each of `nodes_max` nodes."""

    path = "proxy.kafka"
    node_id_base: int = Field(default=0, ge=0, le=2**31 - 1)
    nodes_max: int = Field(default=16, ge=1, le=1000)
    frame_bytes_max: Annotated[Size, sizes("1MiB", "1GiB")] = _default("100MiB")
    login_frame_bytes_max: Annotated[Size, sizes("4KiB", "100MiB")] = _default("512KiB")
    login_timeout: Annotated[Duration, durations("1s", "10m")] = _default("30s")
    plain_bytes_max: Annotated[Size, sizes("1MiB", "1GiB")] = _default("64MiB")
    idle_timeout: Annotated[Duration, durations("1s", "1d")] = _default("11m")
    metrics_port: Port = 8082

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        if self.port + self.nodes_max > 65535:
            raise PydanticCustomError("setting", "proxy.kafka: the nodes' ports would end beyond 65535")
        return self


BrokerName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,100}$")]


class RocketmqAccount(Section):
    """A client's account with brokers that check accounts: it may send delayed messages to these topics."""

    access_key: Annotated[str, Field(min_length=1, max_length=256)]
    secret_key: Annotated[Secret, Field(min_length=1)]
    topics: Annotated[Patterns, Field(min_length=1)]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the names of its topics."""
        return _pattern_of(self.topics)


class RocketmqProxy(ProxySection):
    """The proxy for RocketMQ clients: `port` in the place of a name server, and behind it ports for brokers, of which
    `brokers` have theirs in this order, `broker_ids_max` addresses each."""

    path = "proxy.rocketmq"
    brokers: Annotated[tuple[BrokerName, ...], CommaSeparated] = ()
    brokers_max: int = Field(default=16, ge=1, le=1000)
    broker_ids_max: int = Field(default=4, ge=1, le=100)
    frame_bytes_max: Annotated[Size, sizes("4MiB", "1GiB")] = _default("16MiB")
    idle_timeout: Annotated[Duration, durations("1s", "1d")] = _default("130s")
    metrics_port: Port = 8083
    account: Annotated[tuple[RocketmqAccount, ...], JsonText, Field(max_length=ACCOUNTS_MAX)] = ()

    @model_validator(mode="after")
    def _check_brokers(self) -> Self:
        if len({one.access_key for one in self.account}) < len(self.account):
            raise PydanticCustomError("setting", "proxy.rocketmq.account: an access_key twice")
        if self.port + 4 * (self.brokers_max * self.broker_ids_max // 2 + 1) + 1 > 65535:
            raise PydanticCustomError("setting", "proxy.rocketmq: the brokers' ports would end beyond 65535")
        if len(set(self.brokers)) < len(self.brokers) or len(self.brokers) > self.brokers_max:
            raise PydanticCustomError("setting", "proxy.rocketmq.brokers: a name twice, or more than brokers_max")
        return self


class Proxy(Section):
    """Ports for unmodified clients; port 0 is off."""

    kafka: KafkaProxy = KafkaProxy()
    rocketmq: RocketmqProxy = RocketmqProxy()
