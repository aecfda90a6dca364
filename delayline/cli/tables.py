"""How answers look to people."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_COLUMNS = 10_000
"""Wide enough to keep a row on one line where a program reads it."""


def show_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table with a heading."""
    _show(Table(*columns, box=None), rows)


def show_fields(fields: Mapping[str, Any]) -> None:
    """Names and values, one below the other; what is empty is left out."""
    rows = ((name, value) for name, value in fields.items() if value is not None and value != [])
    _show(Table(box=None, show_header=False), rows)


def _show(table: Table, rows: Iterable[Sequence[Any]]) -> None:
    for row in rows:
        table.add_row(*(Text(_written(value)) for value in row))  # Text: brackets in values are no markup
    Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS).print(table)


def _written(value: Any) -> str:
    """As people write it: `yes`, `1s 5s 10s`, `a=1 b=2`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    if isinstance(value, dict) and not any(isinstance(item, dict | list) for item in value.values()):
        return " ".join(f"{name}={_written(item)}" for name, item in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
