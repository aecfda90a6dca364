"""`delayline scrub`: read everything on the disk, and list what is damaged."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli.failure import DAMAGED, USAGE, Failure
from cli.options import ConfigPath, Json
from cli.serve_commands import DataDir, read_settings
from cli.tables import show_json, show_rows

if TYPE_CHECKING:
    from delayline.encryption.data_key import DataKey
    from mq.embedded.scrub import Report

COLUMNS = ("topic", "partition", "start", "end", "records", "lost", "damage")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(scrub)


def scrub(config: ConfigPath = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Read all of the embedded queue and the time index, comparing every checksum. The server must be stopped.

    Exit codes: 0 whole, 1 failed, 2 refused, 3 damaged.
    """
    settings = read_settings(config, {"data_dir": data_dir})
    if settings.mq.kind != "embedded":
        raise Failure("scrub reads the embedded queue; Kafka's brokers check their own logs", USAGE)
    from cli.data_dir import SECOND_MARK, IndexWitness
    from cli.queues import data_key_of
    from delayline.process.dumps import forbid_dumps
    from mq.embedded.scrub import scrub as scrub_queue

    forbid_dumps(unless=settings.process.memory_dumps)
    data_key = data_key_of(settings)
    try:
        report = scrub_queue(
            settings.data_dir / "queue",
            settings.namespace,
            settings.data_dir / SECOND_MARK,
            IndexWitness(settings.data_dir / "index", accept_loss=False, data_key=data_key),
            data_key,
        )
        index = _index(settings.data_dir / "index", data_key, queue_is_whole=report.whole)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}; scrub as the user that runs the server") from error
    show_json(_document(report, index)) if as_json else _show(report, index)
    if not report.whole or index:
        raise SystemExit(DAMAGED)


def _index(folder: Path, data_key: "DataKey | None", *, queue_is_whole: bool) -> str:
    """What is wrong with the index; empty where nothing is. Raises StoreError where that is no damage; but for a
    damaged queue, of which the report counts more."""
    from store.errors import StoreDamaged, StoreError
    from store.rocks import verify

    try:
        verify(folder, data_key)
    except StoreDamaged as error:
        return str(error)
    except StoreError as error:
        if queue_is_whole:
            raise
        return str(error)
    return ""


def _document(report: "Report", index: str) -> dict[str, Any]:
    return {
        "whole": report.whole and not index,
        "partitions": [one._asdict() for one in report.partitions],
        "damage": list(report.damage),
        "losses_accepted": [
            {"at_ms": one.at_ms, "detail": one.detail, "records": one.records} for one in report.losses
        ],
        "index_damage": index,
    }


def _show(report: "Report", index: str) -> None:
    show_rows(COLUMNS, [list(one) for one in report.partitions])
    for one in report.losses:
        typer.echo(f"loss accepted earlier: {one.records} records; {one.detail}")
    for damage in report.damage:
        typer.echo(f"damaged: {damage}")
    if index:
        typer.echo(f"time index damaged: {index}. It is rebuilt from the queue: nothing is lost by it")
    typer.echo("whole" if report.whole and not index else "damaged: see above")
