"""Commands about messages that a server has: get, list, cancel, reschedule, deliver."""

from typing import Annotated, Any

import typer

from cli.asking import confirm, counted
from cli.failure import FAILED, USAGE, Failure, NotAllowed
from cli.http_client import DEFAULT_URL, LONG_S, PAGE_SIZE, HttpClient, message_path, own_path
from cli.options import DryRun, Json, NoUndo, Url, Yes
from cli.schedule_options import At, Delay, moment_of, schedule_of
from cli.tables import note_missing, note_undo, show_fields, show_json, show_rows, when
from delayline.clock import SystemClock

SEARCH_S = 1.5
"""For a key, which may be far behind: with the last page's half second an answer comes within two."""

_CLOCK = SystemClock()
WAITING_COLUMNS = ("message_id", "due_at", "own_id", "key")
ENDED_COLUMNS = ("message_id", "due_at", "state", "ended_at", "lateness_ms", "reason")
EVENT_COLUMNS = ("at", "event", "by", "version")

MessageId = Annotated[str | None, typer.Argument(help="The message's id, as `send` printed it.")]
OfTopic = Annotated[str | None, typer.Option("--topic", help="With --own-id: the topic.")]
OwnId = Annotated[str | None, typer.Option(help="Instead of a message id: the id that its sender gave it.")]
IfMatch = Annotated[int | None, typer.Option(min=0, help="Only if the message has this version.")]
Key = Annotated[str | None, typer.Option(help="Only messages with exactly this key.")]
DueAfter = Annotated[str | None, typer.Option(help="Due at this moment or later.")]
DueBefore = Annotated[str | None, typer.Option(help="Due before this moment.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for command in (get, cancel, reschedule, deliver):
        app.command()(command)
    app.command("list")(list_messages)


def get(
    message_id: MessageId = None,
    topic: OfTopic = None,
    own_id: OwnId = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Show one message: when it is due, what it carries, what happened to it."""
    answer = _shown(HttpClient(url), _path(message_id, topic, own_id))
    if as_json:
        show_json(answer)
        return
    history = answer.pop("history", [])
    show_fields(answer)
    if history:
        typer.echo()
        show_rows(EVENT_COLUMNS, [[event[name] for name in EVENT_COLUMNS] for event in history])


def _shown(http: HttpClient, path: str) -> Any:
    """With what it carries, where that may be seen."""
    try:
        return http.get(path, view="full")
    except NotAllowed as refused:
        answer = http.get(path)
        typer.echo(f"key, value and headers are not shown: {refused}", err=True)
        return answer


def _path(message_id: str | None, topic: str | None, own_id: str | None) -> str:
    """Of the one message that is meant. Raises Failure."""
    if message_id is not None and topic is None and own_id is None:
        return message_path(message_id)
    if message_id is None and topic is not None and own_id is not None:
        return own_path(topic, own_id)
    raise Failure("which message? Give its id, or --topic and --own-id", USAGE)


# --- list


def list_messages(
    topic: Annotated[str | None, typer.Option(help="One topic; else all.")] = None,
    key: Key = None,
    own_id: Annotated[str | None, typer.Option(help="Only messages with this own id.")] = None,
    state: Annotated[
        str | None,
        typer.Option(help="pending (default), or how it ended: delivered, superseded ..."),
    ] = None,
    due_after: DueAfter = None,
    due_before: DueBefore = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    everything: Annotated[bool, typer.Option("--all", help="All of them, however many.")] = False,
    page_token: Annotated[str | None, typer.Option(help="Continue a search for a key that stopped early.")] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """List pending messages by due time, or recently ended ones, newest first."""
    asked = {"topic": topic, "key": key, "own_id": own_id, "state": state}
    asked |= {"due_after": due_after, "due_before": due_before}
    searches = key is not None and not everything
    answer = _pages(HttpClient(url), asked, None if everything else limit, page_token, SEARCH_S if searches else None)
    if as_json:
        show_json(answer)
    elif answer["messages"]:
        columns = WAITING_COLUMNS if state in (None, "pending") else ENDED_COLUMNS
        show_rows(columns, [_row(message, columns) for message in answer["messages"]])
    else:
        typer.echo("no messages" if answer["next_page_token"] is None else "none found so far")
    note_missing(answer)
    _note_more(answer, key)


def _note_more(answer: dict[str, Any], key: str | None) -> None:
    token = answer["next_page_token"]
    if token is None:
        return
    if key is None:
        typer.echo("there may be more: --limit N, or --all", err=True)
        return
    looked = f"looked at {answer['looked']:,} that wait, by due time, and there are more"
    typer.echo(f"{looked}; go on with --page-token {token}, or --all", err=True)


def _pages(
    client: HttpClient, asked: dict[str, Any], limit: int | None, token: str | None, search_s: float | None
) -> dict[str, Any]:
    """As many pages as are needed, as one answer: a page may be short, or empty, and not the last. A search ends with
    the first page behind `search_s`."""
    until_s = None if search_s is None else _CLOCK.monotonic_s() + search_s
    looked = 0
    rows: list[Any] = []
    missing: dict[tuple[str, str], Any] = {}
    while True:
        size = PAGE_SIZE if limit is None else min(limit - len(rows), PAGE_SIZE)
        page = client.get("/v1/messages", **asked, page_size=size, page_token=token)
        rows += page["messages"]
        looked += page.get("looked", 0)  # a server of an earlier version does not report it
        missing |= {(shard["topic"], str(shard["partition"])): shard for shard in page["missing_shards"]}
        token = page["next_page_token"]
        is_full = limit is not None and len(rows) >= limit
        if token is None or is_full or (until_s is not None and _CLOCK.monotonic_s() >= until_s):
            whole = {"messages": rows, "looked": looked, "missing_shards": list(missing.values())}
            return {**page, **whole, "complete": not missing}


def _row(message: dict[str, Any], columns: tuple[str, ...]) -> list[Any]:
    """An empty cell where there is nothing."""
    outcome = message.get("outcome") or {}
    known = {**message, "ended_at": outcome.get("at"), **{k: outcome.get(k) for k in ("lateness_ms", "reason")}}
    if known.get("key_base64") is not None:
        known["key"] = f"(base64) {known['key_base64']}"
    return ["" if known.get(name) is None else known[name] for name in columns]


# --- cancel


def cancel(
    message_id: MessageId = None,
    topic: Annotated[str | None, typer.Option(help="With --own-id; or alone: all messages of it that match.")] = None,
    own_id: OwnId = None,
    key: Key = None,
    due_after: DueAfter = None,
    due_before: DueBefore = None,
    if_match: IfMatch = None,
    dry_run: DryRun = False,
    no_undo: NoUndo = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Cancel one message, by its id or by --topic and --own-id; or all messages of a --topic that match."""
    client = HttpClient(url)
    many = message_id is None and own_id is None and topic is not None
    flags = [flag or None for flag in (dry_run, no_undo, yes)]
    _check_options(many, one_only=(if_match,), many_only=(key, due_after, due_before, *flags))
    if many:
        asked = {"topic": topic, "key": key, "due_after": moment_of(due_after), "due_before": moment_of(due_before)}
        asked = {name: value for name, value in asked.items() if value is not None}
        _cancel_many(client, asked, dry_run, no_undo, yes, as_json)
        return
    answer = client.delete(_path(message_id, topic, own_id), if_match=_tag(if_match))
    _show_done(answer, as_json, f"{message_id or own_id}  cancelled")


def _check_options(many: bool, one_only: tuple[Any, ...], many_only: tuple[Any, ...]) -> None:
    """Options that would be ignored are refused. Raises Failure."""
    if many and any(given is not None for given in one_only):
        raise Failure("--if-match is for one message, not for all that match", USAGE)
    if not many and any(given is not None for given in many_only):
        raise Failure("--key, --due-*, --dry-run, --no-undo and --yes are for all messages of a --topic", USAGE)


def _cancel_many(
    client: HttpClient, asked: dict[str, Any], dry_run: bool, no_undo: bool, yes: bool, as_json: bool
) -> None:
    """Count, ask where that is wanted, and cancel. Raises Failure."""
    path, body = "/v1/messages:cancel", {"filter": asked, "undo": not no_undo}
    if dry_run or not yes:
        found = client.post(path, {**body, "dry_run": True}, LONG_S)
        if dry_run:
            _show_many(found, as_json)
            return
        confirm(f"Cancel {counted(found['matched'])} of {asked['topic']}?", yes=yes)
    answer = client.post(path, {**body, "dry_run": False}, LONG_S)
    note_undo(asked["topic"], answer)
    _show_many(answer, as_json)


def _show_many(answer: dict[str, Any], as_json: bool) -> None:
    """How many messages an operation found and cancelled. Raises Failure where that is not known of all."""
    if as_json:
        show_json(answer)
    elif answer["dry_run"]:
        typer.echo(f"{counted(answer['matched'])} would be cancelled")
    else:
        late = f", {answer['too_late']} too late" if answer["too_late"] else ""
        typer.echo(f"{answer['cancelled']} of {counted(answer['matched'])} cancelled{late}")
    note_missing(answer)
    if answer["unknown"]:
        raise Failure(f"of {counted(answer['unknown'])} it is not known: ask again, cancelling twice does no harm")
    if not answer["complete"]:
        raise Failure("it ended early, and there may be more: ask again, that goes on")


# --- move


def reschedule(
    message_id: MessageId = None,
    topic: OfTopic = None,
    own_id: OwnId = None,
    delay: Delay = None,
    at: At = None,
    if_match: IfMatch = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Give a pending message another time, counted from now. It keeps its id."""
    body = {"schedule": schedule_of(delay=delay, at=at)}
    if not body["schedule"]:
        raise Failure("to which time? Give --delay or --at", USAGE)
    answer = HttpClient(url).patch(_path(message_id, topic, own_id), body, if_match=_tag(if_match))
    due = "" if "due_at" not in answer else f"  due {when(answer['due_at'])}  version {answer['version']}"
    _show_done(answer, as_json, f"{answer.get('message_id')}{due}")


def deliver(
    message_id: Annotated[str, typer.Argument(help="The message's id.")],
    if_match: IfMatch = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Deliver a pending message now."""
    answer = HttpClient(url).post(message_path(message_id, ":deliver"), None, if_match=_tag(if_match))
    _show_done(answer, as_json, f"{message_id}  due now, on its way")


def _tag(version: int | None) -> str | None:
    return None if version is None else f'"{version}"'


def _show_done(answer: Any, as_json: bool, sentence: str) -> None:
    """Raises Failure where the operation is stored and not decided yet."""
    undecided = isinstance(answer, dict) and "operation_id" in answer
    if as_json:
        show_json(answer)
    elif not undecided:
        typer.echo(sentence)
    if undecided:
        operation = answer["operation_id"]
        raise Failure(f"stored, but not decided yet; `delayline get {operation}` shows the result", FAILED)
