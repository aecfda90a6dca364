"""The proxies that the settings describe: one for the clients of the queue that they name."""

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, Counter

from cli.queues import rocketmq_settings
from delayline.access.ledger import Ledgers
from delayline.clock import Clock
from delayline.config import Settings
from delayline.errors import ConfigError
from delayline.names import Names
from delayline.process.watched import Watcher
from delayline.questions.inquiry import Owners
from delayline.questions.pending import Full
from delayline.schedule.unheeded import UnheededNames
from mq.contract import Queue

if TYPE_CHECKING:
    from cli.proxy_thread import ProxyThread
    from delayline.config.proxies import ProxySection
    from proxy.kafka.settings import ProxySettings
    from proxy.limits import Limits
    from proxy.rocketmq.settings import RocketmqProxySettings


class Shared(NamedTuple):
    """What a proxy has in common with the rest of its process."""

    queue: Queue
    owners: Owners
    registry: CollectorRegistry
    accepted: Counter
    unheeded: UnheededNames
    clock: Clock
    full: Full
    watcher: Watcher
    quotas: Ledgers | None


def is_wanted(settings: Settings) -> bool:
    """Whether there is a port for one."""
    return bool(settings.proxy.kafka.port or settings.proxy.rocketmq.port)


def proxy(settings: Settings, shared: Shared) -> "ProxyThread":
    """Not started yet. Raises ConfigError."""
    return rocketmq_proxy(settings, shared) if settings.mq.kind == "rocketmq" else kafka_proxy(settings, shared)


def kafka_proxy(settings: Settings, shared: Shared) -> "ProxyThread":
    """Not started yet. Raises ConfigError."""
    try:
        from cli.proxy_thread import ProxyThread
        from proxy.kafka.frontend.server import Server
        from proxy.kafka.hub import open_hub
        from proxy.kafka.metrics import ProxyMetrics
    except ModuleNotFoundError as error:
        raise _missing("kafka", "Kafka", error) from error
    proxy_settings = _kafka_settings(settings, shared.watcher)
    metrics = ProxyMetrics(shared.registry, shared.accepted, shared.unheeded)
    queue, clock, full = shared.queue, shared.clock, shared.full
    ledger = None if shared.quotas is None else shared.quotas.kafka
    return ProxyThread(lambda: Server(open_hub(proxy_settings, queue, metrics, clock, full, ledger)), "kafka-proxy")


def rocketmq_proxy(settings: Settings, shared: Shared) -> "ProxyThread":
    """Not started yet. Raises ConfigError."""
    try:
        from cli.proxy_thread import ProxyThread
        from proxy.rocketmq.frontend.server import RocketmqServer
        from proxy.rocketmq.hub import open_hub
        from proxy.rocketmq.metrics import RocketmqProxyMetrics
    except ModuleNotFoundError as error:
        raise _missing("rocketmq", "RocketMQ", error) from error
    proxy_settings = _rocketmq_settings(settings, shared.watcher)
    metrics = RocketmqProxyMetrics(shared.registry, shared.accepted, shared.unheeded)
    queue, owners, clock, full = shared.queue, shared.owners, shared.clock, shared.full
    return ProxyThread(
        lambda: RocketmqServer(open_hub(proxy_settings, queue, owners, metrics, clock, full)), "rocketmq-proxy"
    )


def _missing(kind: str, name: str, error: ModuleNotFoundError) -> ConfigError:
    return ConfigError(
        f"proxy.{kind}.port: the {name} proxy needs the package {error.name}; `make {kind}-client` installs it."
    )


def _kafka_settings(settings: Settings, watcher: Watcher) -> "ProxySettings":
    from delayline.process.tls import read_listener
    from kafkawire.client.address import parse_servers
    from proxy.kafka.access import read_access
    from proxy.kafka.limits import KafkaLimits
    from proxy.kafka.settings import ProxySettings

    given = settings.proxy.kafka
    return ProxySettings(
        host=given.host,
        port=given.port,
        advertised_host=given.advertised_host,
        bootstrap=parse_servers(settings.mq.bootstrap_servers),
        access=read_access(settings.mq.client_properties()),
        names=Names(settings.namespace),
        is_delay_enabled=settings.is_delay_enabled,
        rules_for=settings.rules_for,
        horizon_max_ms=settings.delay.horizon_max,
        refuse_unknown=settings.delay.unknown == "refuse",
        node_id_base=given.node_id_base,
        nodes_max=given.nodes_max,
        listener_tls=read_listener(given.certfile, given.keyfile, "proxy.kafka.certfile", watcher),
        frame_bytes_max=given.frame_bytes_max,
        limits=_limits(given),
        kafka_limits=KafkaLimits(
            login_frame_bytes_max=given.login_frame_bytes_max,
            login_timeout_s=given.login_timeout / 1000,
            plain_bytes_max=given.plain_bytes_max,
        ),
        drain_max_s=given.drain_max / 1000,
    )


def _rocketmq_settings(settings: Settings, watcher: Watcher) -> "RocketmqProxySettings":
    from delayline.process.tls import read_listener
    from mq.contract import HEADER_ROOM_BYTES
    from proxy.rocketmq.accounts import Account
    from proxy.rocketmq.settings import RocketmqProxySettings

    given, queue = settings.proxy.rocketmq, rocketmq_settings(settings)
    return RocketmqProxySettings(
        host=given.host,
        port=given.port,
        advertised_host=given.advertised_host,
        brokers=given.brokers,
        brokers_max=given.brokers_max,
        broker_ids_max=given.broker_ids_max,
        kept=settings.data_dir / "rocketmq-proxy.json",
        client=queue.client(),
        wire_names=queue.wire_names,
        is_delay_enabled=settings.is_delay_enabled,
        rules_for=settings.rules_for,
        horizon_max_ms=settings.delay.horizon_max,
        record_bytes_max=queue.record_bytes_max - HEADER_ROOM_BYTES,
        accounts=tuple(
            Account(one.access_key, one.secret_key.get_secret_value(), one.pattern) for one in given.account
        ),
        refuse_unknown=settings.delay.unknown == "refuse",
        listener_tls=read_listener(given.certfile, given.keyfile, "proxy.rocketmq.certfile", watcher),
        frame_bytes_max=given.frame_bytes_max,
        limits=_limits(given),
        drain_max_s=given.drain_max / 1000,
    )


def _limits(given: "ProxySection") -> "Limits":
    from proxy.limits import Limits

    return Limits(
        held_bytes_max=given.held_bytes_max,
        frame_timeout_s=given.frame_timeout / 1000,
        idle_timeout_s=given.idle_timeout / 1000,
        connections_max=given.connections_max,
        connections_per_address_max=given.connections_per_address_max,
    )
