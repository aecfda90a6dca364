"""Settings that are each in order and do not go together, or that nothing is built for: refused at the start."""

from collections.abc import Mapping
from typing import Any

from delayline.config.entrance import Access
from delayline.config.oidc import Oidc, check_oidc
from delayline.config.proxies import KafkaProxy, RocketmqProxy
from delayline.config.section import Section
from delayline.config.sections import Internal
from delayline.config.settings import Settings
from delayline.errors import ConfigError
from delayline.http.urls import is_loopback
from delayline.records.set_aside import RAW_BYTES_MAX

OPEN = "none-on-any-address"
"""The value of `api.auth` that leaves protection to the network: every client that reaches the address may use it."""

KEYS = "keys"
"""The value of `api.auth` that has every client show a key, or a token of the identity provider where there is one,
and the rules decide what it may."""

SECRET_CHARS_MIN = 16
"""Sixteen random letters and digits are 95 bits: more than anybody tries."""

Only = Mapping[str, tuple[Any, str]]
"""By setting: the only value that works, and why. An accepted setting that does nothing would be a lie."""


def _all_of(prefix: str, unset: Section, why: str) -> Only:
    """The settings of a section as they are where nothing is set."""
    return {f"{prefix}.{name}": (getattr(unset, name), why) for name in type(unset).model_fields}


_NO_KAFKA_PROXY = _all_of(KafkaProxy.path, KafkaProxy(), "the Kafka proxy stands before Kafka brokers")
_NO_ROCKETMQ_PROXY = _all_of(RocketmqProxy.path, RocketmqProxy(), "the RocketMQ proxy stands before RocketMQ brokers")

_WITHOUT_KEYS = f'it has a meaning with api.auth = "{KEYS}" only'
_OF_KEYS = {**_all_of("access", Access(), _WITHOUT_KEYS), **_all_of("access.oidc", Oidc(), _WITHOUT_KEYS)}
_ANYWAY = ("access.act_log", "access.act_topic", "access.oidc")
_NO_ACCESS: Only = {key: only for key, only in _OF_KEYS.items() if key not in _ANYWAY}
"""Acts may be written down without keys, too."""

EMBEDDED: Only = {
    "mq.bootstrap_servers": ("", "the embedded queue has no servers"),
    "mq.topics_create": (True, "the embedded queue makes topics on first use"),
    "mq.properties": ({}, "the embedded queue has no client properties"),
    "mq.set_aside_bytes_max": (RAW_BYTES_MAX, "the embedded queue has no batches"),
    "dispatch.clock_skew_max": (5000, "the embedded queue and its worker share one clock"),
    "worker.host": ("127.0.0.1", "the embedded queue has its worker in the process that answers HTTP"),
    "worker.port": (8081, "the embedded queue has its worker in the process that answers HTTP"),
    **_all_of("internal", Internal(), "the embedded queue runs in one process, so no other process asks"),
    "delay.discovery_interval": (2000, "the embedded queue reports new topics at once"),
    **_NO_KAFKA_PROXY,
    **_NO_ROCKETMQ_PROXY,
}


_BROKERS_KEEP = "the brokers make, keep and delete topics of users"

_OF_BROKERS: Only = {
    "topics.max": (2048, _BROKERS_KEEP),
    "topics.partitions": (4, _BROKERS_KEEP),
    "topics.retention_interval": (60_000, _BROKERS_KEEP),
    "topics.rule": ((), _BROKERS_KEEP),
}

KAFKA: Only = {**_OF_BROKERS, **_NO_ROCKETMQ_PROXY}

ROCKETMQ: Only = {
    **_OF_BROKERS,
    **_NO_KAFKA_PROXY,
    "mq.set_aside_bytes_max": (RAW_BYTES_MAX, "RocketMQ has no batches that cannot be taken apart"),
    "dispatch.timestamp": ("delivery", "a batch of RocketMQ has one time, that of its delivery"),
}

_BY_KIND: Mapping[str, Only] = {"embedded": EMBEDDED, "kafka": KAFKA, "rocketmq": ROCKETMQ}

ROCKETMQ_BATCH_BYTES_MAX = 4 << 20
"""What a broker takes in one request (`maxMessageSize`); a larger commit would be refused, and halved, for ever."""


def refuse_what_cannot_be(settings: Settings) -> None:
    """Raises ConfigError with the first thing that is wrong."""
    _refuse_unbuilt(settings)
    _refuse_open_address(settings)
    _check_access(settings)
    _check_certificates(settings)
    _check_encryption(settings)
    _check_internal(settings)


def _refuse_unbuilt(settings: Settings) -> None:
    kind = settings.mq.kind
    _refuse_others(settings, _BY_KIND[kind])
    if kind == "kafka" and not settings.mq.bootstrap_servers:
        raise ConfigError("mq.bootstrap_servers: Kafka needs at least one server, as host:port.")
    if kind == "rocketmq":
        _check_rocketmq(settings)


def _refuse_others(settings: Settings, only: Only) -> None:
    for key, (value, why) in only.items():
        if settings.value(key) != value:
            raise ConfigError(f"{key}: {why} (from {settings.source(key)}).")


