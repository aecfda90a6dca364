"""Commands about shards that have stalled: list, inspect, skip."""

import getpass
from base64 import b64decode
from typing import Annotated, Any

import typer

from cli.asking import confirm
from cli.failure import CONFLICT, USAGE, Failure
from cli.http_client import DEFAULT_URL, LONG_S, HttpClient, topic_path
from cli.options import DryRun, Json, Url, Yes
from cli.tables import show_fields, show_json, show_rows

COLUMNS = ("topic", "partition", "reason", "retry_in_ms", "detail")
SHOWN_BYTES = 200
AT_TAKEOVER = ("cursor_lost", "buffer_recreated", "buffer_truncated")

Topic = Annotated[str, typer.Argument(help="The topic whose messages wait in the shard.")]
Partition = Annotated[str, typer.Argument(help="The partition.")]

group = typer.Typer(no_args_is_help=True, help="List, inspect and skip stalled shards.")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for name, command in (("list", show), ("inspect", inspect), ("skip", skip)):
        group.command(name)(command)
    app.add_typer(group, name="shard")


def show(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the shards that have stalled, and why."""
    topics = HttpClient(url).get("/v1/topics")["topics"]
    found = [{"topic": topic["name"], **stall} for topic in topics for stall in topic["stalled"]]
    if as_json:
        show_json({"stalled": found})
    elif found:
        show_rows(COLUMNS, [[one[name] for name in COLUMNS] for one in found])
    else:
        typer.echo("no shard has stalled")


def inspect(topic: Topic, partition: Partition, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show why a shard has stalled, the record there, and what skipping it would do and lose."""
    found = _stall(HttpClient(url), topic, partition)
    show_json(found) if as_json else show_fields(_readable(found))


def skip(
    topic: Topic,
    partition: Partition,
    offset: Annotated[
        int | None,
        typer.Option(
            "--offset",
            min=0,
            help="The last offset to skip; default: where the shard stalled. After a lost "
            "cursor, the first one to deliver from.",
        ),
    ] = None,
    to_dead: Annotated[
        bool, typer.Option("--to-dead", help="Confirm that what is skipped in the log becomes a dead letter.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Skip what stalls a shard, and accept the loss: see `inspect` first.

    Exit codes: 0 done; 4 it is healthy, has changed since, or continues by itself.
    """
    client = HttpClient(url)
    found = _stall(client, topic, partition)
    name, through = f"{topic}.{partition}", found["offset"] if offset is None else offset
    if found["reason"] is None:
        raise Failure(f"{name} is healthy: nothing is skipped", CONFLICT)
    if found["does"] is None:
        raise Failure(
            f"{name} has stalled with the reason {found['reason']}: it continues by itself when the cause is fixed",
            CONFLICT,
        )
    if found["reason"] not in AT_TAKEOVER and not to_dead:
        raise Failure("what is skipped in the log becomes a dead letter: pass --to-dead", USAGE)
    stands = f"{name} has stalled at offset {found['offset']} ({found['reason']})"
    warning = f"{stands}. This {found['does']}. Lost: {found['loses']}."
    if dry_run:
        show_json(found) if as_json else typer.echo(warning)
        return
    confirm(f"{warning} Offset {through}: go on?", yes=yes)
    body = {"reason": found["reason"], "offset": found["offset"], "through": through, "by": getpass.getuser()}
    answer = client.post(_path(topic, partition, ":skip"), body, LONG_S)
    if as_json:
        show_json(answer)
    elif answer["reason"] is None:
        typer.echo(f"{name} continues")
    else:
        typer.echo(f"{name} continued to offset {answer['offset']}, and has stalled there: {answer['reason']}")


def _stall(client: HttpClient, topic: str, partition: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(_path(topic, partition, "/stall"))
    return found


def _path(topic: str, partition: str, what: str) -> str:
    return topic_path(topic, f"/shards/{partition}{what}")


def _readable(found: dict[str, Any]) -> dict[str, Any]:
    if found["reason"] is None:
        return {**found, "reason": "none: the shard is healthy", "suspect": None}
    record = b64decode(found["record"]) if found["record"] else b""
    suspect = found.pop("suspect") or {}
    named = {f"suspect_{name}": value for name, value in suspect.items()}
    return {**found, **named, "record": repr(record[:SHOWN_BYTES])[2:-1] if record else None}
