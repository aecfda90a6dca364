"""How ACLs are printed: a table, command lines of kafka-acls.sh, JSON."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from cli.tables import show_json, show_rows
from mq.kafka.admin.acl import Acl, Pattern, without_implied

if TYPE_CHECKING:
    from cli.acl_check import Verdict
    from cli.kafka_acls import Need
    from delayline.config import Settings

COLUMNS = ("resource", "pattern", "name", "operation", "roles", "for")


class Shown(NamedTuple):
    """What every form of output is about."""

    roles: Sequence[str]
    principals: Sequence[str]
    servers: str
    command_config: Path | None


def show(form: str, shown: Shown, needs: "Sequence[Need]") -> None:
    """What is needed."""
    if form == "json":
        show_json({"principals": shown.principals, "roles": shown.roles, "acls": [document(need) for need in needs]})
    elif form == "commands":
        _show_commands([need.acl for need in needs], shown, shown.principals)
    else:
        typer.echo(f"for {', '.join(shown.principals)}:")
        show_rows(COLUMNS, [_row(need) for need in needs])


def note_topics(settings: "Settings") -> None:
    """On standard error, where no topic takes delays: the rights on topics of users are left out then."""
    if not settings.delay.topics:
        typer.echo("no topic takes delays: without delay.topics there are no ACLs for topics of yours", err=True)


def note_none() -> None:
    """On standard error."""
    typer.echo("the brokers hold no ACL at all: have they an authorizer?", err=True)


def show_verdicts(form: str, shown: Shown, verdicts: "Mapping[str, Verdict]") -> None:
    """What is missing, by principal; as commands, those that add it."""
    if form == "json":
        show_json({"roles": shown.roles, "principals": [_judged(*one) for one in verdicts.items()]})
        return
    for principal, verdict in verdicts.items():
        if form == "commands":
            _show_commands([need.acl for need in verdict.missing], shown, [principal])
        else:
            _show_verdict(principal, verdict)
        _note_rest(principal, verdict)


def _show_verdict(principal: str, verdict: "Verdict") -> None:
    if not verdict.missing:
        typer.echo(f"{principal}: nothing is missing")
        return
    typer.echo(f"{principal}: {len(verdict.missing)} missing")
    show_rows(COLUMNS, [_row(need) for need in verdict.missing])


def _note_rest(principal: str, verdict: "Verdict") -> None:
    """On standard error: neither fails a check."""
    for need in verdict.unknown:
        typer.echo(f"{principal}: not known: {described(need.acl)}", err=True)
    for acl in verdict.superfluous:
        typer.echo(f"{principal}: not needed: {described(acl)}", err=True)


def described(acl: Acl) -> str:
    """`Read on topic delayline.*`."""
    kind, how, name = acl.pattern
    return f"{acl.operation} on {kind if kind == 'cluster' else f'{kind} {name}'}{'*' if how == 'prefixed' else ''}"


def _row(need: "Need") -> tuple[Any, ...]:
    kind, how, name = need.acl.pattern
    return kind, how, name, need.acl.operation, list(need.roles), "; ".join(need.why)


def document(need: "Need") -> Mapping[str, object]:
    """For programs; resources and operations have the names of kafka-acls.sh."""
    return {**_named(need.acl), "roles": need.roles, "why": "; ".join(need.why)}


def _named(acl: Acl) -> Mapping[str, object]:
    kind, how, name = acl.pattern
    return {"resource": kind, "pattern": how, "name": name, "operation": acl.operation}


def _judged(principal: str, verdict: "Verdict") -> Mapping[str, object]:
    return {
        "principal": principal,
        "ok": not verdict.missing,
        "missing": [document(need) for need in verdict.missing],
        "unknown": [document(need) for need in verdict.unknown],
        "superfluous": [_named(acl) for acl in verdict.superfluous],
    }


# --- command lines


def _show_commands(acls: Iterable[Acl], shown: Shown, principals: Sequence[str]) -> None:
    for words in command_lines(acls, principals, shown.servers, shown.command_config):
        typer.echo(shlex.join(words))


def command_lines(
    acls: Iterable[Acl], principals: Sequence[str], servers: str, command_config: Path | None
) -> Iterator[list[str]]:
    """Words of kafka-acls.sh: one command for all resources of one kind of pattern with which the same is allowed."""
    config = ["--command-config", str(command_config)] if command_config else []
    whom = [word for principal in principals for word in ("--allow-principal", principal)]
    for (kind, how, operations), group in groupby(_operations(acls).items(), _style):
        what = [word for operation in operations for word in ("--operation", operation)]
        names = [word for pattern, _ in group for word in _resource(pattern)]
        style = [] if kind == "cluster" else ["--resource-pattern-type", how]
        yield ["kafka-acls.sh", "--bootstrap-server", servers, *config, "--add", *whom, *what, *names, *style]


def _operations(acls: Iterable[Acl]) -> Mapping[Pattern, Sequence[str]]:
    allowed: dict[Pattern, list[str]] = {}
    for acl in without_implied(acls):
        allowed.setdefault(acl.pattern, []).append(acl.operation)
    return allowed


def _style(allowed: tuple[Pattern, Sequence[str]]) -> tuple[str, str, tuple[str, ...]]:
    pattern, operations = allowed
    return pattern.kind, pattern.how, tuple(operations)


def _resource(pattern: Pattern) -> tuple[str, ...]:
    return ("--cluster",) if pattern.kind == "cluster" else (f"--{pattern.kind}", pattern.name)
