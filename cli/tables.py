"""How answers look to people."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from delayline.clock import SystemClock
from delayline.errors import MalformedDirective
from delayline.process.printable import printable, printable_json
from delayline.times import parse_moment_ms

if TYPE_CHECKING:
    from rich.table import Table

DAY_MS = 86_400_000
PIPE_COLUMNS = 10_000
"""Wide enough to keep a row on one line where a program reads it."""

CELL_CHARS_MAX = 400
"""Of a cell in a table of rows: longer than any id. `--json` has the whole."""


def show_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table with a heading."""
    from rich.table import Table  # here: commands without a table would wait 30 ms for it

    _show(Table(*columns, box=None), rows, CELL_CHARS_MAX)


def show_fields(fields: Mapping[str, Any]) -> None:
    """Names and values, one below the other; what is empty is left out."""
    from rich.table import Table

    rows = ((name, value) for name, value in fields.items() if value is not None and value != [])
    _show(Table(box=None, show_header=False), rows)


def _show(table: "Table", rows: Iterable[Sequence[Any]], chars_max: int | None = None) -> None:
    from rich.console import Console
    from rich.text import Text

    for row in rows:
        # Text: brackets in values are no markup
        table.add_row(*(Text(printable(_written(value), chars_max)) for value in row))
    console = Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS)
    with console.capture() as written:  # its own way ends the process where the reader has gone
        console.print(table)
    typer.echo(written.get(), nl=False)


def _written(value: Any) -> str:
    """As people write it: `yes`, `1s 5s 10s`, `a=1 b=2`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    if isinstance(value, dict) and not any(isinstance(item, dict | list) for item in value.values()):
        return " ".join(f"{name}={_written(item)}" for name, item in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def show_json(answer: Any) -> None:
    """One line for programs."""
    typer.echo(printable_json(json.dumps(answer, ensure_ascii=False)))


def when(due_at: str) -> str:
    """`00:00:05 (in 5.0 s)`, in UTC; with the date where it is not within a day."""
    try:
        left_ms = parse_moment_ms(due_at) - SystemClock().now_ms()
    except MalformedDirective:
        return due_at
    date, _, clock = due_at.rstrip("Z").partition("T")
    moment = clock[:8] if abs(left_ms) < DAY_MS else f"{date} {clock[:8]}"
    return f"{moment} ({distance(left_ms)})"


def distance(left_ms: int) -> str:
    """`in 5.0 s`, `in 2.0 h`, `past`."""
    if left_ms < 0:
        return "past"
    seconds = left_ms / 1000
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"in {seconds / size:.1f} {unit}"
    return f"in {seconds:.1f} s"


def note_missing(answer: Mapping[str, Any]) -> None:
    """Print, beside an answer, the shards whose part of it is missing."""
    if answer["missing_shards"]:
        names = ", ".join(f"{shard['topic']} partition {shard['partition']}" for shard in answer["missing_shards"])
        typer.echo(f"incomplete: no owner answers for {names}", err=True)


def note_undo(topic: str, answer: Mapping[str, Any]) -> None:
    """Print, beside an answer, how to undo it."""
    if (undo := answer["undo"]) is not None:
        typer.echo(f"until {undo['until']}: delayline undo {topic} {undo['id']}", err=True)
