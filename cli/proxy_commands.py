"""`delayline proxy kafka`: proxies for unmodified clients, in processes of their own."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.failure import USAGE, Failure
from cli.options import ConfigPath
from cli.serve_commands import Address, read_settings, run_process
from delayline import __version__

if TYPE_CHECKING:
    from delayline.config import Settings

BootstrapPort = Annotated[int | None, typer.Option(help="Instead of proxy.kafka.port.")]
MetricsPort = Annotated[int | None, typer.Option(help="Instead of proxy.kafka.metrics_port.")]

proxies = typer.Typer(no_args_is_help=True, help="Run a proxy for unmodified clients.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    proxies.callback()(_group)
    proxies.command()(kafka)
    proxies.command(hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
        rocketmq
    )
    app.add_typer(proxies, name="proxy")


def _group() -> None:
    """Run a proxy for unmodified clients."""


def kafka(config: ConfigPath = None, port: BootstrapPort = None, metrics_port: MetricsPort = None) -> None:
    """Run the Kafka proxy alone. Several may share its ports on one machine, each with a metrics port of its own."""
    settings = read_settings(config, {"proxy.kafka.port": port, "proxy.kafka.metrics_port": metrics_port})
    from delayline.errors import ConfigError

    if settings.mq.kind != "kafka":
        raise ConfigError('mq.kind: the Kafka proxy stands before Kafka brokers, so it must be "kafka".')
    if settings.proxy.kafka.port == 0:
        raise ConfigError("proxy.kafka.port: the Kafka proxy needs a port.")
    from cli.assembly import proxy_alone

    address = Address(settings.worker.host, settings.proxy.kafka.metrics_port, "proxy.kafka.metrics_port")
    run_process(settings, proxy_alone, address, _welcome)


def rocketmq() -> None:
    """Run the RocketMQ proxy: not built yet."""
    raise Failure("the RocketMQ proxy is not built yet", USAGE)


def _welcome(settings: "Settings", url: str, queue: str) -> str:
    proxy = settings.proxy.kafka
    return (
        f"Delayline {__version__} Kafka proxy ({queue}); clients bootstrap from "
        f"{proxy.advertised_host}:{proxy.port}; metrics on {url}/metrics"
    )
