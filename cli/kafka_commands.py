"""`delayline kafka acls`: what each process needs of brokers with an authorizer, and whether it has it."""

import os
from collections.abc import Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.failure import FAILED, USAGE, Failure
from cli.options import ConfigPath

if TYPE_CHECKING:
    from cli.acl_check import Verdict
    from cli.kafka_acls import Need
    from delayline.config import Settings
    from mq.kafka.queue import KafkaQueue


class Role(StrEnum):
    """Of `cli.kafka_rights`, and all that is in one process."""

    WORKER = "worker"
    API = "api"
    PROXY = "proxy"
    RECONCILE = "reconcile"
    SERVE = "serve"


Format = Literal["text", "commands", "json"]

Roles = Annotated[
    list[Role] | None,
    typer.Option("--role", help="Of which process, repeatable; `serve` is worker, api and proxy. Else of all."),
]
Principals = Annotated[
    list[str] | None,
    typer.Option("--principal", help="Who gets it, User:NAME, repeatable; else the user of mq.properties."),
]
TransactionalIds = Annotated[
    list[str] | None,
    typer.Option(
        "--transactional-id",
        help="Of clients that send to these topics, NAME or BEGINNING*, repeatable; else all.",
    ),
]

commands = typer.Typer(no_args_is_help=True, help="Look at what Kafka's brokers allow.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands, name="kafka")


@commands.callback()
def group() -> None:
    """Look at what Kafka's brokers allow."""


@commands.command()
def acls(
    config: ConfigPath = None,
    role: Roles = None,
    principal: Principals = None,
    transactional_id: TransactionalIds = None,
    existing: Annotated[
        bool, typer.Option("--existing", help="Ask the brokers which topics match delay.topics, and name those.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Ask the brokers, and show what is missing; exit code 1 if anything is.")
    ] = False,
    form: Annotated[
        Format, typer.Option("--format", help="A table, command lines of kafka-acls.sh, or JSON.")
    ] = "text",
    command_config: Annotated[
        Path | None, typer.Option(help="A file that the printed command lines pass to kafka-acls.sh.")
    ] = None,
) -> None:
    """Show the access control lists that processes need on Kafka, for the namespace and topics of the settings."""
    from cli import acl_output
    from cli.kafka_acls import needs

    settings, principals, roles = _asked(config, role, principal)
    ids = transactional_id or ["*"]
    shown = acl_output.Shown(roles, principals, settings.mq.bootstrap_servers, command_config)
    if not check:
        topics = _existing(settings) if existing else None
        acl_output.show(form, shown, needs(settings, roles, topics, ids))
        acl_output.note_topics(settings)
        return
    with closing(_opened(settings)) as queue:
        topics = queue.topics()
        wanted = needs(settings, roles, topics if existing else _known(settings, topics), ids)
        verdicts = {one: _verdict(settings, queue, topics, wanted, one) for one in principals}
    acl_output.show_verdicts(form, shown, verdicts)
    raise typer.Exit(FAILED if any(verdict.missing for verdict in verdicts.values()) else 0)


def _asked(
    config: Path | None, role: Sequence[Role] | None, principal: Sequence[str] | None
) -> "tuple[Settings, Sequence[str], Sequence[str]]":
    """Settings, principals and roles. Raises ConfigError, Failure."""
    from cli.kafka_acls import check_principal, default_principal
    from cli.kafka_rights import ROLES, SERVE
    from delayline.config import load_settings
    from delayline.errors import ConfigError

    settings = load_settings(config, {}, os.environ, Path.cwd())
    if settings.mq.kind != "kafka":
        raise ConfigError(f"mq.kind: `delayline kafka acls` is for kafka, not {settings.mq.kind}")
    own = default_principal(settings)
    if not principal and own is None:
        raise Failure("--principal is needed: mq.properties do not show who we are to the brokers", USAGE)
    principals = [check_principal(one) for one in principal or [own or ""]]
    named = {one for name in role or ROLES for one in (SERVE if name == Role.SERVE else (name,))}
    return settings, list(dict.fromkeys(principals)), [one for one in ROLES if one in named]


def _opened(settings: "Settings") -> "KafkaQueue":
    from cli.queues import open_kafka
    from delayline.clock import SystemClock
    from delayline.process import logs

    logs.configure(settings.log.format, "critical")  # what goes wrong is the answer
    return open_kafka(settings, SystemClock())


def _existing(settings: "Settings") -> Sequence[str]:
    with closing(_opened(settings)) as queue:
        return queue.topics()


def _known(settings: "Settings", topics: Sequence[str]) -> Sequence[str] | None:
    """The topics, where patterns do not do without them: a beginning is looked for as such, as it is printed."""
    from cli.kafka_acls import targets
    from delayline.errors import ConfigError

    try:
        targets(settings, None)
    except ConfigError:
        return topics
    return None


def _verdict(
    settings: "Settings", queue: "KafkaQueue", topics: Sequence[str], wanted: "Sequence[Need]", principal: str
) -> "Verdict":
    """Raises Failure where nothing shows what the principal may do."""
    from cli.acl_check import ask, judge
    from cli.acl_output import note_none
    from cli.kafka_acls import default_principal

    is_own = principal == default_principal(settings)
    enabled = [topic for topic in topics if settings.is_delay_enabled(topic)]
    reported = ask(settings, queue, enabled, is_own=is_own)
    if reported.bindings is None and not is_own:
        raise Failure(
            f"the brokers do not list ACLs to us, which needs Describe on the cluster; "
            f"without it `--check` can look only at the principal that mq.properties log in with, not at {principal}"
        )
    if reported.bindings == []:
        note_none()
    return judge(settings, wanted, reported, principal)
