"""The sections of the settings about the proxies for clients of queues."""

import re
from functools import cached_property
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from delayline.config.section import Port, Section, default, pattern_of
from delayline.config.types import CommaSeparated, Duration, JsonText, Patterns, Secret, Size, durations, sizes

ACCOUNTS_MAX = 10_000


class ProxySection(Section):
    """What a proxy has whatever it speaks. Limits of bytes and times are of all its clients, before any right is
    checked."""

    path: ClassVar[str]
    host: str = "127.0.0.1"
    port: Port = 0
    advertised_host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    frame_bytes_max: Size
    drain_max: Annotated[Duration, durations("0s", "10m")] = default("15s")
    held_bytes_max: Annotated[Size, sizes("16MiB", "1TiB")] = default("512MiB")
    frame_timeout: Annotated[Duration, durations("1s", "1h")] = default("60s")
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
    frame_bytes_max: Annotated[Size, sizes("1MiB", "1GiB")] = default("100MiB")
    login_frame_bytes_max: Annotated[Size, sizes("4KiB", "100MiB")] = default("512KiB")
    login_timeout: Annotated[Duration, durations("1s", "10m")] = default("30s")
    plain_bytes_max: Annotated[Size, sizes("1MiB", "1GiB")] = default("64MiB")
    idle_timeout: Annotated[Duration, durations("1s", "1d")] = default("11m")
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
        return pattern_of(self.topics)


class RocketmqProxy(ProxySection):
    """The proxy for RocketMQ clients: `port` in the place of a name server, and behind it ports for brokers, of which
    `brokers` have theirs in this order, `broker_ids_max` addresses each."""

    path = "proxy.rocketmq"
    brokers: Annotated[tuple[BrokerName, ...], CommaSeparated] = ()
    brokers_max: int = Field(default=16, ge=1, le=1000)
    broker_ids_max: int = Field(default=4, ge=1, le=100)
    frame_bytes_max: Annotated[Size, sizes("4MiB", "1GiB")] = default("16MiB")
    idle_timeout: Annotated[Duration, durations("1s", "1d")] = default("130s")
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
