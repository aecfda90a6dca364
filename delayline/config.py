"""Settings: read once, checked as a whole, frozen.

Command line > environment > TOML file > default, by single settings. Durations are milliseconds and sizes bytes once
they are read. What a setting means for users stands in docs/configuration.md, which a test compares with this file.
"""

import ipaddress
import json
import re
from collections.abc import Mapping
from fnmatch import translate
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from delayline.errors import ConfigError
from delayline.logs import Format, Level
from delayline.names import Names, is_topic_name
from delayline.rules import RETRY_ATTEMPTS_MAX, RULES_BYTES_MAX, Rules
from delayline.setting_layers import (
    Given,
    Layer,
    find_file,
    nested,
    read_environment,
    read_file,
    read_flags,
    setting_paths,
    unknown,
)
from delayline.setting_types import (
    SECRET_ERROR,
    CommaSeparated,
    Duration,
    Folder,
    JsonText,
    Levels,
    Namespace,
    Patterns,
    Secret,
    Size,
    durations,
    sizes,
)

DELAY_RULES_MAX = 100
"""They are looked through for every batch and message: about 0.2 us each."""

OPEN = "none-on-any-address"
"""The value of `api.auth` by which somebody says that the network is the fence: whoever reaches a door may use it."""

SECRET_CHARS_MIN = 16
"""Sixteen random letters and digits are 95 bits: more than anybody tries."""


def _default(text: str) -> Any:
    """A default in the form in which users write it."""
    return Field(text, validate_default=True)


def _pattern_of(topics: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, topics)) if topics else r"(?!)")


