"""`delayline config check`: what a server would run with, and whether it would."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from prometheus_client import CollectorRegistry

from cli.options import ConfigPath
from cli.tables import show_rows

if TYPE_CHECKING:
    from delayline.config import Settings

commands = typer.Typer(no_args_is_help=True, help="Look at the configuration.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands, name="config")


@commands.callback()
def group() -> None:
    """Look at the configuration."""


@commands.command()
def check(config: ConfigPath = None) -> None:
    """Read the configuration as a server would; show every setting and where it comes from."""
    from delayline.config import describe, load_settings  # here, because the other commands need no settings
    from delayline.config.checks import KEYS

    settings = load_settings(config, {}, os.environ, Path.cwd())
    show_rows(("setting", "value", "from"), describe(settings))
    if settings.access.rules is not None:
        if settings.api.auth == KEYS:
            _check_access(settings, settings.access.rules)
        _check_quotas(settings, settings.access.rules)
    _check_certificates(settings)
    _check_data_key(settings)
    if settings.mq.kind == "kafka":
        _check_properties(settings.mq.client_properties())
    if settings.mq.kind == "rocketmq":
        from cli.queues import open_rocketmq
        from delayline.clock import SystemClock

        open_rocketmq(settings, SystemClock()).close()


def _check_access(settings: "Settings", rules: Path) -> None:
    """Raises ConfigError."""
    from api.access.files import AccessFiles
    from delayline.access.hashing import Hasher
    from delayline.process.watched import Watcher

    AccessFiles(rules, settings.access.keys, Watcher(), CollectorRegistry())
    Hasher()
    if settings.access.oidc.issuer:
        from cli.api_parts import open_provider
        from delayline.clock import SystemClock

        open_provider(settings.access.oidc, SystemClock(), CollectorRegistry())


def _check_quotas(settings: "Settings", path: Path) -> None:
    """Raises ConfigError."""
    from api.access.files import RulesFile
    from cli.api_parts import NOT_ROCKETMQ, quotas_reader
    from delayline.process.watched import Watcher

    quotas = RulesFile(path, quotas_reader(settings), Watcher(), CollectorRegistry()).rules.quotas
    if quotas and settings.proxy.rocketmq.port:
        typer.echo(f"{path}: {NOT_ROCKETMQ}.")


def _check_certificates(settings: "Settings") -> None:
    """Raises ConfigError."""
    from cli.certificates import answering_tls, api_tls, asking_tls, metrics_tls
    from delayline.process.watched import Watcher

    for read in (api_tls, metrics_tls, answering_tls, asking_tls):
        read(settings, Watcher())


def _check_data_key(settings: "Settings") -> None:
    """Raises ConfigError, QueueFormat."""
    from cli.queues import check_data_key

    check_data_key(settings)


def _check_properties(properties: Mapping[str, str]) -> None:
    """Raises ConfigError for those that a server would refuse."""
    from kafkawire.security.access import read_access
    from mq.kafka.properties import only_for_library, refuse_unspoken

    refuse_unspoken(properties)
    read_access(properties)
    if tuned := only_for_library(properties):
        typer.echo(f"mq.properties: only librdkafka's clients heed {', '.join(tuned)}; records go by another.")
