"""How a command ends when it could not do what it was asked."""

from delayline.errors import DelaylineError

FAILED, USAGE, NOT_FOUND, CONFLICT = 1, 2, 3, 4
DAMAGED = 3
"""What was acknowledged is not there, or cannot be read: `serve` and `scrub`."""


class Failure(DelaylineError):
    """One sentence for the person, and the exit code."""

    def __init__(self, sentence: str, exit_code: int = FAILED) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class NotAllowed(Failure):
    """The server has no rule that allows it."""