def _check_rocketmq(settings: Settings) -> None:
    if not settings.mq.bootstrap_servers:
        raise ConfigError("mq.bootstrap_servers: RocketMQ needs at least one name server, as host:port.")
    if settings.dispatch.batch_bytes_max > ROCKETMQ_BATCH_BYTES_MAX:
        source = settings.source("dispatch.batch_bytes_max")
        raise ConfigError(f"dispatch.batch_bytes_max: RocketMQ takes up to 4MiB in one request (from {source}).")
    if settings.proxy.rocketmq.account and "access_key" not in settings.mq.properties:
        source = settings.source("proxy.rocketmq.account")
        raise ConfigError(
            f"proxy.rocketmq.account: needs access_key in mq.properties, Delayline's own (from {source})."
        )


def _refuse_open_address(settings: Settings) -> None:
    """Without authentication an address is for this machine only, unless the setting allows more by name."""
    if settings.api.auth not in ("none", OPEN, KEYS):
        raise ConfigError(f"api.auth: it is none, {OPEN} or {KEYS} (from {settings.source('api.auth')}).")
    metrics_are_open = not settings.metrics.client_cafile
    for key, is_open in (
        ("api.host", True),
        ("worker.host", metrics_are_open),
        ("api.metrics_host", metrics_are_open),
    ):
        host = settings.value(key)
        if settings.api.auth == "none" and is_open and not is_loopback(host):
            raise ConfigError(
                f"{key}: {host} can be reached from other machines and there is no authentication; bind to "
                f'127.0.0.1, set api.auth = "{KEYS}" or, in a network that only its users reach, "{OPEN}" '
                f"(from {settings.source(key)})."
            )


def _check_access(settings: Settings) -> None:
    """Rules in a file that is not read would refuse nothing. The Kafka proxy reads its quotas."""
    if settings.api.auth != KEYS:
        read = {"access.rules"} if settings.proxy.kafka.port else set()
        _refuse_others(settings, {key: only for key, only in _NO_ACCESS.items() if key not in read})
    check_oidc(settings)
    needs_keys = settings.api.client_certificates == "off" and not settings.access.oidc.issuer
    for key in ("access.rules", *(("access.keys",) if needs_keys else ())):
        if settings.api.auth == KEYS and settings.value(key) is None:
            raise ConfigError(
                f'{key}: api.auth = "{KEYS}" needs the name of a file (from {settings.source("api.auth")}).'
            )
    _check_length(settings, "access.session_secret")


def _check_certificates(settings: Settings) -> None:
    """A certificate that is not asked for would protect nothing, and authorities that are not named trust none."""
    api, needs = settings.api, settings.api.client_certificates != "off"
    if needs and api.auth != KEYS:
        raise _refusal(settings, "api.client_certificates", f'it has a meaning with api.auth = "{KEYS}" only')
    if needs and not api.certfile:
        raise _refusal(settings, "api.client_certificates", "it needs TLS, see api.certfile")
    if needs and not api.client_cafile:
        raise _refusal(settings, "api.client_certificates", "it needs api.client_cafile, the authorities that count")
    for key, unset in (("client_cafile", ""), ("client_crlfile", ""), ("client_names", "subject")):
        if not needs and settings.value(f"api.{key}") != unset:
            raise _refusal(settings, f"api.{key}", "it has a meaning where api.client_certificates is not off")
    if settings.metrics.client_cafile and not settings.metrics.certfile:
        raise _refusal(settings, "metrics.client_cafile", "it needs TLS, see metrics.certfile")


def _refusal(settings: Settings, key: str, why: str) -> ConfigError:
    return ConfigError(f"{key}: {why} (from {settings.source(key)}).")


def _check_encryption(settings: Settings) -> None:
    key, before = settings.store.encryption_keys
    if before and not key:
        source = settings.source("store.encryption_key_before")
        raise ConfigError(f"store.encryption_key_before: it needs store.encryption_key, the new one (from {source}).")


def _check_internal(settings: Settings) -> None:
    """Who knows the secret may read every message; who hears a signature may try secrets against it. Certificates do
    more than a secret."""
    internal = settings.internal
    secret = internal.secret.get_secret_value()
    if bool(internal.certfile) != bool(internal.cafile) or (internal.keyfile and not internal.certfile):
        key = next(name for name in ("certfile", "cafile", "keyfile") if settings.value(f"internal.{name}"))
        raise _refusal(settings, f"internal.{key}", "internal.certfile and internal.cafile go together")
    if not secret and not internal.certfile and not is_loopback(internal.host):
        raise ConfigError(
            f"internal.host: {internal.host} can be reached from other machines: give every process of the "
            "installation a certificate (internal.certfile), or the same internal.secret "
            f"(from {settings.source('internal.host')})."
        )
    _check_length(settings, "internal.secret")
    if not internal.advertised_host and internal.host in ("", "0.0.0.0", "::"):
        raise ConfigError(
            f"internal.advertised_host: {internal.host} is every address of this machine; set the one by which the "
            "other processes of the installation reach it."
        )


def _check_length(settings: Settings, key: str) -> None:
    """Of a secret that others may try out, where it is given."""
    if 0 < len(settings.value(key).get_secret_value()) < SECRET_CHARS_MIN:
        source = settings.source(key)
        raise ConfigError(f"{key}: it has less than {SECRET_CHARS_MIN} characters (from {source}).")
