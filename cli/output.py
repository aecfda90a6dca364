"""Output that cannot be written: its disk is full, or its reader has gone."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import typer

LOST = frozenset((errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO))


def check_lost(error: OSError, stream: TextIO) -> None:
    """Print nothing more there, also not what is buffered when the process ends. Raises the error again where it is
    another one."""
    if error.errno not in LOST:
        raise error
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())


@contextmanager
def beside_the_exit_code() -> Iterator[None]:
    """Print what has been done: it is done, and has its exit code, also where this cannot be written."""
    try:
        yield
    except OSError as error:
        check_lost(error, sys.stdout)
        note(f"delayline: cannot write to standard output: {error.strerror}")


def note(line: str) -> None:
    """A line on standard error, where that can be written."""
    try:
        typer.echo(line, err=True)
    except OSError as error:
        check_lost(error, sys.stderr)
