"""Commands that send to a running server and watch what it delivers: send, preview, tail, status."""

import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import Annotated, Any

import typer

from cli.failure import NOT_FOUND, USAGE, Failure
from cli.http_client import DEFAULT_URL, HttpClient, topic_path
from cli.options import Json, Url
from cli.schedule_options import (
    At,
    Backoff,
    Cron,
    Delay,
    Every,
    ExpireAt,
    Level,
    Missed,
    OnConflict,
    OwnId,
    Times,
    TimeZone,
    Ttl,
    schedule_of,
)
from cli.tables import distance, show_fields, show_json, when
from delayline.process.printable import printable
from delayline.times import parse_moment_ms

TOPIC_WAIT_S = 0.5


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for command in (send, preview, tail, status):
        app.command()(command)


def _value(typed: str) -> dict[str, Any]:
    """The bytes that were typed, piped or read, as they are: JSON read and written again would not be the same."""
    if typed == "-":
        data = sys.stdin.buffer.read()
    elif typed.startswith("@"):
        data = _read(Path(typed[1:]))
    else:
        return {"value": typed}
    try:
        return {"value": data.decode()}
    except UnicodeDecodeError:
        return {"value_base64": b64encode(data).decode()}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}", USAGE) from error


def _headers(pairs: list[str]) -> list[dict[str, str]]:
    headers = []
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or not name:
            raise Failure(f"a header is NAME=VALUE, not {pair!r}", USAGE)
        headers.append({"name": name, "value": value})
    return headers


def send(
    topic: str,
    value: Annotated[str, typer.Argument(help="What arrives, as it is; @FILE reads a file, - standard input.")],
    delay: Delay = None,
    at: At = None,
    level: Level = None,
    cron: Cron = None,
    time_zone: TimeZone = None,
    every: Every = None,
    times: Times = None,
    backoff: Backoff = None,
    missed: Missed = None,
    ttl: Ttl = None,
    expire_at: ExpireAt = None,
    own_id: OwnId = None,
    on_conflict: OnConflict = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(help="Your name for this one command: repeat it with the same name, and nothing more is sent."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Messages with one key keep their order in one partition.")] = None,
    partition: Annotated[
        str | None, typer.Option(help="Instead of a key: a number, or a name as answers have it.")
    ] = None,
    header: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, may be repeated.")] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Send a message, now, later, or again and again."""
    schedule = schedule_of(
        delay=delay,
        at=at,
        level=level,
        cron=cron,
        time_zone=time_zone,
        every=every,
        times=times,
        backoff=backoff,
        missed=missed,
        ttl=ttl,
        expire_at=expire_at,
        own_id=own_id,
        on_conflict=on_conflict,
    )
    body: dict[str, Any] = {**_value(value), "headers": _headers(header or [])}
    optional = {"key": key, "partition": partition_given(partition), "schedule": schedule}
    body |= {name: given for name, given in optional.items() if given not in (None, {})}
    answer = HttpClient(url).post(topic_path(topic, "/messages"), body, idempotency_key=idempotency_key)
    if as_json:
        show_json(answer)
    else:
        typer.echo(_sent(answer))


def partition_given(text: str | None) -> int | str | None:
    """A number where it is one: names of partitions never are."""
    return int(text) if text is not None and text.isdecimal() else text


def preview(
    delay: Delay = None,
    at: At = None,
    level: Level = None,
    cron: Cron = None,
    time_zone: TimeZone = None,
    every: Every = None,
    times: Times = None,
    backoff: Backoff = None,
    missed: Missed = None,
    ttl: Ttl = None,
    expire_at: ExpireAt = None,
    count: Annotated[int, typer.Option(min=1, max=100, help="How many due times of a repeat to show.")] = 5,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show when a message with this schedule would be due. Nothing is sent."""
    schedule = schedule_of(
        delay=delay,
        at=at,
        level=level,
        cron=cron,
        time_zone=time_zone,
        every=every,
        times=times,
        backoff=backoff,
        missed=missed,
        ttl=ttl,
        expire_at=expire_at,
    )
    answer = HttpClient(url).post("/v1/schedules:preview", {"schedule": schedule, "count": count})
    if as_json:
        show_json(answer)
        return
    accepted_at_ms = parse_moment_ms(answer["accepted_at"])
    for due_at in answer["due_at"]:
        typer.echo(f"{due_at}  {distance(parse_moment_ms(due_at) - accepted_at_ms)}")


def _sent(answer: dict[str, Any]) -> str:
    if answer["message_id"] is None:
        return f"{answer['topic']} partition {answer['partition']}  delivered"
    note = "  (it waits already: nothing was sent)" if answer["deduplicated"] else ""
    return f"{answer['message_id']}  due {when(answer['due_at'])}{note}"


def tail(
    topic: str,
    partition: Annotated[str | None, typer.Option(help="Only this partition: a number, or a name.")] = None,
    offset: Annotated[int | None, typer.Option(help="From this offset on (needs --partition).")] = None,
    limit: Annotated[int, typer.Option(min=0, max=1000, help="How many of the newest to show first.")] = 10,
    follow: Annotated[bool, typer.Option(help="Wait for more.")] = True,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show what is delivered to a topic, as it arrives."""
    client, path = HttpClient(url), topic_path(topic, "/records")
    where: dict[str, Any] = {"partition": partition, "offset": offset, "limit": limit}
    show = show_json if as_json else _print_record
    try:
        for record in _followed(client, path, where) if follow else client.get(path, **where)["records"]:
            show(record)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _followed(client: HttpClient, path: str, where: dict[str, Any]) -> Iterator[Any]:
    """The stream; a topic that does not exist yet is waited for."""
    waiting = False
    while True:
        try:
            yield from client.events(path, follow="sse", **where)
            typer.echo("the server stopped", err=True)
        except Failure as failure:
            if failure.exit_code != NOT_FOUND:
                raise
        else:
            return
        if not waiting:
            typer.echo("waiting for the topic's first message", err=True)
        waiting = True
        sleep(TOPIC_WAIT_S)


def _print_record(record: dict[str, Any]) -> None:
    headers = {header["name"]: header.get("value") for header in record["headers"]}
    clock = record["timestamp"].partition("T")[2][:12]
    name = headers.get("delayline-id") or f"{record['partition']}/{record['offset']}"
    typer.echo(printable(f"{clock}  {name}  {_content(record)}"))


def _content(record: dict[str, Any]) -> str:
    value = record["value"] if record.get("value_base64") is None else f"(base64) {record['value_base64']}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def status(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """What the server is and whether it is ready."""
    client = HttpClient(url)
    answer = client.get("/v1/info")
    client.get("/readyz")
    if as_json:
        show_json(answer)
    else:
        show_fields({**answer, "ready": True})
