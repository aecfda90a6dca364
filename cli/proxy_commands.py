"""`delayline proxy kafka | rocketmq`: proxies for unmodified clients, in processes of their own."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import ConfigPath
from cli.serve_commands import Address, read_settings, run_process
from delayline import __version__

if TYPE_CHECKING:
    from delayline.config import Settings
    from delayline.config.proxies import ProxySection

BootstrapPort = Annotated[int | None, typer.Option(help="Instead of proxy.kafka.port.")]
MetricsPort = Annotated[int | None, typer.Option(help="Instead of proxy.kafka.metrics_port.")]
NameServerPort = Annotated[int | None, typer.Option(help="Instead of proxy.rocketmq.port.")]
RocketmqMetricsPort = Annotated[int | None, typer.Option(help="Instead of proxy.rocketmq.metrics_port.")]

_NAMES = {"kafka": "Kafka", "rocketmq": "RocketMQ"}

proxies = typer.Typer(no_args_is_help=True, help="Run a proxy for unmodified clients.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    proxies.callback()(_group)
    proxies.command()(kafka)
    proxies.command()(rocketmq)
    app.add_typer(proxies, name="proxy")


def _group() -> None:
    """Run a proxy for unmodified clients."""


def kafka(config: ConfigPath = None, port: BootstrapPort = None, metrics_port: MetricsPort = None) -> None:
    """Run the Kafka proxy alone. Several may share its ports on one machine, each with a metrics port of its own."""
    settings = read_settings(config, {"proxy.kafka.port": port, "proxy.kafka.metrics_port": metrics_port})
    _run(settings, "kafka", settings.proxy.kafka)


def rocketmq(
    config: ConfigPath = None, port: NameServerPort = None, metrics_port: RocketmqMetricsPort = None
) -> None:
    """Run the RocketMQ proxy alone. Several may share its ports on one machine, each with a metrics port of its
    own."""
    settings = read_settings(config, {"proxy.rocketmq.port": port, "proxy.rocketmq.metrics_port": metrics_port})
    _run(settings, "rocketmq", settings.proxy.rocketmq)


def _run(settings: "Settings", kind: str, proxy: "ProxySection") -> None:
    from delayline.errors import ConfigError

    name = _NAMES[kind]
    if settings.mq.kind != kind:
        raise ConfigError(f'mq.kind: the {name} proxy stands before {name} brokers, so it must be "{kind}".')
    if proxy.port == 0:
        raise ConfigError(f"proxy.{kind}.port: the {name} proxy needs a port.")
    from cli.assembly import proxy_alone

    address = Address(settings.worker.host, proxy.metrics_port, f"proxy.{kind}.metrics_port")
    run_process(settings, proxy_alone, address, _welcome)


def _welcome(settings: "Settings", url: str, queue: str) -> str:
    name = _NAMES[settings.mq.kind]
    return f"Delayline {__version__} {name} proxy ({queue}); {_for_clients(settings)}; metrics on {url}/metrics"


def _for_clients(settings: "Settings") -> str:
    if settings.mq.kind == "rocketmq":
        proxy = settings.proxy.rocketmq
        return f"the name server of clients is {proxy.advertised_host}:{proxy.port}"
    return f"clients bootstrap from {settings.proxy.kafka.advertised_host}:{settings.proxy.kafka.port}"
