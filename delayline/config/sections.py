"""The sections of the settings and their bounds, one frozen model for each table of the file."""

import re
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from delayline.config.section import Port, Section, default, pattern_of
from delayline.config.types import (
    CommaSeparated,
    Duration,
    EncryptionKey,
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

DELAY_RULES_MAX = 100
"""They are looked through for every batch and message: about 0.2 us each."""


class Mq(Section):
    """The message queue. Everything but `kind` is for brokers; on RocketMQ the servers are its name servers."""

    kind: Literal["embedded", "kafka", "rocketmq"] = "embedded"
    bootstrap_servers: str = ""
    topics_create: bool = True
    set_aside_bytes_max: Annotated[Size, sizes("0B", "512MiB")] = default("256KiB")
    properties: Annotated[dict[str, Secret], JsonText] = Field(default_factory=dict)

    def client_properties(self) -> dict[str, str]:
        """`properties` with their secrets in the clear, for a client of the queue."""
        return {name: secret.get_secret_value() for name, secret in self.properties.items()}


class Dispatch(Section):
    """How due messages leave. Up to `batch_records_max` and `batch_bytes_max` go into one commit."""

    batch_records_max: int = Field(default=5000, ge=1, le=100_000)
    batch_bytes_max: Annotated[Size, sizes("64KiB", "256MiB")] = default("4MiB")
    stall_max: Duration = default("0s")
    timestamp: Literal["delivery", "due", "accepted"] = "delivery"
    clock_skew_max: Annotated[Duration, durations("100ms", "1h")] = default("5s")


class Store(Section):
    """The time index. `near_due` ahead of now and within `near_bytes_max`, messages wait in memory only.
    `encryption_key` encrypts what the index and the embedded queue write; data of `encryption_key_before` is read."""

    memory_bytes_max: Annotated[Size, sizes("16MiB", "1TiB")] = default("256MiB")
    near_due: Annotated[Duration, durations("0s", "60s")] = default("5s")
    near_bytes_max: Annotated[Size, sizes("0B", "64GiB")] = default("64MiB")
    disk_free_min: Annotated[Size, sizes("0B", "1TiB")] = default("256MiB")
    encryption_key: EncryptionKey = SecretStr("")
    encryption_key_before: EncryptionKey = SecretStr("")

    @property
    def encryption_keys(self) -> tuple[str, str]:
        """`encryption_key` and the one before, in base64; empty where they are not set."""
        return self.encryption_key.get_secret_value(), self.encryption_key_before.get_secret_value()


class History(Section):
    """How messages ended, kept for questions about them; and how long what was purged can be brought back."""

    retention: Annotated[Duration, durations("0s", "365d")] = default("24h")
    messages_max: int = Field(default=1_000_000, ge=0, le=100_000_000)
    undo: Annotated[Duration, durations("0s", "1d")] = default("10m")


class Audit(Section):
    """What shards report about themselves in the audit, and how long buffers are kept for its reader."""

    low_water_interval: Annotated[Duration, durations("100ms", "1h")] = default("30s")
    hold_max: Annotated[Duration, durations("0s", "365d")] = default("24h")


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
    certfile: str = ""
    keyfile: str = ""
    cafile: str = ""
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


class ProcessSection(Section):
    """What holds for a process that holds messages or keys. With `memory_dumps` its memory may be written to a
    file, for debugging."""

    memory_dumps: bool = False


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
        return pattern_of(self.topics)


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
        return pattern_of(tuple(patterns)).match(topic) is not None


FOR_EVER = TopicRule(topics=("*",))
"""What holds where no rule does."""

TWO_DAYS = TopicRule.model_validate({"topics": ("*",), "retention": "2d"})
"""The same of copies for an undo."""


class Topics(Section):
    """Topics of the embedded queue: how many there may be, and what they keep."""

    max: int = Field(default=2048, ge=1, le=100_000)
    partitions: int = Field(default=4, ge=1, le=256)
    retention_interval: Annotated[Duration, durations("1s", "1d")] = default("1m")
    rule: Annotated[tuple[TopicRule, ...], JsonText, Field(max_length=DELAY_RULES_MAX)] = ()


class Delay(Section):
    """Which topics take delays, and what directives mean."""

    topics: Patterns = ("*",)
    unknown: Literal["warn", "refuse"] = "warn"
    horizon_max: Annotated[Duration, durations("1s", "36500d")] = default("3650d")
    repeats_max: int = Field(default=10_000, ge=0)
    aliases: Annotated[tuple[Literal["rocketmq", "rabbitmq", "etf1"], ...], CommaSeparated] = ()
    levels: Levels = default("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    discovery_interval: Annotated[Duration, durations("100ms", "1h")] = default("2s")
    rule: Annotated[tuple[DelayRule, ...], JsonText, Field(max_length=DELAY_RULES_MAX)] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the names of delay-enabled topics."""
        return pattern_of(self.topics)


class RetrySection(Section):
    """Messages that consumer groups send back because they have failed with them."""

    attempts_max: int = Field(default=RETRY_ATTEMPTS_MAX, ge=0, le=RETRY_ATTEMPTS_END)
    topics_made_max: int = Field(default=20, ge=0, le=1000)