Port = Annotated[int, Field(ge=0, le=65535)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Mq(_Section):
    """The message queue. Everything but `kind` is for Kafka."""

    kind: Literal["embedded", "kafka", "rocketmq"] = "embedded"
    bootstrap_servers: str = ""
    guarantee: Literal["exactly-once", "at-least-once"] = "exactly-once"
    path: Literal["auto", "wire", "librdkafka"] = "auto"
    topics_create: bool = True
    properties: Annotated[dict[str, Secret], JsonText] = Field(default_factory=dict)

    def client_properties(self) -> dict[str, str]:
        """`properties` with their secrets told, for a client of the queue."""
        return {name: secret.get_secret_value() for name, secret in self.properties.items()}


class Dispatch(_Section):
    """How due messages leave. Up to `batch_records_max` and `batch_bytes_max` go into one commit."""

    batch_records_max: int = Field(default=5000, ge=1, le=100_000)
    batch_bytes_max: Annotated[Size, sizes("64KiB", "256MiB")] = _default("4MiB")
    stall_max: Duration = _default("0s")
    timestamp: Literal["delivery", "due", "accepted"] = "delivery"
    clock_skew_max: Annotated[Duration, durations("100ms", "1h")] = _default("5s")


class Store(_Section):
    """The time index. `near_due` ahead of now and within `near_bytes_max`, messages wait in memory only."""

    memory_bytes_max: Annotated[Size, sizes("16MiB", "1TiB")] = _default("256MiB")
    near_due: Annotated[Duration, durations("0s", "60s")] = _default("5s")
    near_bytes_max: Annotated[Size, sizes("0B", "64GiB")] = _default("64MiB")
    disk_free_min: Annotated[Size, sizes("0B", "1TiB")] = _default("256MiB")


class History(_Section):
    """How messages ended, kept for questions about them."""

    retention: Annotated[Duration, durations("0s", "365d")] = _default("24h")
    messages_max: int = Field(default=1_000_000, ge=0, le=100_000_000)


class Audit(_Section):
    """What shards say of themselves in the audit, and how long buffers are kept for who reads it."""

    low_water_interval: Annotated[Duration, durations("100ms", "1h")] = _default("30s")
    hold_max: Annotated[Duration, durations("0s", "365d")] = _default("24h")


class Api(_Section):
    """The HTTP door."""

    host: str = "127.0.0.1"
    port: Port = 8080
    auth: Annotated[str, Field(min_length=1)] = "none"
    body_bytes_max: Annotated[Size, sizes("1KiB", "1GiB")] = _default("8MiB")
    batch_messages_max: int = Field(default=1000, ge=1, le=100_000)


class WorkerDoor(_Section):
    """Where a process that is only a worker answers metrics and health checks."""

    host: str = "127.0.0.1"
    port: Port = 8081


class Internal(_Section):
    """Where a process with a worker answers the other processes of the installation about its shards."""

    host: str = "127.0.0.1"
    port: Port = 0
    advertised_host: Annotated[str, Field(max_length=255)] = ""
    secret: Secret = SecretStr("")

    @property
    def reached_at(self) -> str:
        """The host by which others know it."""
        return self.advertised_host or self.host


class Log(_Section):
    """Log lines."""

    format: Format = "text"
    level: Level = "info"


class DelayRule(_Section):
    """What holds for the topics that match; the first rule that matches wins, even one that says nothing more."""

    topics: Annotated[Patterns, Field(min_length=1)]
    default_delay: Annotated[Duration, durations("1ms", "36500d")] | None = None
    rate_max: int | None = Field(default=None, ge=1, le=1_000_000)
    pending_max: int | None = Field(default=None, ge=1)
    late_max: Annotated[Duration, durations("1s", "36500d")] | None = None

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the names of its topics."""
        return _pattern_of(self.topics)


NO_RULE = DelayRule(topics=("*",))
"""What holds where no rule does."""


class Delay(_Section):
    """Which topics take delays, and what directives mean."""

    topics: Patterns = ("*",)
    horizon_max: Annotated[Duration, durations("1s", "36500d")] = _default("3650d")
    aliases: Annotated[tuple[Literal["rocketmq", "rabbitmq", "etf1"], ...], CommaSeparated] = ()
    levels: Levels = _default("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    discovery_interval: Annotated[Duration, durations("100ms", "1h")] = _default("2s")
    rule: Annotated[tuple[DelayRule, ...], JsonText, Field(max_length=DELAY_RULES_MAX)] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the names of delay-enabled topics."""
        return _pattern_of(self.topics)


class Retry(_Section):
    """Messages that consumer groups send back because they have failed with them."""

    attempts_max: int = Field(default=RETRY_ATTEMPTS_MAX, ge=0, le=1000)


class KafkaProxy(_Section):
    """The door for Kafka clients: `port` to begin with, and one port behind it for each of `nodes_max` nodes."""

    host: str = "127.0.0.1"
    port: Port = 0
    advertised_host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    node_id_base: int = Field(default=0, ge=0, le=2**31 - 1)
    nodes_max: int = Field(default=16, ge=1, le=1000)
    frame_bytes_max: Annotated[Size, sizes("1MiB", "1GiB")] = _default("100MiB")
    certfile: str = ""
    keyfile: str = ""
    metrics_port: Port = 8082

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        if self.port + self.nodes_max > 65535:
            raise PydanticCustomError("setting", "proxy.kafka: the nodes' ports would end beyond 65535")
        return self


class RocketmqProxy(_Section):
    """The door for RocketMQ clients."""

    port: Port = 0


class Proxy(_Section):
    """Doors for unmodified clients; port 0 is off."""

    kafka: KafkaProxy = KafkaProxy()
    rocketmq: RocketmqProxy = RocketmqProxy()


class Settings(_Section):
    """Everything that can be set. Made by `load_settings`; built by hand it lacks the checks of what is not built."""

    namespace: Namespace = "delayline"
    data_dir: Folder = Path("./data")
    mq: Mq = Mq()
    dispatch: Dispatch = Dispatch()
    store: Store = Store()
    history: History = History()
    audit: Audit = Audit()
    api: Api = Api()
    worker: WorkerDoor = WorkerDoor()
    internal: Internal = Internal()
    log: Log = Log()
    delay: Delay = Delay()
    retry: Retry = Retry()
    proxy: Proxy = Proxy()

    _given: Layer = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _default_topics(cls, given: Any) -> Any:
        """Where others own the topics, none takes delays before somebody says so."""
        kind, delay = given.get("mq", {}).get("kind", "embedded"), given.get("delay", {})
        if kind == "embedded" or "topics" in delay:
            return given
        return {**given, "delay": {**delay, "topics": ()}}

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        """The log remembers the rules, so they must be small enough for it, and every level must be within reach."""
        if max(self.delay.levels) > self.delay.horizon_max:
            raise PydanticCustomError("setting", "a delay level is longer than delay.horizon_max")
        if any(len(rules.encoded) > RULES_BYTES_MAX for rules in self._rules_by_default.values()):
            message = f"delay.levels are too long: the rules have more than {RULES_BYTES_MAX} bytes"
            raise PydanticCustomError("setting", "{message}", {"message": message})
        if max(self._rules_by_default) > self.delay.horizon_max:
            raise PydanticCustomError("setting", "a default_delay is longer than delay.horizon_max")
        return self

    @model_validator(mode="after")
    def _check_rule_topics(self) -> Self:
        """A rule for a topic that takes no delays would be accepted and do nothing."""
        for topic in (topic for rule in self.delay.rule for topic in rule.topics):
            if not set("*?") & set(topic) and not self.is_delay_enabled(topic):
                message = f"delay.rule: {topic} takes no delays, see delay.topics"
                raise PydanticCustomError("setting", "{message}", {"message": message})
        return self

    def rules(self) -> Rules:
        """The part of the settings that due times depend on, for topics without a rule of their own."""
        return self._rules_by_default[0]

    def rules_for(self, topic: str) -> Rules:
        """The same for this topic."""
        return self._rules_by_default[self.rule_for(topic).default_delay or 0]

    def rule_for(self, topic: str) -> DelayRule:
        """The first rule that matches."""
        return next((rule for rule in self.delay.rule if rule.pattern.match(topic)), NO_RULE)

    @cached_property
    def _rules_by_default(self) -> Mapping[int, Rules]:
        """By default delay in ms: there are few, and each is encoded once."""
        delay = self.delay
        attempts_max = self.retry.attempts_max
        rules = Rules(levels_ms=delay.levels, aliases=delay.aliases, retry_attempts_max=attempts_max)
        defaults = {0, *(rule.default_delay or 0 for rule in delay.rule)}
        return {default_ms: msgspec.structs.replace(rules, default_delay_ms=default_ms) for default_ms in defaults}

    def is_delay_enabled(self, topic: str) -> bool:
        """Whether messages to the topic may wait. Never for our own topics and for those of the queue itself, nor
        where the name of the buffer topic would be too long. Hot: once per message, about 1 us."""
        names = self._names
        return (
            not names.is_own(topic)
            and not topic.startswith(("__", "%"))
            and is_topic_name(topic)
            and is_topic_name(names.buffer(topic))
            and self.delay.pattern.match(topic) is not None
        )

    @cached_property
    def _names(self) -> Names:
        return Names(self.namespace)


def load_settings(
    config_path: Path | None, overrides: Mapping[str, Any], environ: Mapping[str, str], cwd: Path
) -> Settings:
    """The settings of a process that was started in `cwd` with these variables; `overrides` are its flags by dotted
    key (None: not given). Raises ConfigError: one sentence for the operator."""
    path = find_file(config_path, environ, cwd)
    given = {
        **(read_file(Settings, path) if path else {}),
        **read_environment(Settings, environ),
        **read_flags(Settings, overrides),
    }
    try:
        settings = Settings.model_validate(nested(given), context=cwd)
    except ValidationError as error:
        raise _sentence(error.errors()[0], given) from None  # the chain would show secrets
    settings._given = given
    _refuse_unbuilt(settings)
    _refuse_open_door(settings)
    _check_internal(settings)
    return settings


def _sentence(error: ErrorDetails, given: Layer) -> ConfigError:
    """The first thing that is wrong, where it was written."""
    path = tuple(map(str, error["loc"]))
    source = next((given[path[:n]].source for n in range(len(path), 0, -1) if path[:n] in given), None)
    if error["type"] == "extra_forbidden":
        return unknown(".".join(path), _rule_keys(path), source or "a rule")
    message = error["msg"][0].lower() + error["msg"][1:]
    if error["type"] != SECRET_ERROR and isinstance(error["input"], str | int | float):
        message += f", not {_shortened(error['input'])}"
    prefix = ".".join(path) + ": " if path else ""
    return ConfigError(f"{prefix}{message}{f' (from {source})' if source else ''}.")


def _rule_keys(path: tuple[str, ...]) -> list[str]:
    return [".".join((*path[:-1], name)) for name in DelayRule.model_fields]


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


Only = Mapping[str, tuple[Any, str]]
"""By setting: the only value that works, and why. An accepted setting that does nothing would be a lie."""

UNBUILT: Only = {
    "proxy.rocketmq.port": (0, "the RocketMQ proxy is not built yet"),
}

_ONE_PROCESS = "the embedded queue lives in one process, so nobody else asks"
_NO_BROKERS = "the Kafka proxy stands before Kafka brokers"

EMBEDDED: Only = {
    "mq.bootstrap_servers": ("", "the embedded queue has no servers"),
    "mq.guarantee": ("exactly-once", "the embedded queue knows only exactly-once"),
    "mq.path": ("auto", "the embedded queue is in this process"),
    "mq.topics_create": (True, "the embedded queue makes topics on first use"),
    "mq.properties": ({}, "the embedded queue has no client properties"),
    "dispatch.clock_skew_max": (5000, "the embedded queue and its worker share one clock"),
    "worker.host": ("127.0.0.1", "the embedded queue has its worker in the process that answers HTTP"),
    "worker.port": (8081, "the embedded queue has its worker in the process that answers HTTP"),
    **{f"internal.{name}": (field.get_default(), _ONE_PROCESS) for name, field in Internal.model_fields.items()},
    "delay.discovery_interval": (2000, "the embedded queue tells of new topics at once"),
    **{f"proxy.kafka.{name}": (field.get_default(), _NO_BROKERS) for name, field in KafkaProxy.model_fields.items()},
    "proxy.kafka.frame_bytes_max": (100 << 20, _NO_BROKERS),
}


def _refuse_unbuilt(settings: Settings) -> None:
    if settings.mq.kind == "rocketmq":
        raise ConfigError(f"mq.kind: RocketMQ is not built yet (from {_source(settings, 'mq.kind')}).")
    only = {**UNBUILT, **(EMBEDDED if settings.mq.kind == "embedded" else {})}
    for key, (built, why) in only.items():
        if _value(settings, tuple(key.split("."))) != built:
            raise ConfigError(f"{key}: {why} (from {_source(settings, key)}).")
    if settings.mq.kind == "kafka" and not settings.mq.bootstrap_servers:
        raise ConfigError("mq.bootstrap_servers: Kafka needs at least one server, as host:port.")


def _refuse_open_door(settings: Settings) -> None:
    """An unlocked door is for this machine only, unless somebody has said in so many words that it is for others."""
    if settings.api.auth not in ("none", OPEN):
        raise ConfigError(f"api.auth: authentication is not built yet (from {_source(settings, 'api.auth')}).")
    for key, host in (("api.host", settings.api.host), ("worker.host", settings.worker.host)):
        if settings.api.auth != OPEN and not is_loopback(host):
            raise ConfigError(
                f"{key}: {host} can be reached from other machines and there is no authentication; bind to 127.0.0.1 "
                f'or, in a network that nobody else reaches, set api.auth = "{OPEN}" (from {_source(settings, key)}).'
            )


def _check_internal(settings: Settings) -> None:
    """Who knows the secret may read every message; who hears a signature may try secrets against it."""
    internal = settings.internal
    secret = internal.secret.get_secret_value()
    if not secret and not is_loopback(internal.host):
        raise ConfigError(
            f"internal.host: {internal.host} can be reached from other machines: give every process of the "
            f"installation the same internal.secret (from {_source(settings, 'internal.host')})."
        )
    if secret and len(secret) < SECRET_CHARS_MIN:
        source = _source(settings, "internal.secret")
        raise ConfigError(f"internal.secret: it has less than {SECRET_CHARS_MIN} characters (from {source}).")
    if not internal.advertised_host and internal.host in ("", "0.0.0.0", "::"):
        raise ConfigError(
            f"internal.advertised_host: {internal.host} is every address of this machine; say by which one the other "
            "processes of the installation reach it."
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _value(settings: Settings, path: tuple[str, ...]) -> Any:
    value: Any = settings
    for name in path:
        value = getattr(value, name)
    return value


def _source(settings: Settings, key: str) -> str:
    return settings._given.get(tuple(key.split(".")), Given(None, "default")).source


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """Every setting as (key, value as it would be written, where it comes from); secrets are hidden."""
    dumped = settings.model_dump(mode="json", exclude_none=True)
    rows = []
    for path in setting_paths(Settings):
        value: Any = dumped
        for name in path:
            value = value[name]
        key = ".".join(path)
        rows.append((key, _written(value), _source(settings, key)))
    return rows


def _written(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)
