"""How the commands of the reconcile job end: each exit code has one meaning, whichever of them ends with it."""

from enum import IntEnum

from delayline.errors import ConfigError
from reconcile.errors import CannotJudge


class Exit(IntEnum):
    """Of `delayline reconcile run` and `repair`, and of `python -m reconcile`. What was found beats what could not be
    judged; a ledger that does not add up beats both. docs/reconcile.md has the same table."""

    CLEAN = 0  # nothing is wrong, or what was wrong is mended
    FAILED = 1  # not carried out; the same command again goes on
    FOUND = 2  # something is wrong with messages, and the answer names which: findings, or what cannot be sent again
    CANNOT_JUDGE = 3  # the data for a verdict is not there
    USAGE = 64  # the command, the settings or the plan are wrong (EX_USAGE of sysexits): the same fails again


def exit_of(error: Exception) -> Exit:
    """Of what has ended a run."""
    if isinstance(error, ConfigError):
        return Exit.USAGE
    return Exit.CANNOT_JUDGE if isinstance(error, CannotJudge) else Exit.FAILED


IN_WORDS = ", ".join(f"{code.value} {code.name.lower().replace('_', ' ')}" for code in Exit)
"""`0 clean, 1 failed, ...`: for help and documents."""
