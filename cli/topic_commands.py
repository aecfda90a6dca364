"""Commands about topics: topics (show, create, delete, plan), histogram, pause, resume, purge, undo."""

from typing import Annotated, Any
from urllib.parse import quote

import typer
from typer.core import TyperGroup

from cli.asking import confirm, counted
from cli.failure import Failure
from cli.http_client import DEFAULT_URL, LONG_S, HttpClient, topic_path
from cli.options import DryRun, Json, NoUndo, Url, Yes
from cli.plan_commands import plan
from cli.tables import note_missing, note_undo, show_fields, show_json, show_rows
from delayline.times import format_moment, parse_moment_ms

TOPIC_COLUMNS = (
    "name",
    "partitions",
    "delay_enabled",
    "pending",
    "repeats",
    "due_backlog",
    "next_due_at",
    "ingest_lag",
    "paused",
)
SHARD_COLUMNS = (
    "partition",
    "state",
    "pending",
    "repeats",
    "due_backlog",
    "next_due_at",
    "ingest_lag",
    "owner_epoch",
)
UNDO_COLUMNS = ("id", "of", "opened_at", "until")
BAR_CHARS = 40

Topic = Annotated[str, typer.Argument(help="The topic's name.")]


class ShowFirst(TyperGroup):
    """`topics orders` is short for `topics show orders`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


group = typer.Typer(
    cls=ShowFirst,
    help="List, make and delete topics; `topics TOPIC` shows one with its shards; `topics plan` looks at Kafka.",
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group.command()(show)
    group.command()(create)
    group.command()(delete)
    group.command()(plan)
    app.add_typer(group, name="topics")
    for command in (histogram, pause, resume, purge, undo):
        app.command()(command)


def show(
    topic: Annotated[str | None, typer.Argument(help="One topic; else all.")] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List the topics, or show one, and each of its shards."""
    answer = HttpClient(url).get("/v1/topics" if topic is None else topic_path(topic))
    if as_json:
        show_json(answer)
    elif topic is not None:
        _show_topic(answer)
    elif rows := answer["topics"]:
        show_rows(TOPIC_COLUMNS, [[row[name] for name in TOPIC_COLUMNS] for row in rows])
    else:
        typer.echo("no topics yet: the first message sent to one makes it")


def create(
    topic: Topic,
    partitions: Annotated[int | None, typer.Option(help="4 unless given.")] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Make a topic. (The first message to one makes it, too.)"""
    wanted: dict[str, Any] = {"name": topic}
    answer = HttpClient(url).post(
        "/v1/topics", wanted if partitions is None else {**wanted, "partitions": partitions}
    )
    show_json(answer) if as_json else typer.echo(f"{topic}  made, {counted(answer['partitions'], 'partition')}")


def delete(
    topic: Topic,
    force: Annotated[bool, typer.Option("--force", help="Cancel pending messages first.")] = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Delete a topic, with everything that was delivered into it. Refused if messages are pending, unless forced."""
    what = "everything in it, and cancel what waits" if force else "everything in it"
    confirm(f"Delete {topic} and {what}?", yes=yes)
    answer = HttpClient(url).delete(topic_path(topic) + ("?force=true" if force else ""), LONG_S)
    cancelled = f", {counted(answer['cancelled'])} cancelled" if answer["cancelled"] else ""
    show_json(answer) if as_json else typer.echo(f"{topic}  deleted{cancelled}")


def _show_topic(answer: dict[str, Any]) -> None:
    shards = answer.pop("shards")
    show_fields(answer)
    typer.echo()
    show_rows(SHARD_COLUMNS, [["" if row[name] is None else row[name] for name in SHARD_COLUMNS] for row in shards])


def histogram(
    topic: Topic,
    bucket: Annotated[
        str | None, typer.Option(help="Whole minutes, beyond a day whole days; 1m unless given.")
    ] = None,
    start: Annotated[str | None, typer.Option("--from", help="Moment; else now.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Moment; else 60 buckets later.")] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show how many pending messages are due when. Empty buckets are left out."""
    answer = HttpClient(url).get(topic_path(topic, "/histogram"), bucket=bucket, **{"from": start, "to": end})
    if as_json:
        show_json(answer)
    else:
        show_rows(("due_from", "messages", ""), _bars(answer))
    note_missing(answer)


def _bars(answer: dict[str, Any]) -> list[tuple[str, int, str]]:
    start_ms, counts = parse_moment_ms(answer["from"]), answer["counts"]
    moments = (format_moment(start_ms + n * answer["bucket_ms"]) for n in range(len(counts)))
    rows = [("before", answer["before"]), *zip(moments, counts, strict=True), ("after", answer["after"])]
    most = max(number for _, number in rows) or 1
    return [
        (name, number, "#" * -(-number * BAR_CHARS // most))
        for name, number in rows
        if number or name in ("before", "after")
    ]


def pause(topic: Topic, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Stop delivering a topic's pending messages until it is resumed. Messages are still accepted."""
    _control(url, topic, ":pause", "paused", as_json)


def resume(topic: Topic, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Resume a paused topic; messages that fell due meanwhile are delivered at once."""
    _control(url, topic, ":resume", "resumed", as_json)


def _control(url: str, topic: str, what: str, done: str, as_json: bool) -> None:
    answer = HttpClient(url).post(topic_path(topic, what), None)
    show_json(answer) if as_json else typer.echo(f"{topic}  {done}")
    _check_decided(answer)


def purge(
    topic: Topic,
    dry_run: DryRun = False,
    no_undo: NoUndo = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Cancel all pending messages of a topic. Delivered messages stay."""
    client = HttpClient(url)
    if dry_run or not yes:
        found = client.post(topic_path(topic, ":purge?dry_run=true"), None)
        if dry_run:
            show_json(found) if as_json else typer.echo(f"{counted(found['matched'])} would be cancelled")
            note_missing(found)
            return
        confirm(f"Cancel {counted(found['matched'])}, all that wait in {topic}?", yes=yes)
    answer = client.post(topic_path(topic, ":purge?undo=false" if no_undo else ":purge"), None, LONG_S)
    show_json(answer) if as_json else typer.echo(f"{counted(answer['cancelled'])} cancelled")
    note_undo(topic, answer)
    _check_decided(answer)


def undo(
    topic: Topic,
    undo_id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="As `purge` or `cancel` has shown it; else what can be undone is listed."),
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Bring back what a purge, or a cancel of many, has cancelled. Asked again, nothing comes back twice."""
    client = HttpClient(url)
    if undo_id is None:
        _list_undos(client, topic, as_json)
        return
    answer = client.post(topic_path(topic, f":undo?id={quote(undo_id, safe='')}"), None, LONG_S)
    before = f", {counted(answer['restored_before'])} before" if answer["restored_before"] else ""
    show_json(answer) if as_json else typer.echo(f"{counted(answer['restored'])} back{before}")


def _list_undos(client: HttpClient, topic: str, as_json: bool) -> None:
    """All of them, newest first."""
    undos = client.pages(topic_path(topic, "/undos"), "undos")["undos"]
    if as_json:
        show_json({"undos": undos})
    elif undos:
        show_rows(UNDO_COLUMNS, [[row[name] for name in UNDO_COLUMNS] for row in undos])
    else:
        typer.echo("nothing can be undone")


def _check_decided(answer: dict[str, Any]) -> None:
    """Raises Failure."""
    if not answer["complete"]:
        note_missing(answer)
        raise Failure("stored, but not decided everywhere yet; it will be")
