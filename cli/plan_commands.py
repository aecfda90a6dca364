"""`delayline topics plan`: the topics that Delayline needs of its own, before it needs them."""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.options import ConfigPath
from cli.tables import show_json, show_rows

if TYPE_CHECKING:
    from delayline.config import Settings
    from mq.kafka.admin.buffers import Change

COLUMNS = ("topic", "what", "partitions", "replicas", "settings")

AsJson = Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")]


def plan(
    config: ConfigPath = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Create and change them, even if mq.topics_create forbids it to servers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show which topics of Delayline's own are to be made or changed for the topics that take delays (Kafka)."""
    from cli.queues import refuse_rocketmq
    from delayline.config import load_settings
    from delayline.process import logs

    settings = load_settings(config, {}, os.environ, Path.cwd())
    refuse_rocketmq(settings, "delayline topics plan")
    logs.configure(settings.log.format, "error")
    changes = [] if settings.mq.kind == "embedded" else _on_kafka(settings, apply)
    if as_json:
        show_json({"changes": [_document(change) for change in changes], "applied": apply})
        return
    if changes:
        show_rows(COLUMNS, [_row(change, apply) for change in changes])
    typer.echo(_summary(settings, changes, apply), err=bool(changes))


def _on_kafka(settings: "Settings", apply: bool) -> "Sequence[Change]":
    """The changes, carried out where that is wanted. Raises QueueError."""
    from cli.queues import open_kafka
    from delayline.clock import SystemClock

    operator = settings.model_copy(update={"mq": settings.mq.model_copy(update={"topics_create": True})})
    with closing(open_kafka(operator, SystemClock())) as queue:
        targets = [topic for topic in queue.topics() if settings.is_delay_enabled(topic)]
        changes = queue.plan(targets)
        if apply:
            queue.carry_out({topic: settings.rules_for(topic) for topic in targets})
    return changes


def _summary(settings: "Settings", changes: "Sequence[Change]", apply: bool) -> str:
    if settings.mq.kind == "embedded":
        return "nothing is needed: the embedded queue makes what it needs"
    needed = sum(change.is_needed for change in changes)
    if apply or not needed:
        return f"{needed} topics made or changed" if needed else "nothing is needed: every topic is as it must be"
    return f"{needed} topics to be made or changed: --apply does it, or a server at the first delayed message"


def _row(change: "Change", applied: bool) -> tuple[Any, ...]:
    before, after = change.partitions_before, change.partitions
    done = {"make": "made", "change": "changed", "ok": "ok"} if applied else {}
    partitions = after if before in (0, after) else f"{before} -> {after}"
    settings = [_setting(key, old, new) for key, (old, new) in sorted(change.settings.items())]
    what = _what(change)
    replicas = _replicas(change.replicas) if what == "make" else ""
    return change.topic, done.get(what, what), partitions, replicas, settings


def _what(change: "Change") -> str:
    if change.partitions_before == 0:
        return "make"
    return "change" if change.is_needed else "ok"


def _setting(key: str, old: str, new: str) -> str:
    return f"{key}={old}->{new}" if old else f"{key}={new}"


def _replicas(replicas: int) -> int | str:
    return "default" if replicas < 0 else replicas


def _document(change: "Change") -> Mapping[str, Any]:
    settings = {key: {"before": old or None, "after": new} for key, (old, new) in change.settings.items()}
    return {
        "topic": change.topic,
        "what": _what(change),
        "partitions": {"before": change.partitions_before, "after": change.partitions},
        "replicas": _replicas(change.replicas),
        "settings": settings,
    }
