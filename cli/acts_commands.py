"""`delayline access acts`: who did what."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer

from cli.http_client import DEFAULT_URL, HttpClient
from cli.options import Json, Url
from cli.tables import show_json, show_rows

COLUMNS = ("at", "principal", "operation", "topic", "status", "detail")
UNANSWERED = "no answer known"


def acts(
    principal: Annotated[str | None, typer.Option(help="Only what this one asked for.")] = None,
    operation: Annotated[str | None, typer.Option(help="Only this operation, such as purgeTopic.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only what was about this topic.")] = None,
    since: Annotated[str | None, typer.Option(help="At this moment or later.")] = None,
    until: Annotated[str | None, typer.Option(help="Before this moment.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many lines at most; an act has two.")] = 100,
    everything: Annotated[bool, typer.Option("--all", help="All of them, however many.")] = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List who did what, newest first, from the topic of `access.act_topic`."""
    filters = {"principal": principal, "operation": operation, "topic": topic, "since": since, "until": until}
    answer = HttpClient(url).pages("/v1/acts", "acts", None if everything else limit, **filters)
    if as_json:
        show_json(answer)
    elif rows := list(_rows(answer["acts"])):
        show_rows(COLUMNS, rows)
    else:
        typer.echo("no acts")
    if not answer["kept"]:
        typer.echo("this server does not store acts: access.act_topic is off", err=True)
    if answer["next_before"] is not None:
        typer.echo("there may be more: --limit N, or --all", err=True)


def _rows(lines: Sequence[dict[str, Any]]) -> Iterator[list[Any]]:
    """One for each act: the first line of one that is answered is behind the second, as the newest come first."""
    answered: set[str] = set()
    for line in lines:
        if line["event"] == "answered":
            answered.add(line["act"])
        elif line["act"] in answered:
            continue
        status = {"asked": UNANSWERED, "noticed": "noticed"}.get(line["event"], line.get("status"))
        yield [
            line["at"],
            line["principal"] or "",
            line["operation"],
            line["topic"] or "",
            str(status),
            _detail(line),
        ]


def _detail(line: dict[str, Any]) -> str:
    if left_out := line.get("left_out"):
        return f"{left_out} more were refused"
    return str(line.get("detail") or line.get("body") or line.get("query") or "")
