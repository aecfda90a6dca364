"""Names in which `*` and `?` stand for other characters."""

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

EVERY = "*"
STAR, MARK = re.escape("*"), re.escape("?")

Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Patterns = Annotated[tuple[Pattern, ...], msgspec.Meta(min_length=1, max_length=1000)]


def any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    """A pattern that matches from the beginning to the end. `[` and `]` stand for themselves."""
    escaped = (re.escape(one).replace(STAR, ".*").replace(MARK, ".") for one in patterns)
    return re.compile(f"(?:{'|'.join(escaped)})\\Z", re.DOTALL)
