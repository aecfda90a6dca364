"""`delayline doctor`: what a newcomer or an operator gets wrong, looked at before it hurts."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import ConfigPath
from cli.tables import show_json

if TYPE_CHECKING:
    from cli.findings import Finding
    from delayline.config import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(doctor)


def doctor(config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Look at settings, disk, ports, brokers and topics; each line is ok, warn or fail, with advice below it."""
    from cli.findings import document, failed, lines
    from delayline.process import logs

    logs.configure("text", "critical")  # what goes wrong is a finding
    findings = []
    for finding in _examine(config):
        findings.append(finding)
        if not as_json:
            typer.echo("\n".join(lines([finding])))
    if as_json:
        show_json(document(findings))
    raise typer.Exit(int(failed(findings)))


def _examine(config: Path | None) -> "Iterator[Finding]":
    """As each is found: brokers may take their time."""
    from cli.findings import Finding
    from cli.machine_doctor import examine_machine
    from cli.serve_commands import read_settings
    from cli.shard_doctor import examine_shards
    from delayline.errors import ConfigError

    try:
        settings = read_settings(config, {})
    except ConfigError as error:
        yield Finding("fail", "settings", str(error), "docs/configuration.md has them all")
        return
    yield Finding("ok", "settings", "`delayline config check` shows them")
    yield from examine_machine(settings)
    yield from examine_shards(settings)
    if settings.mq.kind == "kafka":
        yield from _kafka(settings)


def _kafka(settings: "Settings") -> "Iterator[Finding]":
    from cli.findings import Finding
    from cli.queues import open_kafka
    from delayline.clock import SystemClock
    from delayline.errors import ConfigError
    from mq.errors import QueueError

    clock = SystemClock()
    try:
        queue = open_kafka(settings, clock)
    except (ConfigError, QueueError) as error:  # the latter: no token to log in with
        yield Finding("fail", "queue", str(error))
        return
    from cli.broker_features import features_of
    from cli.kafka_doctor import examine_kafka

    with closing(queue):
        yield from examine_kafka(settings, queue, features_of(settings, clock))
