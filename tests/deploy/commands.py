"""Command lines of `delayline` that stand in files of others: whether there are such commands and options."""

from collections.abc import Sequence

from typer.main import get_command

from cli.main import app


def parse(arguments: Sequence[str]) -> str:
    """The command's name, as `worker` or `proxy kafka`. Raises click's UsageError where there is no such command or
    option; nothing is run."""
    command, rest, names = get_command(app), list(arguments), ["delayline"]
    context = command.make_context("delayline", rest, resilient_parsing=False)
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        names.append(name)
        context = command.make_context(name, rest, parent=context)
    return " ".join(names[1:])
