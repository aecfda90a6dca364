"""The Kafka proxy that the settings describe."""

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter

from delayline.clock import Clock
from delayline.config import Settings
from delayline.errors import ConfigError
from delayline.names import Names
from delayline.questions.pending import Full
from delayline.schedule.unheeded import UnheededNames
from mq.contract import Admin

if TYPE_CHECKING:
    from cli.proxy_thread import ProxyThread
    from proxy.kafka.settings import ProxySettings


def kafka_proxy(
    settings: Settings,
    admin: Admin,
    registry: CollectorRegistry,
    accepted: Counter,
    unheeded: UnheededNames,
    clock: Clock,
    full: Full,
) -> "ProxyThread":
    """Not started yet. `accepted`, `unheeded` and `full` are those of the whole process. Raises ConfigError."""
    try:
        from cli.proxy_thread import ProxyThread
        from proxy.kafka.frontend.server import Server
        from proxy.kafka.hub import open_hub
        from proxy.kafka.metrics import ProxyMetrics
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"proxy.kafka.port: the Kafka proxy needs the package {error.name}; `make kafka-client` installs it."
        ) from error
    proxy_settings = _proxy_settings(settings)
    metrics = ProxyMetrics(registry, accepted, unheeded)
    return ProxyThread(lambda: Server(open_hub(proxy_settings, admin, metrics, clock, full)), "kafka-proxy")


def _proxy_settings(settings: Settings) -> "ProxySettings":
    from kafkawire.client.address import parse_servers
    from proxy.kafka.access import read_access
    from proxy.kafka.limits import KafkaLimits
    from proxy.kafka.settings import ProxySettings
    from proxy.tls import read_listener

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
        listener_tls=read_listener(given.certfile, given.keyfile, "proxy.kafka.certfile"),
        frame_bytes_max=given.frame_bytes_max,
        limits=KafkaLimits(
            login_frame_bytes_max=given.login_frame_bytes_max,
            login_timeout_s=given.login_timeout / 1000,
            held_bytes_max=given.held_bytes_max,
            plain_bytes_max=given.plain_bytes_max,
            frame_timeout_s=given.frame_timeout / 1000,
            idle_timeout_s=given.idle_timeout / 1000,
            connections_max=given.connections_max,
            connections_per_address_max=given.connections_per_address_max,
        ),
        drain_max_s=given.drain_max / 1000,
    )
