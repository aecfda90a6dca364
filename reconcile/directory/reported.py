"""Which run was the last to report its result: exit code, webhook, metrics. `reported.json` holds its number.

A run is true once its manifest is there, and its findings are new in that run alone. If it fails or is killed between
the manifest and its exit code, the next run reports those findings as its own (`summing.summarise`). A result is
reported at least once: a process that is killed between its notices and this file leaves it to be repeated."""

import msgspec

from reconcile.directory.files import Files

REPORTED = "reported.json"


def begin(files: Files, last_run: int) -> None:
    """Before a run in a directory whose runs did not keep this file: theirs were reported."""
    if files.read(REPORTED) is None:
        note(files, last_run)


def is_reported(files: Files, run: int) -> bool:
    """A file that cannot be read counts as none: the last run is reported again."""
    try:
        return run <= msgspec.json.decode(files.read(REPORTED) or b"", type=int)
    except (ValueError, RecursionError):
        return run <= 0


def note(files: Files, run: int) -> None:
    """Raises OSError."""
    files.write(REPORTED, msgspec.json.encode(run))
