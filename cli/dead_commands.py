"""`delayline dead list | redrive`: messages that could not be delivered."""

from typing import Annotated, Any

import typer

from cli.asking import counted
from cli.failure import NOT_FOUND, USAGE, Failure
from cli.http_client import DEFAULT_URL, HttpClient, topic_path
from cli.options import DryRun, Json, Url
from cli.schedule_options import At, Delay, schedule_of
from cli.tables import show_json, show_rows

COLUMNS = ("id", "dead_at", "error_code", "reason", "message_id", "key")

group = typer.Typer(no_args_is_help=True, help="Look at messages that could not be delivered, and send them again.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group.command("list")(list_letters)
    group.command()(redrive)
    app.add_typer(group, name="dead")


def list_letters(
    topic: Annotated[str, typer.Argument(help="The topic that they were for.")],
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    everything: Annotated[bool, typer.Option("--all", help="All of them, however many.")] = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List a topic's dead letters and why they died, newest first."""
    answer = HttpClient(url).pages(topic_path(topic, "/dead"), "messages", None if everything else limit)
    if as_json:
        show_json(answer)
    elif rows := answer["messages"]:
        show_rows(COLUMNS, [["" if row.get(name) is None else row[name] for name in COLUMNS] for row in rows])
    else:
        typer.echo("no dead letters")
    if answer["next_before"] is not None:
        typer.echo("there may be more: --limit N, or --all", err=True)


def redrive(
    topic: Annotated[str, typer.Argument(help="The topic that they were for.")],
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of letters, as `dead list` shows them.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All letters that the topic has now.")] = False,
    delay: Delay = None,
    at: At = None,
    dry_run: DryRun = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Send dead letters to their topic again, now or later. The letters stay: redriven twice, they are sent twice."""
    if bool(ids) == everything:
        raise Failure("which letters? Give their ids, or --all", USAGE)
    client, schedule = HttpClient(url), schedule_of(delay=delay, at=at)
    body: dict[str, Any] = {"dry_run": dry_run, **({"schedule": schedule} if schedule else {})}
    path = topic_path(topic, "/dead:redrive")
    answer = _redrive_all(client, path, body) if everything else client.post(path, {**body, "ids": ids})
    if as_json:
        show_json(answer)
    elif dry_run:
        typer.echo(f"{counted(answer['matched'], 'letter')} would be sent")
    else:
        typer.echo(f"{counted(answer['redriven'], 'letter')} sent")
    if answer["not_found"]:
        raise Failure(f"{topic} has no such letters: {', '.join(answer['not_found'])}", NOT_FOUND)


def _redrive_all(client: HttpClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Up to this moment by the server's clock: what dies again meanwhile is not sent again and again."""
    until, after = client.get("/v1/info")["now"], None
    matched = redriven = 0
    while True:
        place = {"all": True, "until": until, "after": after}
        answer = client.post(path, {**body, **place})
        matched, redriven = matched + answer["matched"], redriven + answer["redriven"]
        after = answer["next_after"]
        if after is None:
            return {**answer, "matched": matched, "redriven": redriven}
