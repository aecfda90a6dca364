"""Before something is done that cannot be undone."""

import sys

import typer

from cli.failure import USAGE, Failure


def confirm(question: str, *, yes: bool) -> None:
    """Go on if `yes` is given or the user confirms; raises Failure without a terminal to ask on, ends with 1 if the
    user declines."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(
            f"{question} Standard input is no terminal: use --yes to do it, or --dry-run to look first.", USAGE
        )
    typer.confirm(question, abort=True, err=True)


def counted(number: int, noun: str = "message") -> str:
    """`1 message`, `2 messages`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
